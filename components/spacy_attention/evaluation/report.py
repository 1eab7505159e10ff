"""The JSON report of an evaluation: built, written, and printed as tables."""

import json
import os
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.scorer import Scorer
from wasabi import Printer

from .labels import LabelScores, class_scores, entity_scores, span_scores
from .predict import Predictions
from .utterance import class_accuracy, is_exclusive, utterance_accuracy

PACKAGES = ("spacy-attention", "spacy", "thinc", "spacy-transformers", "transformers", "torch", "numpy")

# What the printed table shows: key in `scores` -> title.
_HEADLINES = {
    "cats_score": "Classes ({cats_score_desc})",
    "cats_acc": "Classes, documents right",
    "ents_p": "Entities P",
    "ents_r": "Entities R",
    "ents_f": "Entities F",
    "utterance_acc": "Whole utterance",
}


def make_report(nlp: Language, predictions: Predictions) -> dict[str, Any]:
    """Score predictions.

    nlp (Language): The pipeline that made them; its components' scorers are used.
    predictions (Predictions): Examples and seconds.
    RETURNS (dict[str, Any]): `scores` (spaCy's keys, `cats_acc`, `utterance_acc`: in [0, 1]), `per_label`,
        `speed`, `versions`.
    """
    examples, seconds = predictions
    exclusive = is_exclusive(eg.predicted for eg in examples)
    words = sum(len(eg.predicted) for eg in examples)
    scores = plain(Scorer(nlp).score(examples))
    scores["cats_acc"] = class_accuracy(examples, exclusive=exclusive)
    groups = {name: pipe.span_groups for name, pipe in nlp.pipeline if hasattr(pipe, "span_groups")}
    if groups or "utterance_acc" not in scores:
        ents = not groups or any("doc.ents" in nlp.get_pipe_meta(name).assigns for name in nlp.pipe_names if name not in groups)
        scores["utterance_acc"] = utterance_accuracy(examples, exclusive=exclusive, groups=list(groups.values()), ents=ents)
    scores["speed"] = words / seconds
    return {
        "scores": scores,
        "per_label": {
            "cats": class_scores(examples, exclusive=exclusive),
            "ents": entity_scores(examples),
            "spans": span_scores(examples, groups.values()),
        },
        "speed": {
            "words_per_second": words / seconds,
            "docs_per_second": len(examples) / seconds,
            "seconds": seconds,
        },
        "versions": installed_versions(),
    }


def installed_versions() -> dict[str, str | None]:
    """List the versions of the packages that a result depends on.

    RETURNS (dict[str, str | None]): Distribution -> version, None where it is not installed.
    """
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def plain(value: Any) -> Any:
    """Turn scores into what JSON can hold.

    value (Any): Nested dicts and lists, with numpy numbers in them.
    RETURNS (Any): The same of Python numbers.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.item() if hasattr(value, "item") else value


def write_json(path: Path, data: dict[str, Any] | list[Any]) -> None:
    """Write a JSON file whole or not at all.

    path (Path): The file; its folder is made.
    data (dict[str, Any] | list[Any]): What to write.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf8", suffix=".part") as part:
        part.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    os.chmod(part.name, 0o644)
    os.replace(part.name, path)


def print_report(report: dict[str, Any], msg: Printer) -> None:
    """Print the headline scores and the tables by label.

    report (dict[str, Any]): What `make_report` returned.
    msg (Printer): Where to print.
    """
    scores = report["scores"]
    rows = {t.format_map(scores): _percent(scores[key]) for key, t in _HEADLINES.items() if key in scores}
    rows |= {f"Spans '{key[6:-2]}' F": _percent(scores[key]) for key in scores if key.startswith("spans_") and key.endswith("_f")}
    rows["Words per second"] = f"{report['speed']['words_per_second']:,.0f}"
    msg.table(rows, title="Scores")
    for title, key in (("Classes", "cats"), ("Entities", "ents"), ("Entities that can nest", "spans")):
        if report["per_label"][key]:
            _print_labels(report["per_label"][key], title, msg)


def _print_labels(labels: dict[str, LabelScores], title: str, msg: Printer) -> None:
    header = ("", "P", "R", "F", "right", "spurious", "missed")
    rows = [
        (label, *(_percent(s[key]) for key in "prf"), *(str(s[key]) for key in ("tp", "fp", "fn"))) for label, s in labels.items()
    ]
    msg.table(rows, title=title, header=header, aligns=("l", "r", "r", "r", "r", "r", "r"))


def _percent(value: float | int | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"
