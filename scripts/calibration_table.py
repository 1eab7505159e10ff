"""How well the confidences of trained pipelines agree with what happens on test data, as they are saved and without their calibration.

    python scripts/calibration_table.py      after scripts/recipes.py --data snips --recipe full, and scripts/compare_heads.py

Writes calibration.json; `python scripts/results.py` puts it into docs/results.md.
"""

import argparse
import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kept_runs import Runs, machines, make_run, read_runs
from results import make_cell
from spacy.language import Language
from spacy.training import Example
from stamp import make_stamp
from trainings import is_finished

from spacy_attention.evaluation.predict import load_examples, load_pipeline, predict
from spacy_attention.evaluation.report import make_report, write_json
from spacy_attention.evaluation.utterance import compared_entities

SEEDS = (0, 1, 2)
# Key in the scores -> title of its two columns.
MEASURES = {"ents_ece": "Entities, ECE {when}", "cats_ece": "Classes, ECE {when}"}
WHEN = ("before", "after")
HALF = ("Entities, precision", "of the surer half")


class Source(NamedTuple):
    """Trainings of one corpus.

    title (str): in the table.
    folder (str): of a training, with `{seed}`.
    test (str): gold documents.
    """

    title: str
    folder: str
    test: str


SOURCES = (
    Source("SNIPS", "training/recipes/snips-full-{seed}", "corpus/snips/test.spacy"),
    Source("WNUT-17", "training/heads/wnut17-ours-{seed}", "training/heads/wnut17/test.spacy"),
    Source("Banking77", "training/heads/banking77-ours-{seed}", "training/heads/banking77/test.spacy"),
)


def main() -> None:
    """Score all trainings that there are."""
    args = _parse_args()
    table = args.results / "calibration.json"
    runs = collect_runs(read_runs(table), args.root)
    result = {
        "title": "Calibration, test",
        **make_stamp("python scripts/calibration_table.py"),
        "machine": machines(runs.values()),
        "columns": ["", *(title.format(when=when) for title in MEASURES.values() for when in WHEN), *HALF],
        "rows": [row for source in SOURCES if (row := make_row(source, runs))],
        "notes": (
            "Expected calibration error with bins of equal size, of the probabilities of predicted entities and of the predicted class, "
            "before and after `spacy-attention.calibrate.v1` with dev. The surer half: predicted entities by confidence. Mean and "
            f"standard deviation over seeds {', '.join(map(str, SEEDS))}."
        ),
        "runs": runs,
    }
    write_json(table, result)
    print("\n".join("  ".join(row) for row in result["rows"]))


def collect_runs(runs: Runs, root: Path) -> Runs:
    """runs (Runs): of the table. root (Path): above the folders of trainings. RETURNS (Runs): with those that have ended there."""
    found = dict(runs)
    for source, seed in itertools.product(SOURCES, SEEDS):
        folder = root / source.folder.format(seed=seed)
        if is_finished(folder):
            found[f"{source.title}-{seed}"] = make_run("", {"values": score(folder / "model-best", root / source.test)})
    return found


def make_row(source: Source, runs: Runs) -> list[str]:
    """source (Source): trainings. runs (Runs): of the table. RETURNS (list[str]): cells; none without a training that has ended."""
    found = [runs[name]["values"] for seed in SEEDS if (name := f"{source.title}-{seed}") in runs]
    if not found:
        return []
    title = source.title if len(found) == len(SEEDS) else f"{source.title}, {len(found)} of {len(SEEDS)} seeds"
    columns = zip(*found, strict=True)
    return [title, *("" if None in values else make_cell(list(values)) for values in columns)]


def score(model: Path, test: Path) -> list[float | None]:
    """Measure one pipeline.

    model (Path): its folder. test (Path): gold documents.
    RETURNS (list): values of the columns; None for what the pipeline does not predict.
    """
    nlp = load_pipeline(str(model))
    after, examples = _scores(nlp, test)
    for _, pipe in nlp.pipeline:
        for setting in ("temperature", "thresholds"):
            getattr(pipe, "cfg", {}).pop(setting, None)
    before, _ = _scores(nlp, test)
    measured = [scores.get(key) for key in MEASURES for scores in (before, after)]
    return [*measured, *precision_of_halves(examples)]


def precision_of_halves(examples: Sequence[Example]) -> tuple[float | None, float | None]:
    """examples (Sequence[Example]): predictions beside gold. RETURNS (tuple): precision of all entities, and of the surer half."""
    judged = []
    for eg in examples:
        gold, guess = compared_entities(eg)
        for ent in eg.predicted.ents:
            span = (ent.start_char, ent.end_char, ent.label_)
            if span in guess:
                judged.append((ent._.confidence, span in gold))
    if len(judged) < 2:
        return None, None
    judged.sort(key=lambda pair: pair[0], reverse=True)
    right = [is_right for _, is_right in judged]
    return statistics.mean(right), statistics.mean(right[: len(right) // 2])


def _scores(nlp: Language, test: Path) -> tuple[dict[str, Any], list[Example]]:
    predictions = predict(nlp, load_examples(nlp, test), progress=True)
    return make_report(nlp, predictions)["scores"], predictions[0]


def _parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(), help="above the folders of the trainings")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), help="folder of the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
