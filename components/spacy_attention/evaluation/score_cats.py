"""`spacy-attention.textcat_scorer.v1`: spaCy's scores of classes, and what they leave out."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy
from spacy.scorer import PRFScore, ROCAUCScore
from spacy.training import Example

from ..nn.calibration import brier_score, expected_calibration_error

ScorerFunction = Callable[..., dict[str, Any]]
# Label -> value or probability, of one document.
Cats = Mapping[str, float]


def make_textcat_scorer() -> ScorerFunction:
    """RETURNS (Callable): see `score_cats`."""
    return score_cats


def score_cats(
    examples: Iterable[Example],
    *,
    labels: Iterable[str],
    multi_label: bool,
    threshold: float = 0.5,
    thresholds: Mapping[str, float] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Score the classes of one component.

    As `Scorer.score_cats`, with these differences: a text without any of its labels annotated is left out; one without a prediction
    counts as missed; labels can have thresholds of their own; and `cats_counts_per_type`, `cats_ece` and `cats_brier` are there as well.

    examples (Iterable[Example]): predictions beside gold.
    labels (Iterable[str]): of the component. multi_label (bool): whether they do not exclude each other.
    threshold (float): for `multi_label`, in [0, 1]. thresholds (Mapping | None): by label, instead of it.
    RETURNS (dict): `cats_*` scores.
    """
    labels = list(labels)
    least = {**dict.fromkeys(labels, threshold), **(thresholds or {})}
    pairs = [(_of(eg.reference.cats, labels), _of(eg.predicted.cats, labels)) for eg in examples]
    pairs = [(gold, found) for gold, found in pairs if gold]
    f_scores = {label: PRFScore() for label in labels}
    for gold, found in pairs:
        right = {label for label, value in gold.items() if value >= 0.5}
        # What the annotation does not mention is neither right nor wrong, unless it says that another label excludes it.
        predicted = {x for x in gold if found.get(x, -1.0) >= least[x]} if multi_label else _best(found)
        predicted = predicted if right else predicted & gold.keys()
        for label in right | predicted:
            f_scores[label].score_set({label} & predicted, {label} & right)
    areas = {label: _area(label, pairs, multi_label=multi_label) for label in labels}
    macro_area = sum(area or 0.0 for area in areas.values()) / max(len(labels), 1)
    micro, macro_f = sum(f_scores.values(), PRFScore()), _mean(x.fscore for x in f_scores.values())
    return {
        "cats_score": macro_area if multi_label else macro_f,
        "cats_score_desc": "macro AUC" if multi_label else "macro F",
        "cats_micro_p": micro.precision,
        "cats_micro_r": micro.recall,
        "cats_micro_f": micro.fscore,
        "cats_macro_p": _mean(x.precision for x in f_scores.values()),
        "cats_macro_r": _mean(x.recall for x in f_scores.values()),
        "cats_macro_f": macro_f,
        "cats_macro_auc": macro_area,
        "cats_f_per_type": {label: x.to_dict() for label, x in f_scores.items()},
        "cats_auc_per_type": areas,
        "cats_counts_per_type": {label: {"tp": x.tp, "fp": x.fp, "fn": x.fn} for label, x in f_scores.items()},
        **_calibration(pairs, labels, multi_label=multi_label),
    }


def _of(cats: Cats, labels: list[str]) -> Cats:
    return {label: cats[label] for label in labels if label in cats}


def _best(cats: Cats) -> set[str]:
    return {max(cats, key=lambda label: cats[label])} if cats else set()


def _area(label: str, pairs: list[tuple[Cats, Cats]], *, multi_label: bool) -> float | None:
    """Area under the ROC curve; None where a label is right, or wrong, everywhere."""
    score = ROCAUCScore()
    for gold, found in pairs:
        if label in gold or not multi_label:
            score.score_set(found.get(label, 0.0), float(gold.get(label, 0.0) >= 0.5))
    return score.score if score.is_binary() else None


def _calibration(pairs: list[tuple[Cats, Cats]], labels: list[str], *, multi_label: bool) -> dict[str, float | None]:
    """ECE of the predicted class when classes exclude each other, else of all that are annotated; Brier score over all labels."""
    pairs = [(gold, found) for gold, found in pairs if found and (multi_label or max(gold.values()) >= 0.5)]
    each = [(found.get(x, 0.0), gold.get(x, 0.0) >= 0.5) for gold, found in pairs for x in (gold if multi_label else labels)]
    judged = each
    if not multi_label:
        judged = [(found[best], gold.get(best, 0.0) >= 0.5) for gold, found in pairs for best in _best(found)]
    brier = brier_score(*_columns(each))
    return {
        "cats_ece": expected_calibration_error(*_columns(judged)),
        # Of a document, the sum over its labels.
        "cats_brier": brier if brier is None or multi_label else brier * len(labels),
    }


def _columns(pairs: list[tuple[float, bool]]) -> Any:
    return numpy.array(pairs, dtype="float64").reshape(-1, 2).T


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / max(len(values), 1)
