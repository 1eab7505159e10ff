"""Train every recipe in configs/ on helpdesk and SNIPS with several seeds, and report dev scores and times.

    python scripts/recipes.py                                       all of it, hours on 2 cores
    python scripts/recipes.py --data snips --recipe lora --seed 0   a part; the tables show what there is so far

A training that was interrupted goes on, and one that has ended is not done again. When its settings have changed since, that is an
error: remove its folder.
"""

import argparse
import datetime
import itertools
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import trainings
from results import make_cell
from trainings import is_finished, read_events, read_json

from spacy_attention.evaluation.machine import describe_machine, machine_line
from spacy_attention.evaluation.report import write_json

SEEDS = (0, 1, 2)
TARGET = Path("docs/results")
COLUMNS = {"Class accuracy": "cats_micro_f", "Entities F1": "ents_f", "Whole document": "utterance_acc"}


class Recipe(NamedTuple):
    """A config, and how many times as many passes over the data as full fine-tuning it takes.

    title (str): in the tables.
    config (str): its file.
    passes (int): chosen on dev; a recipe whose passes are cheap can have more of them.
    """

    title: str
    config: str
    passes: int


class Data(NamedTuple):
    """A data set.

    title (str): of its table.
    steps (int): of full fine-tuning.
    evaluations (int): how many on dev, evenly over the steps.
    options (dict[str, Any]): settings of the config.
    """

    title: str
    steps: int
    evaluations: int
    options: dict[str, Any]


RECIPES = {
    "full": Recipe("full fine-tuning, `configs/default.cfg`", "configs/default.cfg", 1),
    "lora": Recipe("LoRA, `configs/lora.cfg`", "configs/lora.cfg", 1),
    "frozen": Recipe("frozen backbone, `configs/frozen.cfg`", "configs/frozen.cfg", 2),
    "scratch": Recipe("from scratch, `configs/scratch.cfg`", "configs/scratch.cfg", 2),
}
DATA = {
    "helpdesk": Data(
        "Recipes, helpdesk, dev",
        1100,
        2,
        {"components.attention_textcat.model.pooling": "attention", "components.attention_ner.model.tok2vec.grad_factor": 0.05},
    ),
    "snips": Data("Recipes, SNIPS, dev", 2045, 5, {}),
}
NOTES = (
    "Best evaluation on dev, mean and standard deviation over seeds {seeds}; the figures chose the settings, so they are not those of a "
    "test set. Minutes: of the training with its evaluations, start and loading not counted; median. {steps:,} updates of 32 documents; "
    "{more} twice as many."
)


def main() -> None:
    """Train what the command line asks for and is not there yet, then write the tables of all that is there."""
    args = _parse_args()
    for data, recipe, seed in itertools.product(args.data, args.recipe, args.seed):
        train(data, recipe, seed, args.output)
    for data in DATA:
        if rows := make_rows(data, args.output):
            write_json(TARGET / f"recipes-{data}.json", make_result(data, rows, args.output))
            print("\n".join("  ".join(row) for row in rows))


def train(data: str, recipe: str, seed: int, output: Path) -> None:
    """Train one model.

    data (str): of DATA. recipe (str): of RECIPES.
    seed (int): of the training.
    output (Path): holds the folders of all trainings.
    """
    folder = folder_of(data, recipe, seed, output)
    steps = DATA[data].steps * RECIPES[recipe].passes
    options = {
        "paths.train": f"corpus/{data}/train.spacy",
        "paths.dev": f"corpus/{data}/dev.spacy",
        "training.max_steps": steps,
        "training.eval_frequency": steps // DATA[data].evaluations,
        "system.seed": seed,
        **DATA[data].options,
    }
    if recipe == "lora":
        options["training.before_to_disk.*.adapter.folder"] = str(folder / "adapter")
    trainings.run_training(RECIPES[recipe].config, folder, options)


def folder_of(data: str, recipe: str, seed: int, output: Path) -> Path:
    """RETURNS (Path): of one training. data, recipe (str), seed (int), output (Path): as of `train`."""
    return output / f"{data}-{recipe}-{seed}"


def make_rows(data: str, output: Path) -> list[list[str]]:
    """Put the trainings that have ended into rows.

    data (str): of DATA. output (Path): holds the folders.
    RETURNS (list[list[str]]): cells: recipe, scores, minutes.
    """
    rows = []
    for name, recipe in RECIPES.items():
        ended = [folder for folder in (folder_of(data, name, seed, output) for seed in SEEDS) if is_finished(folder)]
        if not ended:
            continue
        scores = [read_json(folder / "metrics.json")["scores"] for folder in ended]
        minutes = statistics.median(read_events(folder)[-1]["seconds"] for folder in ended) / 60
        title = recipe.title if len(ended) == len(SEEDS) else f"{recipe.title}, {len(ended)} of {len(SEEDS)} seeds"
        rows.append([title, *(make_cell([each[key] for each in scores]) for key in COLUMNS.values()), f"{minutes:.1f}"])
    return rows


def make_result(data: str, rows: list[list[str]], output: Path) -> dict[str, Any]:
    """Put a table together with what one needs to make it again.

    data (str): of DATA. rows (list): from `make_rows`. output (Path): holds the folders.
    RETURNS (dict[str, Any]): the content of a file in docs/results/.
    """
    some = next(path for path in sorted(output.glob(f"{data}-*")) if is_finished(path))
    more = " and ".join(name for name, recipe in RECIPES.items() if recipe.passes == 2)
    return {
        "title": DATA[data].title,
        "command": "python scripts/recipes.py",
        "date": datetime.date.today().isoformat(),
        "machine": machine_line(describe_machine()),
        "versions": read_events(some, "begin")[0]["versions"],
        "columns": ["", *COLUMNS, "Minutes"],
        "rows": rows,
        "notes": NOTES.format(seeds=", ".join(map(str, SEEDS)), steps=DATA[data].steps, more=more),
    }


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--recipe", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--seed", nargs="+", type=int, choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--output", type=Path, default=Path("training/recipes"), help="folders of the trainings")
    return parser.parse_args()


if __name__ == "__main__":
    main()
