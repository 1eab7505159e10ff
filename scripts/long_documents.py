"""Classify reviews of some 800 words by every pooling, and with texts cut at 512 pieces, on the same frozen backbone.

    python scripts/long_documents.py                                   all of it, an hour and a half on 2 cores
    python scripts/long_documents.py --setting mean cut --seed 0       a part; the table shows what there is so far

movie_reviews (Pang and Lee 2004), 80/10/10 by document, stratified, with seed 0. Trainings that were interrupted go on. Needs
SPACY_ATTENTION_DATA.
"""

import argparse
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from results import make_cell
from spacy.tokens import DocBin
from stamp import make_stamp
from thinc.api import Config
from trainings import RECOGNIZER, is_finished, read_json, run_training, score, without_head

from spacy_attention.evaluation.report import write_json

SEEDS = (0, 1, 2)
BATCH_DOCS = 32
EPOCHS = 20
EVALUATIONS = 5
SOURCE = "movie_reviews/movie_reviews.zip"
BACKBONE, CLASSIFIER = "attention_backbone", "attention_textcat"
CUT = 512


class Setting(NamedTuple):
    """How a document becomes one vector.

    title (str): in the table. pooling (str): of the classifier. cut (bool): whether it ends after one window of `CUT` pieces.
    """

    title: str
    pooling: str
    cut: bool = False


SETTINGS = {
    "mean": Setting("mean of all tokens", "mean"),
    "cls": Setting("first special piece of the first window (`cls`)", "cls"),
    "attention": Setting("mean weighted by a learned query (`attention`)", "attention"),
    "label": Setting("one learned query per class (`label`)", "label"),
    "cut": Setting(f"mean of the first {CUT} pieces, the rest cut off", "mean", cut=True),
}


def main() -> None:
    """Train what the command line asks for and is not there yet, then write the table of all that is there."""
    args = _parse_args()
    convert(args.output)
    for seed in args.seed:
        for name in args.setting:
            train(name, seed, args)
            folder = args.output / f"{name}-{seed}"
            if not (folder / "test.json").exists():
                write_json(folder / "test.json", score(folder / "model-best", args.output / "test.spacy"))
    rows = [row for name in SETTINGS if (row := make_row(name, args.output))]
    result = {
        "title": "Long documents, movie_reviews, test",
        **make_stamp("python scripts/long_documents.py"),
        "columns": ["", "Accuracy"],
        "rows": rows,
        "notes": (
            f"Windows of {CUT} pieces everywhere. The backbone is frozen and cached, the classifier learns for {EPOCHS} epochs; the model "
            "that is best on dev, scored once on test (200 reviews: one is half a point). Mean and standard deviation over seeds "
            f"{', '.join(map(str, SEEDS))}."
        ),
    }
    write_json(args.results / "long-documents.json", result)
    print("\n".join("  ".join(row) for row in rows))


def convert(folder: Path) -> None:
    """Convert the reviews, if that is not done. folder (Path): gets train.spacy, dev.spacy and test.spacy."""
    target, rows = folder / "train.spacy", folder / "reviews.jsonl"
    if target.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    reviews = list(read_reviews(Path(os.environ["SPACY_ATTENTION_DATA"]) / SOURCE))
    rows.write_text("".join(json.dumps(review, ensure_ascii=False) + "\n" for review in reviews), "utf8")
    command = [sys.executable, "-m", "spacy", "attention", "convert", str(rows), "-o", str(target), "--seed", "0"]
    held_out = [part for name in ("dev", "test") for part in ("--hold-out", f"{len(reviews) // 10}:{folder / name}.spacy")]
    subprocess.run([*command, *held_out], check=True)


def read_reviews(path: Path) -> Iterator[dict[str, str]]:
    """path (Path): zip with a text file per review, in a folder per class. YIELDS (dict): `text` and `label`."""
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            parts = Path(name).parts
            if len(parts) == 3 and name.endswith(".txt"):
                yield {"text": archive.read(name).decode("utf8"), "label": parts[1]}


def train(name: str, seed: int, args: argparse.Namespace) -> None:
    """Train one model. name (str): of SETTINGS. seed (int): of the training. args (Namespace): the command line."""
    config = args.output / f"{name}.cfg"
    make_config(args.config, SETTINGS[name], layers=args.layers).to_disk(config)
    per_epoch = -(-len(DocBin().from_disk(args.output / "train.spacy")) // BATCH_DOCS)
    steps = args.max_steps or EPOCHS * per_epoch
    options = {
        "paths.train": args.output / "train.spacy",
        "paths.dev": args.output / "dev.spacy",
        "training.max_steps": steps,
        "training.eval_frequency": max(1, steps // EVALUATIONS),
        "system.seed": seed,
    }
    run_training(config, args.output / f"{name}-{seed}", options)


def make_config(path: Path, setting: Setting, *, layers: int) -> Config:
    """Make a classifier on a frozen backbone.

    path (Path): of the recommended recipe. setting (Setting): pooling and window. layers (int): of the checkpoint.
    RETURNS (Config): the rest as in the recipe.
    """
    config = without_head(path, RECOGNIZER)
    model = config["components"][BACKBONE]["model"]
    model.update(frozen_layers=layers, cache={"megabytes": 4096}, window=CUT, stride=CUT * 7 // 8, truncate=setting.cut)
    config["components"][CLASSIFIER]["model"]["pooling"] = setting.pooling
    return config


def make_row(name: str, output: Path) -> list[str]:
    """name (str): of SETTINGS. output (Path): of the trainings. RETURNS (list[str]): cells; none where nothing has been trained."""
    folders = [folder for seed in SEEDS if is_finished(folder := output / f"{name}-{seed}")]
    values = [read_json(folder / "test.json")["cats_acc"] for folder in folders if (folder / "test.json").exists()]
    if not values:
        return []
    title = SETTINGS[name].title
    return [title if len(values) == len(SEEDS) else f"{title}, {len(values)} of {len(SEEDS)} seeds", make_cell(values)]


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("configs/default.cfg"))
    parser.add_argument("--layers", type=int, default=6, help="of the checkpoint, all of which are frozen")
    parser.add_argument("--setting", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--seed", type=int, nargs="+", choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--max-steps", type=int, default=0, help="stop early, to try the script; 0 for never")
    parser.add_argument("--output", type=Path, default=Path("training/long"), help="corpora and models")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), help="folder of the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
