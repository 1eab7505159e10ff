"""Train spaCy's stock recipe and ours on the same split with the same weights, and print both.

Stock is `ner` + `textcat` as `spacy init config --gpu` writes it, with the checkpoint and the training plan
replaced: batches of 32 documents, a peak rate of 1e-4 with linear warm-up and decay. Each training has a
process of its own with the thread count given.

    python scripts/compare_stock.py                         one seed, two hours on 2 cores
    python scripts/compare_stock.py --seed 0 1 2            their means, which differ less by chance
    python scripts/compare_stock.py --only ours --seed 1    a part; the table shows all that there is so far
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spacy.cli.init_config import init_config
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_attention.checkpoints import DEFAULT_CHECKPOINT, find_checkpoint
from spacy_attention.evaluation.machine import describe_machine, machine_line
from spacy_attention.evaluation.predict import load_examples, load_pipeline, predict
from spacy_attention.evaluation.report import installed_versions, write_json
from spacy_attention.evaluation.utterance import (
    class_accuracy,
    compared_entities,
    is_exclusive,
    utterance_accuracy,
)

BATCH_DOCS = 32
PEAK_RATE = 1e-4
MEASURES = {"slot_f": "slot F1", "intent_acc": "intent accuracy", "utterance_acc": "whole utterance"}


def main() -> None:
    """Run what the command line asks for and print the table of all that the JSON file holds."""
    args = _parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    result_path = args.output / "compare.json"
    result = json.loads(result_path.read_text("utf8")) if result_path.exists() else {}
    for side, seed in itertools.product((args.only,) if args.only else ("stock", "ours"), args.seed):
        result.setdefault(side, {})[str(seed)] = run_side(side, seed, args)
        write_json(result_path, result)
    print_table(result)


def run_side(side: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Train one side and score it.

    side (str): `stock` or `ours`.
    seed (int): Of the training.
    args (argparse.Namespace): The command line.
    RETURNS (dict[str, Any]): Settings, seconds, and scores of the model that is better on dev.
    """
    folder = args.output / f"{side}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    docs = count_docs(args.train)
    per_epoch = math.ceil(docs / BATCH_DOCS)
    steps = args.max_steps or per_epoch * (args.epochs if side == "stock" else args.our_epochs)
    config = folder / "config.cfg" if side == "stock" else args.config
    if side == "stock":
        weights = args.checkpoint or find_checkpoint(DEFAULT_CHECKPOINT)
        write_stock_config(config, weights, steps=steps)
    started = time.perf_counter()
    train(config, folder, args, seed=seed, steps=steps, eval_frequency=min(per_epoch, steps))
    seconds = time.perf_counter() - started
    return {
        "settings": {"steps": steps, "seed": seed, "threads": args.threads},
        "train_docs": docs,
        "train_seconds_with_dev": seconds,
        "machine": machine_line(describe_machine()),
        "versions": installed_versions(),
        **score_best(folder, dev=args.dev, test=args.test),
    }


def write_stock_config(path: Path, weights: str, *, steps: int, heads: Sequence[str] = ("ner", "textcat")) -> None:
    """Write spaCy's own GPU config, changed only in checkpoint and training plan.

    path (Path): The file to write.
    weights (str): Folder of the checkpoint.
    steps (int): Number of updates.
    heads (Sequence[str]): Stock components.
    """
    config = init_config(lang="en", pipeline=list(heads), optimize="efficiency", gpu=True)
    config["components"]["transformer"]["model"]["name"] = weights
    training = config["training"]
    training["batcher"] = {"@batchers": "spacy.batch_by_sequence.v1", "size": BATCH_DOCS, "get_length": None}
    training["accumulate_gradient"] = 1
    training["max_epochs"], training["patience"] = 0, 0
    training["optimizer"]["learn_rate"] = {
        "@schedules": "warmup_linear.v1",
        "warmup_steps": min(250, max(1, steps // 10)),
        "total_steps": steps,
        "initial_rate": PEAK_RATE,
    }
    training["optimizer"]["grad_clip"] = 1.0
    training["logger"] = {"@loggers": "spacy.ConsoleLogger.v1", "progress_bar": True}
    config.to_disk(path)


def train(config: Path, folder: Path, args: argparse.Namespace, *, seed: int, steps: int, eval_frequency: int) -> None:
    """Run `spacy train` in its own process.

    config (Path): The training config.
    folder (Path): Where `model-best` and `model-last` go.
    args (argparse.Namespace): The command line.
    seed (int): Of the training.
    steps (int): Number of updates.
    eval_frequency (int): Updates between two looks at dev.
    """
    command = [sys.executable, "-m", "spacy", "train", str(config), "--output", str(folder)]
    command += ["--paths.train", str(args.train), "--paths.dev", str(args.dev)]
    command += ["--system.seed", str(seed)]
    command += ["--training.max_steps", str(steps), "--training.eval_frequency", str(eval_frequency)]
    threads = {name: str(args.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    subprocess.run(command, check=True, env={**os.environ, **threads})


def score_best(folder: Path, *, dev: Path, test: Path) -> dict[str, Any]:
    """Score `model-best` and `model-last` on dev, and the better one on test.

    `spacy train` looks at dev at whole multiples of its interval, so that the last weights may be unscored.

    folder (Path): What `spacy train` wrote.
    dev (Path): Development data.
    test (Path): Test data.
    RETURNS (dict[str, Any]): `model`, and the measures under `dev` and `test`.
    """
    dev_scores = {}
    for name in ("model-best", "model-last"):
        dev_scores[name] = score(load_pipeline(str(folder / name)), dev)
    best = max(dev_scores, key=lambda name: sum(dev_scores[name][measure] for measure in MEASURES))
    return {"model": best, "dev": dev_scores[best], "test": score(load_pipeline(str(folder / best)), test)}


def score(nlp: Language, path: Path) -> dict[str, float]:
    """Predict a corpus and compute the measures.

    nlp (Language): A trained pipeline.
    path (Path): Gold documents, `.spacy`.
    RETURNS (dict[str, float]): Slot F1 (exact spans, micro), intent and whole-utterance accuracy in [0, 1],
        words per second.
    """
    examples, seconds = predict(nlp, load_examples(nlp, path), progress=True)
    exclusive = is_exclusive(eg.predicted for eg in examples)
    return {
        "slot_f": slot_f(examples),
        "intent_acc": class_accuracy(examples, exclusive=exclusive) or 0.0,
        "utterance_acc": utterance_accuracy(examples, exclusive=exclusive) or 0.0,
        "words_per_second": sum(len(eg.predicted) for eg in examples) / seconds,
    }


def slot_f(examples: list[Example]) -> float:
    """Compute micro F1 over exact entity spans.

    examples (list[Example]): Predictions beside gold.
    RETURNS (float): F1 in [0, 1]; 0 without any entity.
    """
    pairs = [compared_entities(eg) for eg in examples]
    right = sum(len(gold & guess) for gold, guess in pairs)
    total = sum(len(gold) + len(guess) for gold, guess in pairs)
    return 2 * right / total if total else 0.0


def count_docs(path: Path) -> int:
    """Count the documents of a `.spacy` file.

    path (Path): The file.
    RETURNS (int): Number of documents.
    """
    return len(DocBin().from_disk(path))


def print_table(result: dict[str, Any]) -> None:
    """Print the measures of every side that was run, of several seeds their mean as well.

    result (dict[str, Any]): Side -> seed -> what `run_side` returned.
    """
    print(f"{'':22}" + "".join(f"{title:>18}" for title in MEASURES.values()))
    for (side, by_seed), split in itertools.product(result.items(), ("dev", "test")):
        rows = {f"{side} {split}, seed {seed}": values[split] for seed, values in by_seed.items()}
        if len(rows) > 1:
            means = {measure: statistics.mean(row[measure] for row in rows.values()) for measure in MEASURES}
            rows[f"{side} {split}, mean"] = means
        for name, row in rows.items():
            print(f"{name:22}" + "".join(f"{row[measure]:>18.4f}" for measure in MEASURES))


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, default=Path("corpus/snips/train.spacy"))
    parser.add_argument("--dev", type=Path, default=Path("corpus/snips/dev.spacy"))
    parser.add_argument("--test", type=Path, default=Path("corpus/snips/test.spacy"))
    parser.add_argument("--output", type=Path, default=Path("training/compare"), help="models and compare.json")
    parser.add_argument("--only", choices=("stock", "ours"), help="run one side; the file keeps the rest")
    parser.add_argument("--config", type=Path, default=Path("configs/default.cfg"), help="our side")
    parser.add_argument("--checkpoint", help="folder of the stock side's weights; default: MiniLM")
    parser.add_argument("--epochs", type=int, default=8, help="of the stock side")
    parser.add_argument("--our-epochs", type=int, default=8, help="of our side")
    parser.add_argument("--max-steps", type=int, default=0, help="stop early, to try the script; 0 for never")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    return parser.parse_args()


if __name__ == "__main__":
    main()
