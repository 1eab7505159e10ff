"""Train one pipeline on SNIPS of which one half of the texts has only its intent annotated, the other half only its slots.

    python scripts/mixed_supervision.py               all of it, two hours on 2 cores
    python scripts/mixed_supervision.py --seed 0      a part; the table shows what there is so far

Beside it: a classifier and a recognizer alone, each on its half, and one pipeline for which all is annotated. Every training makes the same
number of passes over its texts, and goes on when it was interrupted. Needs `project run convert-snips` before.
"""

import argparse
import random
from pathlib import Path
from typing import NamedTuple

from results import make_cell
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from stamp import make_stamp
from trainings import CLASSIFIER, RECOGNIZER, is_finished, run_training, score, without_head

from spacy_attention.evaluation.report import write_json

SEEDS = (0, 1, 2)
BATCH_DOCS = 32
MEASURES = {"Intent accuracy": "cats_acc", "Slot F1": "ents_f", "Whole utterance": "utterance_acc"}


class Setting(NamedTuple):
    """What is trained on what.

    title (str): in the table.
    data (str): of the corpora that `write_corpora` makes.
    without (str | None): the head that is taken out of the pipeline.
    """

    title: str
    data: str
    without: str | None = None


SETTINGS = {
    "joint": Setting("one pipeline, half of the texts with intents, half with slots", "mixed"),
    "intents": Setting("classifier alone, on its half", "intents", RECOGNIZER),
    "slots": Setting("recognizer alone, on its half", "slots", CLASSIFIER),
    "full": Setting("one pipeline, all texts with both", "full"),
}
# Which measures a setting has.
MEASURED = {None: set(MEASURES.values()), RECOGNIZER: {"cats_acc"}, CLASSIFIER: {"ents_f"}}


def main() -> None:
    """Train what the command line asks for and is not there yet, then write the table of all that is there."""
    args = _parse_args()
    sizes = write_corpora(args.data / "train.spacy", args.output)
    for seed in args.seed:
        for name in args.setting:
            train(name, seed, sizes[SETTINGS[name].data], args)
    rows = make_rows(args)
    result = {
        "title": "Mixed supervision, SNIPS, test",
        **make_stamp("python scripts/mixed_supervision.py"),
        "columns": ["", *MEASURES],
        "rows": rows,
        "notes": (
            f"Training texts cut into two halves at random (seed 0). {args.epochs} passes over the texts of each training in batches of "
            f"{BATCH_DOCS}; the last model; mean and standard deviation over seeds {', '.join(map(str, SEEDS))}. Nothing was chosen by "
            "these figures."
        ),
    }
    write_json(args.results / "mixed-supervision.json", result)
    print("\n".join("  ".join(row) for row in rows))


def write_corpora(source: Path, folder: Path) -> dict[str, int]:
    """Write the training data of all settings.

    source (Path): fully annotated documents. folder (Path): gets a file per corpus.
    RETURNS (dict[str, int]): name of the corpus -> number of documents.
    """
    docs = list(DocBin().from_disk(source).get_docs(Vocab()))
    order = list(range(len(docs)))
    random.Random(0).shuffle(order)
    with_intents = set(order[: len(docs) // 2])
    intents = [without_slots(doc) for i, doc in enumerate(docs) if i in with_intents]
    slots = [without_intent(doc) for i, doc in enumerate(docs) if i not in with_intents]
    corpora = {"full": docs, "intents": intents, "slots": slots, "mixed": [*intents, *slots]}
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in corpora.items():
        DocBin(docs=part).to_disk(folder / f"{name}.spacy")
    return {name: len(part) for name, part in corpora.items()}


def without_slots(doc: Doc) -> Doc:
    """doc (Doc): annotated. RETURNS (Doc): its words and classes; of entities nothing is known, which is not the same as none."""
    bare = Doc(doc.vocab, words=[token.text for token in doc], spaces=[bool(token.whitespace_) for token in doc])
    bare.cats = dict(doc.cats)
    return bare


def without_intent(doc: Doc) -> Doc:
    """doc (Doc): annotated. RETURNS (Doc): a copy without classes."""
    bare = doc.copy()
    bare.cats = {}
    return bare


def train(name: str, seed: int, docs: int, args: argparse.Namespace) -> None:
    """Train one model.

    name (str): of SETTINGS. seed (int): of the training. docs (int): of its corpus.
    args (Namespace): the command line.
    """
    setting = SETTINGS[name]
    steps = args.max_steps or args.epochs * -(-docs // BATCH_DOCS)
    config = args.output / f"{name}.cfg"
    without_head(args.config, setting.without).to_disk(config)
    options = {
        "paths.train": args.output / f"{setting.data}.spacy",
        "paths.dev": args.data / "dev.spacy",
        "training.max_steps": steps,
        "training.eval_frequency": steps,
        "system.seed": seed,
    }
    run_training(config, args.output / f"{name}-{seed}", options)


def make_rows(args: argparse.Namespace) -> list[list[str]]:
    """Score all models that there are on the test data.

    args (Namespace): the command line.
    RETURNS (list[list[str]]): a row of cells per setting.
    """
    rows = []
    for name, setting in SETTINGS.items():
        ended = [folder for seed in SEEDS if is_finished(folder := args.output / f"{name}-{seed}")]
        if ended:
            scores = [score(folder / "model-last", args.data / "test.spacy") for folder in ended]
            title = setting.title if len(ended) == len(SEEDS) else f"{setting.title}, {len(ended)} of {len(SEEDS)} seeds"
            measured = MEASURED[setting.without]
            rows.append([title, *(make_cell([x[key] for x in scores]) if key in measured else "" for key in MEASURES.values())])
    return rows


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("configs/default.cfg"))
    parser.add_argument("--data", type=Path, default=Path("corpus/snips"), help="folder of train, dev and test")
    parser.add_argument("--setting", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--seed", type=int, nargs="+", choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--max-steps", type=int, default=0, help="stop early, to try the script; 0 for never")
    parser.add_argument("--output", type=Path, default=Path("training/mixed"), help="corpora and models")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), help="folder of the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
