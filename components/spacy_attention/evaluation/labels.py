"""Counts of true and false predictions for each class and each entity label."""

from collections import Counter
from collections.abc import Iterable

from spacy.training import Example

from ..types import SpanGroups
from .utterance import compared_entities, compared_spans, gold_classes, has_entities_annotated, predicted_classes

# "tp", "fp", "fn": counts; "p", "r", "f": shares in [0, 1], None where nothing was predicted or is gold.
LabelScores = dict[str, float | int | None]


def class_scores(examples: Iterable[Example], *, exclusive: bool) -> dict[str, LabelScores]:
    """Count right, spurious and missed classes.

    examples (Iterable[Example]): Predictions beside gold; a document without gold classes is not counted.
    exclusive (bool): Whether exactly one class holds per document.
    RETURNS (dict[str, LabelScores]): Label -> scores, sorted; every label that gold or predictions list.
    """
    pairs: list[tuple[set, set]] = []
    labels: set[str] = set()
    for eg in examples:
        if eg.reference.cats:
            pairs.append((gold_classes(eg.reference), predicted_classes(eg.predicted, exclusive=exclusive)))
            labels.update(eg.reference.cats, eg.predicted.cats)
    return _scores(pairs, labels)


def entity_scores(examples: Iterable[Example]) -> dict[str, LabelScores]:
    """Count right, spurious and missed entities by exact bounds and label.

    examples (Iterable[Example]): Predictions beside gold; documents without entity annotation do not count.
    RETURNS (dict[str, LabelScores]): Label -> scores, sorted by label.
    """
    pairs = [compared_entities(eg) for eg in examples if has_entities_annotated(eg.reference)]
    tagged = [({(s, s[2]) for s in gold}, {(s, s[2]) for s in guess}) for gold, guess in pairs]
    labels = {label for gold, guess in tagged for _, label in gold | guess}
    return _scores(tagged, labels)


def span_scores(examples: Iterable[Example], groups: Iterable[SpanGroups]) -> dict[str, LabelScores]:
    """Count right, spurious and missed spans that can nest, by exact bounds and label.

    examples (Iterable[Example]): Predictions beside gold; documents without a gold group do not count.
    groups (Iterable[SpanGroups]): Of the components.
    RETURNS (dict[str, LabelScores]): Label -> scores, sorted by label.
    """
    examples, groups = list(examples), list(groups)
    pairs = [compared_spans(eg, keys) for keys in groups for eg in examples if keys.gold in eg.reference.spans]
    return _scores(pairs, {span[2] for gold, guess in pairs for span in gold | guess})


def _scores(pairs: list[tuple[set, set]], labels: set[str]) -> dict[str, LabelScores]:
    """Sum over documents: items are labels, or pairs whose last part is the label."""
    tp, fp, fn = Counter[str](), Counter[str](), Counter[str]()
    for gold, guess in pairs:
        tp.update(_label(item) for item in gold & guess)
        fp.update(_label(item) for item in guess - gold)
        fn.update(_label(item) for item in gold - guess)
    return {label: label_scores(tp[label], fp[label], fn[label]) for label in sorted(labels)}


def _label(item: str | tuple) -> str:
    return item if isinstance(item, str) else item[-1]


def label_scores(tp: int, fp: int, fn: int) -> LabelScores:
    """Turn counts into precision, recall and F1.

    tp (int): Right predictions.
    fp (int): Predictions that are not gold.
    fn (int): Gold items that were not predicted.
    RETURNS (LabelScores): The counts and the shares; a share over nothing is None.
    """
    precision = tp / (tp + fp) if tp + fp else None
    recall = tp / (tp + fn) if tp + fn else None
    f_score = 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else None
    return {"tp": tp, "fp": fp, "fn": fn, "p": precision, "r": recall, "f": f_score}
