"""Train every recipe in configs/ on helpdesk and SNIPS with several seeds, and report dev scores and times.

    python scripts/recipes.py                                       all of it, hours on 2 cores
    python scripts/recipes.py --data snips --recipe lora --seed 0   a part; the tables show what there is so far

A training that was interrupted goes on, and one that has ended, or whose scores the table has, is not done again. When the settings of
a folder have changed since, that is an error: remove it.
"""

import argparse
import itertools
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import trainings
from kept_runs import Runs, fingerprint, is_kept, machines, make_run, read_runs
from results import make_cell
from stamp import make_stamp
from trainings import is_finished, read_events, read_json

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
        folder = folder_of(data, recipe, seed, args.output)
        settings = fingerprint(RECIPES[recipe].config, settings_of(data, recipe, seed))
        if folder.exists() or not is_kept(read_runs(table_of(data)), f"{recipe}-{seed}", settings):
            train(data, recipe, seed, folder)
    for data in DATA:
        if runs := collect_runs(data, args.output):
            result = make_result(data, runs)
            write_json(table_of(data), result)
            print("\n".join("  ".join(row) for row in result["rows"]))


def train(data: str, recipe: str, seed: int, folder: Path) -> None:
    """Train one model.

    data (str): of DATA. recipe (str): of RECIPES. seed (int): of the training. folder (Path): of the training.
    """
    options = settings_of(data, recipe, seed)
    if recipe == "lora":
        options["training.before_to_disk.*.adapter.folder"] = str(folder / "adapter")
    trainings.run_training(RECIPES[recipe].config, folder, options)


def settings_of(data: str, recipe: str, seed: int) -> dict[str, Any]:
    """RETURNS (dict): settings of the config. data (str): of DATA. recipe (str): of RECIPES. seed (int): of the training."""
    steps = DATA[data].steps * RECIPES[recipe].passes
    return {
        "paths.train": f"corpus/{data}/train.spacy",
        "paths.dev": f"corpus/{data}/dev.spacy",
        "training.max_steps": steps,
        "training.eval_frequency": steps // DATA[data].evaluations,
        "system.seed": seed,
        **DATA[data].options,
    }


def table_of(data: str) -> Path:
    """RETURNS (Path): file of the table. data (str): of DATA."""
    return TARGET / f"recipes-{data}.json"


def folder_of(data: str, recipe: str, seed: int, output: Path) -> Path:
    """RETURNS (Path): of one training. data, recipe (str), seed (int), output (Path): as of `train`."""
    return output / f"{data}-{recipe}-{seed}"


def collect_runs(data: str, output: Path) -> Runs:
    """Add the trainings that have ended to those that the table has.

    data (str): of DATA. output (Path): holds the folders.
    RETURNS (Runs): by recipe and seed.
    """
    runs = read_runs(table_of(data))
    for recipe, seed in itertools.product(RECIPES, SEEDS):
        folder = folder_of(data, recipe, seed, output)
        if is_finished(folder):
            scores = read_json(folder / "metrics.json")["scores"]
            measured = {key: scores[key] for key in COLUMNS.values()} | {"seconds": read_events(folder)[-1]["seconds"]}
            settings = fingerprint(RECIPES[recipe].config, settings_of(data, recipe, seed))
            runs[f"{recipe}-{seed}"] = make_run(settings, measured)
    return runs


def make_rows(runs: Runs) -> list[list[str]]:
    """runs (Runs): of a table. RETURNS (list[list[str]]): cells: recipe, scores, minutes."""
    rows = []
    for name, recipe in RECIPES.items():
        ended = [runs[f"{name}-{seed}"] for seed in SEEDS if f"{name}-{seed}" in runs]
        if not ended:
            continue
        minutes = statistics.median(run["seconds"] for run in ended) / 60
        title = recipe.title if len(ended) == len(SEEDS) else f"{recipe.title}, {len(ended)} of {len(SEEDS)} seeds"
        rows.append([title, *(make_cell([run[key] for run in ended]) for key in COLUMNS.values()), f"{minutes:.1f}"])
    return rows


def make_result(data: str, runs: Runs) -> dict[str, Any]:
    """Put a table together with what one needs to make it again.

    data (str): of DATA. runs (Runs): of the table.
    RETURNS (dict[str, Any]): the content of a file in docs/results/.
    """
    more = " and ".join(name for name, recipe in RECIPES.items() if recipe.passes == 2)
    return {
        "title": DATA[data].title,
        **make_stamp("python scripts/recipes.py"),
        "machine": machines(runs.values()),
        "columns": ["", *COLUMNS, "Minutes"],
        "rows": make_rows(runs),
        "notes": NOTES.format(seeds=", ".join(map(str, SEEDS)), steps=DATA[data].steps, more=more),
        "runs": runs,
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
