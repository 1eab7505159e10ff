"""Train our heads and spaCy's on WNUT-17, NCBI-disease and Banking77, from the same weights and for as many epochs, and score them on test.

    python scripts/compare_heads.py                                           all of it, four hours on 2 cores
    python scripts/compare_heads.py --corpus wnut17 --side ours --seed 0      a part; the table shows what there is so far

Each side is a pipeline of one head on MiniLM: ours from configs/default.cfg without the other head, spaCy's as scripts/compare_stock.py
configures it. The model that is best on dev is scored. Trainings that were interrupted go on, and what the table has is not done again.
Needs SPACY_ATTENTION_DATA.
"""

import argparse
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from compare_stock import write_stock_config
from kept_runs import Runs, fingerprint, is_kept, machines, make_run, read_runs
from results import make_cell
from spacy.tokens import DocBin
from stamp import make_stamp
from thinc.api import Config
from trainings import CLASSIFIER, RECOGNIZER, run_training, score, without_head

from spacy_attention.checkpoints import DEFAULT_CHECKPOINT, find_checkpoint
from spacy_attention.evaluation.report import write_json

SEEDS = (0, 1, 2)
SIDES = ("stock", "ours")
BATCH_DOCS = 32
EPOCHS = 8
PARTS = ("train", "dev", "test")
# What is kept of a model.
MEASURES = ("ents_f", "ents_p", "ents_r", "ents_ece", "cats_acc", "cats_macro_f", "cats_ece")


class Corpus(NamedTuple):
    """A public corpus.

    title (str): in the table.
    measure (str): key in the scores.
    train, dev, test (str): files below the data folder; without `dev` a tenth of `train` is held out, stratified, with seed 0.
    """

    title: str
    measure: str
    train: str
    dev: str | None
    test: str


CORPORA = {
    "wnut17": Corpus(
        "WNUT-17, F1 of entities",
        "ents_f",
        "wnut17/wnut17train.conll",
        "wnut17/emerging.dev.conll",
        "wnut17/emerging.test.annotated",
    ),
    "ncbi": Corpus(
        "NCBI-disease, F1 of entities",
        "ents_f",
        "ncbi_disease/NCBI-disease-IOB/train.tsv",
        "ncbi_disease/NCBI-disease-IOB/devel.tsv",
        "ncbi_disease/NCBI-disease-IOB/test.tsv",
    ),
    "banking77": Corpus("Banking77, accuracy", "cats_acc", "banking77/train.csv", None, "banking77/test.csv"),
}


def main() -> None:
    """Train what the command line asks for and is not there yet, then write the table of all that is there."""
    args = _parse_args()
    table = args.results / "heads.json"
    for name, side, seed in itertools.product(args.corpus, args.side, args.seed):
        run, folder = f"{name}-{side}-{seed}", args.output / f"{name}-{side}-{seed}"
        settings = fingerprint(args.config, {"run": run, "epochs": EPOCHS, "max_steps": args.max_steps})
        if is_kept(read_runs(table), run, settings):
            continue
        train(name, side, seed, args)
        scores = score(folder / "model-best", args.output / name / "test.spacy")
        # Another process may have written meanwhile.
        runs = read_runs(table) | {run: make_run(settings, {key: scores[key] for key in MEASURES if scores.get(key) is not None})}
        write_json(table, make_result(runs))
    print("\n".join("  ".join(row) for row in make_result(read_runs(table))["rows"]))


def make_result(runs: Runs) -> dict[str, Any]:
    """runs (Runs): all that have been scored. RETURNS (dict[str, Any]): the content of the file in docs/results/."""
    return {
        "title": "Our heads beside spaCy's, test",
        **make_stamp("python scripts/compare_heads.py"),
        "machine": machines(runs.values()),
        "columns": ["", *(corpus.title for corpus in CORPORA.values())],
        "rows": [make_row(side, runs) for side in SIDES],
        "notes": (
            f"One head on MiniLM, batches of {BATCH_DOCS}, {EPOCHS} epochs on both sides; the model that is best on dev, scored once on "
            f"test. Mean and standard deviation over seeds {', '.join(map(str, SEEDS))}, or of as many as brackets say."
        ),
        "runs": runs,
    }


def convert(name: str, folder: Path) -> None:
    """Convert a corpus, if that is not done.

    name (str): of CORPORA. folder (Path): gets train.spacy, dev.spacy and test.spacy.
    """
    corpus, data = CORPORA[name], Path(os.environ["SPACY_ATTENTION_DATA"])
    if all((folder / f"{part}.spacy").exists() for part in PARTS):
        return
    command = [sys.executable, "-m", "spacy", "attention", "convert"]
    for part in PARTS:
        source = getattr(corpus, part)
        if source is not None:
            subprocess.run([*command, str(data / source), "-o", str(folder / f"{part}.spacy")], check=True)
    if corpus.dev is None:
        whole = len(DocBin().from_disk(folder / "train.spacy"))
        held_out = ["--hold-out", f"{round(whole / 10)}:{folder / 'dev.spacy'}", "--seed", "0"]
        subprocess.run([*command, str(data / corpus.train), "-o", str(folder / "train.spacy"), *held_out], check=True)


def train(name: str, side: str, seed: int, args: argparse.Namespace) -> None:
    """Train one model.

    name (str): of CORPORA. side (str): of SIDES. seed (int): of the training. args (Namespace): the command line.
    """
    corpus, data = CORPORA[name], args.output / name
    convert(name, data)
    per_epoch = -(-len(DocBin().from_disk(data / "train.spacy")) // BATCH_DOCS)
    steps = args.max_steps or EPOCHS * per_epoch
    config = args.output / f"{name}-{side}.cfg"
    finds_entities = corpus.measure == "ents_f"
    if side == "stock":
        weights = args.checkpoint or find_checkpoint(DEFAULT_CHECKPOINT)
        write_stock_config(config, weights, steps=steps, heads=["ner" if finds_entities else "textcat"])
        choose_by("ents_f" if finds_entities else "cats_micro_f", config)
    else:
        without_head(args.config, CLASSIFIER if finds_entities else RECOGNIZER).to_disk(config)
    options = {
        "paths.train": data / "train.spacy",
        "paths.dev": data / "dev.spacy",
        "training.max_steps": steps,
        "training.eval_frequency": min(per_epoch, steps),
        "system.seed": seed,
    }
    run_training(config, args.output / f"{name}-{side}-{seed}", options)


def choose_by(score: str, config: Path) -> None:
    """score (str): by which the best model is chosen, as on our side. config (Path): of training, changed."""
    changed = Config().from_disk(config, interpolate=False)
    changed["training"]["score_weights"] = {score: 1.0}
    changed.to_disk(config)


def make_row(side: str, runs: Runs) -> list[str]:
    """side (str): of SIDES. runs (Runs): that have been scored. RETURNS (list[str]): cells, empty where nothing has been trained."""
    row = ["spaCy's head" if side == "stock" else "ours"]
    for name, corpus in CORPORA.items():
        values = [runs[run][corpus.measure] for seed in SEEDS if (run := f"{name}-{side}-{seed}") in runs]
        cell = make_cell(values) if values else ""
        row.append(cell if len(values) in (0, len(SEEDS)) else f"{cell} ({len(values)} of {len(SEEDS)} seeds)")
    return row


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("configs/default.cfg"), help="our side")
    parser.add_argument("--checkpoint", help="folder of the stock side's weights; default: MiniLM")
    parser.add_argument("--corpus", nargs="+", choices=list(CORPORA), default=list(CORPORA))
    parser.add_argument("--side", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--seed", type=int, nargs="+", choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--max-steps", type=int, default=0, help="stop early, to try the script; 0 for never")
    parser.add_argument("--output", type=Path, default=Path("training/heads"), help="corpora and models")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), help="folder of the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
