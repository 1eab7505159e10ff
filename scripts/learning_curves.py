"""Train the recommended recipe in float32 and in bfloat16, and put their learning curves side by side.

    python scripts/learning_curves.py      two passes over SNIPS in each format (a quarter of an hour on 2 cores)

Writes curves.json and curves.svg; `python scripts/results.py` puts both into docs/results.md. Needs `project run convert-snips` before.
"""

import argparse
import datetime
from pathlib import Path
from typing import Any

import trainings
from thinc.api import Config
from trainings import read_events

from spacy_attention.evaluation.machine import describe_machine, machine_line
from spacy_attention.evaluation.report import write_json
from spacy_attention.training.curve import draw_curve

FORMATS = ("float32", "bfloat16")
SCORES = {"Class accuracy": "cats_micro_f", "Entities F1": "ents_f", "Whole document": "utterance_acc"}


def main() -> None:
    """Train in both formats, as far as that is not done yet, and write table and picture."""
    args = _parse_args()
    events = {}
    for precision in FORMATS:
        folder = args.output / precision
        train(precision, folder, args)
        events[precision] = read_events(folder)
    write_json(args.results / "curves.json", make_result(events, args))
    curves = {f"{p}, {key}": [(e["step"], e["scores"][key]) for e in events[p]] for key in SCORES.values() for p in FORMATS}
    (args.results / "curves.svg").write_text(draw_curve(curves), "utf8")


def train(precision: str, folder: Path, args: argparse.Namespace) -> None:
    """Train in one format.

    precision (str): of all components.
    folder (Path): of the training.
    args (Namespace): the command line.
    """
    components = Config().from_disk(args.config, interpolate=False)["components"]
    options = {
        "paths.train": args.train,
        "paths.dev": args.dev,
        "training.max_steps": args.steps,
        "training.eval_frequency": args.steps // args.evaluations,
        "system.seed": args.seed,
        **{f"components.{name}.model.precision": precision for name in components},
    }
    trainings.run_training(args.config, folder, options)


def make_result(events: dict[str, list[dict[str, Any]]], args: argparse.Namespace) -> dict[str, Any]:
    """Put the table together: a row per look at dev.

    events (dict): evaluations by number format.
    args (Namespace): the command line.
    RETURNS (dict[str, Any]): the content of a file in docs/results/.
    """
    rows = []
    for pair in zip(*(events[precision] for precision in FORMATS), strict=True):
        cells = [f"{100 * event['scores'][key]:.2f}" for key in SCORES.values() for event in pair]
        rows.append([f"{pair[0]['step']:,}", *cells, *(f"{event['update_seconds']:,.0f}" for event in pair)])
    begin = read_events(args.output / FORMATS[0], "begin")[0]
    return {
        "title": "Learning curves in float32 and bfloat16, SNIPS, dev",
        "picture": "curves.svg",
        "command": f"python scripts/learning_curves.py --steps {args.steps} --evaluations {args.evaluations} --seed {args.seed}",
        "date": datetime.date.today().isoformat(),
        "machine": machine_line(describe_machine()),
        "versions": begin["versions"],
        "columns": ["Step", *(f"{title}, {p}" for title in (*SCORES, "Seconds") for p in FORMATS)],
        "rows": rows,
        "notes": "Batches of 32, one seed, the same order of texts. Seconds: of the updates so far, evaluations not counted.",
    }


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("configs/default.cfg"))
    parser.add_argument("--train", type=Path, default=Path("corpus/snips/train.spacy"))
    parser.add_argument("--dev", type=Path, default=Path("corpus/snips/dev.spacy"))
    parser.add_argument("--steps", type=int, default=818)
    parser.add_argument("--evaluations", type=int, default=8, help="looks at dev, evenly over the steps, after one at the start")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("training/curves"), help="folders of the trainings")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), help="folder of table and picture")
    return parser.parse_args()


if __name__ == "__main__":
    main()
