"""NLU++, banking: several intents and slots of a message by one pipeline, in the setups of the corpus (Casanueva et al. 2022).

    python scripts/nlupp.py                              18 folds to train, 2 to test, ten times: half an hour on 2 cores
    python scripts/nlupp.py --setup low --part 0 1 2     one fold to train, 19 to test; a part of it

Nothing is chosen by any score: every training takes the same number of epochs, and its last model is scored. Trainings that were
interrupted go on. Needs SPACY_ATTENTION_DATA.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from results import make_cell
from spacy.tokens import DocBin
from stamp import make_stamp
from thinc.api import Config
from trainings import CLASSIFIER, is_finished, read_json, run_training, score

from spacy_attention.evaluation.report import write_json

SOURCE = "nlupp/data/banking"
FOLDS = 20
BATCH_DOCS = 32
MEASURES = {"Intents, micro F1": "cats_micro_f", "Slots, F1": "ents_f"}


class Setup(NamedTuple):
    """How the folds are shared out.

    title (str): in the table. folds (int): that belong together, one after the other.
    tested (bool): whether these are tested on, or trained on. epochs (int): of a training.
    """

    title: str
    folds: int
    tested: bool
    epochs: int

    @property
    def parts(self) -> int:
        """Number of trainings."""
        return FOLDS // self.folds


SETUPS = {
    "low": Setup("1 fold to train, 19 to test", 1, tested=False, epochs=60),
    "mid": Setup("2 folds to train, 18 to test", 2, tested=False, epochs=40),
    "large": Setup("18 folds to train, 2 to test", 2, tested=True, epochs=15),
}


def main() -> None:
    """Train what the command line asks for and is not there yet, then write the table of all that is there."""
    args = _parse_args()
    folds = read_folds(Path(os.environ["SPACY_ATTENTION_DATA"]) / SOURCE)
    for name in args.setup:
        for part in range(SETUPS[name].parts) if args.part is None else args.part:
            run_part(name, part, folds, args)
    rows = [row for name in SETUPS if (row := make_row(name, args.output))]
    result = {
        "title": "NLU++, banking",
        **make_stamp("python scripts/nlupp.py --setup low mid large"),
        "columns": ["", *MEASURES],
        "rows": rows,
        "notes": (
            f"One pipeline with both heads on MiniLM, batches of {BATCH_DOCS}; a fixed number of epochs ("
            + ", ".join(f"{setup.epochs} for {name}" for name, setup in SETUPS.items())
            + "), the last model, threshold 0.5. Mean and standard deviation over the parts of a setup."
        ),
    }
    write_json(args.results / "nlupp.json", result)
    print("\n".join("  ".join(row) for row in rows))


def read_folds(folder: Path) -> list[list[dict[str, Any]]]:
    """Read the messages.

    folder (Path): with a JSON file per fold.
    RETURNS (list): per fold its messages: `text`, `cats` of all intents of the corpus, and `entities`.
    """
    folds = [json.loads((folder / f"fold{i}.json").read_text("utf8")) for i in range(FOLDS)]
    intents = sorted({intent for fold in folds for message in fold for intent in message.get("intents", [])})
    return [[_as_row(message, intents) for message in fold] for fold in folds]


def _as_row(message: dict[str, Any], intents: list[str]) -> dict[str, Any]:
    found = set(message.get("intents", []))
    slots = message.get("slots", {})
    return {
        "text": message["text"],
        "cats": {intent: float(intent in found) for intent in intents},
        "entities": sorted([*slot["span"], label] for label, slot in slots.items()),
    }


def run_part(name: str, part: int, folds: list[list[dict[str, Any]]], args: argparse.Namespace) -> None:
    """Train and score one model.

    name (str): of SETUPS. part (int): its number. folds (list): messages. args (Namespace): the command line.
    """
    setup, folder = SETUPS[name], args.output / f"{name}-{part}"
    together = range(part * setup.folds, (part + 1) * setup.folds)
    for file, inside in (("train", not setup.tested), ("test", setup.tested)):
        convert(
            [row for i, fold in enumerate(folds) if (i in together) == inside for row in fold],
            args.output / "data" / folder.name / file,
        )
    data = args.output / "data" / folder.name
    config = args.output / "nlupp.cfg"
    make_config(args.config).to_disk(config)
    steps = args.max_steps or setup.epochs * -(-len(DocBin().from_disk(data / "train.spacy")) // BATCH_DOCS)
    options = {
        "paths.train": data / "train.spacy",
        # Nothing is chosen with it; the test data has no part in training.
        "paths.dev": data / "train.spacy",
        "training.max_steps": steps,
        "training.eval_frequency": steps,
        "system.seed": 0,
    }
    run_training(config, folder, options)
    if not (folder / "test.json").exists():
        write_json(folder / "test.json", score(folder / "model-last", data / "test.spacy"))


def convert(rows: list[dict[str, Any]], path: Path) -> None:
    """rows (list): messages. path (Path): without its suffix; what is there already stays."""
    if path.with_suffix(".spacy").exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf8")
    command = [
        sys.executable,
        "-m",
        "spacy",
        "attention",
        "convert",
        str(path.with_suffix(".jsonl")),
        "-o",
        str(path.with_suffix(".spacy")),
    ]
    subprocess.run(command, check=True)


def make_config(path: Path) -> Config:
    """path (Path): of the recommended recipe. RETURNS (Config): for intents that do not exclude each other, uncalibrated."""
    config = Config().from_disk(path, interpolate=False)
    config["components"][CLASSIFIER]["exclusive"] = False
    config["training"]["before_to_disk"] = None
    return config


def make_row(name: str, output: Path) -> list[str]:
    """name (str): of SETUPS. output (Path): of the trainings. RETURNS (list[str]): cells; none where nothing has been trained."""
    setup = SETUPS[name]
    folders = [folder for part in range(setup.parts) if is_finished(folder := output / f"{name}-{part}")]
    scores = [read_json(folder / "test.json") for folder in folders if (folder / "test.json").exists()]
    if not scores:
        return []
    title = setup.title if len(scores) == setup.parts else f"{setup.title}, {len(scores)} of {setup.parts} parts"
    return [title, *(make_cell([each[key] for each in scores]) for key in MEASURES.values())]


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("configs/default.cfg"))
    parser.add_argument("--setup", nargs="+", choices=list(SETUPS), default=["large"])
    parser.add_argument("--part", type=int, nargs="+", help="numbers of trainings; default: all of a setup")
    parser.add_argument("--max-steps", type=int, default=0, help="stop early, to try the script; 0 for never")
    parser.add_argument("--output", type=Path, default=Path("training/nlupp"), help="corpora and models")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), help="folder of the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
