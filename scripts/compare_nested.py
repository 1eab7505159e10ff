"""Nested entities of LitBank: ours and spaCy's `spancat`, on the same backbone, with the same batches, rates and epochs.

    python scripts/compare_nested.py                          both sides, an hour on 2 cores
    python scripts/compare_nested.py --side ours --seed 1     a part; the table shows what there is so far

Documents 80/10/10 with seed 0. `spancat` gets the spans of up to `LONGEST` tokens, ours those of up to the longest in the training data.
Trainings that were interrupted go on. Needs SPACY_ATTENTION_DATA.
"""

import argparse
import os
import random
from pathlib import Path
from typing import Any

import spacy
from results import make_cell
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from stamp import make_stamp
from thinc.api import Config
from trainings import CLASSIFIER, RECOGNIZER, is_finished, read_json, run_training, score, without_head

from spacy_attention.evaluation.report import write_json

SEEDS = (0, 1, 2)
SIDES = {"stock": "spaCy's `spancat`", "ours": "ours, `nested = true`"}
SOURCE = "litbank/entities/brat"
KEY = "sc"
MEASURES = {"P": "spans_sc_p", "R": "spans_sc_r", "F1": "spans_sc_f"}
BATCH_DOCS = 2
EPOCHS = 10
LONGEST = 12


def main() -> None:
    """Train what the command line asks for and is not there yet, then write the table of all that is there."""
    args = _parse_args()
    sizes = convert(Path(os.environ["SPACY_ATTENTION_DATA"]) / SOURCE, args.output)
    for seed in args.seed:
        for side in args.side:
            train(side, seed, sizes["train"], args)
            folder = args.output / f"{side}-{seed}"
            if not (folder / "test.json").exists():
                write_json(folder / "test.json", score(folder / "model-best", args.output / "test.spacy"))
    rows = [row for side in SIDES if (row := make_row(side, args.output))]
    result = {
        "title": "Nested entities, LitBank, test",
        **make_stamp("python scripts/compare_nested.py"),
        "columns": ["", *MEASURES],
        "rows": rows,
        "notes": (
            f"{sizes['train']} documents to train, {sizes['dev']} to choose, {sizes['test']} to test. One head on MiniLM, batches of "
            f"{BATCH_DOCS} documents, {EPOCHS} epochs; the model that is best on dev, scored once on test. `spancat` looks at spans of up "
            f"to {LONGEST} tokens. Mean and standard deviation over seeds {', '.join(map(str, SEEDS))}, or of as many as there are."
        ),
    }
    write_json(args.results / "nested.json", result)
    print("\n".join("  ".join(row) for row in rows))


def convert(source: Path, folder: Path) -> dict[str, int]:
    """Convert the documents and split them.

    source (Path): folder of brat files. folder (Path): gets train.spacy, dev.spacy and test.spacy.
    RETURNS (dict[str, int]): documents of each part.
    """
    nlp = spacy.blank("en")
    docs = [read_document(nlp, path) for path in sorted(source.glob("*.txt"))]
    random.Random(0).shuffle(docs)
    tenth = len(docs) // 10
    parts = {"dev": docs[:tenth], "test": docs[tenth : 2 * tenth], "train": docs[2 * tenth :]}
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        DocBin(docs=part).to_disk(folder / f"{name}.spacy")
    return {name: len(part) for name, part in parts.items()}


def read_document(nlp: Language, path: Path) -> Doc:
    """Read a text and its entities.

    nlp (Language): for its tokenizer. path (Path): of the text; the file `.ann` stands beside it.
    RETURNS (Doc): entities in `doc.spans`, expanded to whole tokens where they cut one.
    """
    doc = nlp.make_doc(path.read_text("utf8"))
    rows = [line.split("\t") for line in path.with_suffix(".ann").read_text("utf8").splitlines() if line.startswith("T")]
    found = set()
    for _, annotation, *_ in rows:
        label, start, end = annotation.split(" ")
        span = doc.char_span(int(start), int(end), label=label, alignment_mode="expand")
        found.add((span.start, span.end, label))
    doc.spans[KEY] = [spacy.tokens.Span(doc, *span) for span in sorted(found)]
    return doc


def train(side: str, seed: int, docs: int, args: argparse.Namespace) -> None:
    """Train one model. side (str): of SIDES. seed (int): of the training. docs (int): to train on. args (Namespace): the command line."""
    config = args.output / f"{side}.cfg"
    make_config(args.config, side).to_disk(config)
    per_epoch = -(-docs // BATCH_DOCS)
    steps = args.max_steps or EPOCHS * per_epoch
    options = {
        "paths.train": args.output / "train.spacy",
        "paths.dev": args.output / "dev.spacy",
        "training.max_steps": steps,
        "training.eval_frequency": min(2 * per_epoch, steps),
        "system.seed": seed,
    }
    run_training(config, args.output / f"{side}-{seed}", options)


def make_config(path: Path, side: str) -> Config:
    """path (Path): of the recommended recipe. side (str): of SIDES. RETURNS (Config): with one head for spans that can nest."""
    config = without_head(path, CLASSIFIER)
    if side == "ours":
        config["components"][RECOGNIZER]["nested"] = True
    else:
        del config["components"][RECOGNIZER]
        config["components"]["spancat"] = spancat()
        config["nlp"]["pipeline"][-1] = "spancat"
        # It has nothing to calibrate.
        config["training"]["before_to_disk"] = None
    config["training"]["score_weights"] = {"spans_sc_f": 1.0}
    config["training"]["batcher"]["size"] = BATCH_DOCS
    return config


def spancat() -> dict[str, Any]:
    """RETURNS (dict): the block of a stock span categorizer that listens to the backbone; its defaults but for the spans it is given."""
    listener = {
        "@architectures": "spacy-transformers.TransformerListener.v1",
        "grad_factor": 1.0,
        "pooling": {"@layers": "reduce_mean.v1"},
        "upstream": "*",
    }
    model = {
        "@architectures": "spacy.SpanCategorizer.v1",
        "reducer": {"@layers": "spacy.mean_max_reducer.v1", "hidden_size": 128},
        "scorer": {"@layers": "spacy.LinearLogistic.v1", "nO": None, "nI": None},
        "tok2vec": listener,
    }
    suggester = {"@misc": "spacy.ngram_range_suggester.v1", "min_size": 1, "max_size": LONGEST}
    return {
        "factory": "spancat",
        "spans_key": KEY,
        "threshold": 0.5,
        "max_positive": None,
        "model": model,
        "suggester": suggester,
    }


def make_row(side: str, output: Path) -> list[str]:
    """side (str): of SIDES. output (Path): of the trainings. RETURNS (list[str]): cells; none where nothing has been trained."""
    folders = [folder for seed in SEEDS if is_finished(folder := output / f"{side}-{seed}")]
    scores = [read_json(folder / "test.json") for folder in folders if (folder / "test.json").exists()]
    if not scores:
        return []
    title = SIDES[side] if len(scores) == len(SEEDS) else f"{SIDES[side]}, {len(scores)} of {len(SEEDS)} seeds"
    return [title, *(make_cell([each[key] or 0.0 for each in scores]) for key in MEASURES.values())]


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("configs/default.cfg"))
    parser.add_argument("--side", nargs="+", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--seed", type=int, nargs="+", choices=SEEDS, default=[0])
    parser.add_argument("--max-steps", type=int, default=0, help="stop early, to try the script; 0 for never")
    parser.add_argument("--output", type=Path, default=Path("training/nested"), help="corpora and models")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), help="folder of the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
