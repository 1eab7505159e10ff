"""Whole-utterance accuracy: the share of documents whose classes and entities are all right."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from spacy.tokens import Doc
from spacy.training import Example

from ..types import SpanGroups

# From this score on a class of a multilabel classifier counts as predicted.
THRESHOLD = 0.5

# Start and end in characters (end exclusive) and label of an entity.
CharSpan = tuple[int, int, str]


ScorerFunction = Callable[..., dict[str, Any]]


def make_utterance_scorer(base: ScorerFunction, exclusive: bool = True) -> ScorerFunction:
    """Add `utterance_acc` to what another scorer gives; registered as `spacy-attention.utterance_scorer.v1`.

    base (Callable): The other scorer, for instance `spacy.ner_scorer.v1`.
    exclusive (bool): See `predicted_classes`.
    RETURNS (Callable): The scorer.
    """

    def score(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        examples = list(examples)
        groups = nested_groups(**kwargs)
        right = utterance_accuracy(examples, exclusive=exclusive, groups=groups, ents=not groups)
        return {**base(examples, **kwargs), "utterance_acc": right}

    return score


def nested_groups(spans_key: str | None = None, group: str | None = None, **kwargs: Any) -> list[SpanGroups]:
    """See `score_ents` for the arguments. RETURNS (list): where the spans of a component are whose entities can nest, if it is one."""
    return [SpanGroups(spans_key, group)] if spans_key is not None and group is not None else []


def is_exclusive(docs: Iterable[Doc]) -> bool:
    """Say whether predicted classes exclude each other: their scores then sum to 1 in every document.

    docs (Iterable[Doc]): Documents with predicted `cats`; those without are passed over.
    RETURNS (bool): True when every sum of scores is 1 (to 1e-3), also when no document has scores.
    """
    return all(abs(sum(doc.cats.values()) - 1.0) < 1e-3 for doc in docs if doc.cats)


def predicted_classes(doc: Doc, *, exclusive: bool) -> set[str]:
    """Read the predicted classes of a document.

    doc (Doc): A document with `cats`, label -> probability in [0, 1], and `doc._.classes` if our classifiers made them, which know their
        thresholds.
    exclusive (bool): For other classifiers, whether exactly one class holds: then the best one, else all with 0.5 or more.
    RETURNS (set[str]): The labels; empty for a document without scores.
    """
    if doc.has_extension("classes") and doc._.classes:
        return {label for labels in doc._.classes.values() for label in labels}
    if not doc.cats:
        return set()
    if exclusive:
        return {max(doc.cats, key=lambda label: doc.cats[label])}
    return {label for label, score in doc.cats.items() if score >= THRESHOLD}


def gold_classes(doc: Doc) -> set[str]:
    """Read the annotated classes: those with a value of 0.5 or more.

    doc (Doc): An annotated document.
    RETURNS (set[str]): The labels.
    """
    return {label for label, value in doc.cats.items() if value >= THRESHOLD}


def has_entities_annotated(doc: Doc) -> bool:
    """Say whether entities are annotated, "there are none" included.

    doc (Doc): A document. One without tokens counts as annotated: no entity can be missing in it.
    RETURNS (bool): False where the annotation is missing.
    """
    return len(doc) == 0 or doc.has_annotation("ENT_IOB")


def compared_entities(eg: Example) -> tuple[set[CharSpan], set[CharSpan]]:
    """Collect gold and predicted entities that can be compared, by characters, so that tokens need not agree.

    As in spaCy's scorer, a prediction on a token whose annotation is missing is neither right nor wrong.

    eg (Example): A prediction beside gold.
    RETURNS (tuple[set[CharSpan], set[CharSpan]]): Gold and predicted entities.
    """
    unknown = [(t.idx, t.idx + len(t)) for t in eg.reference if t.ent_iob == 0]
    gold = {(ent.start_char, ent.end_char, ent.label_) for ent in eg.reference.ents}
    guess = {(ent.start_char, ent.end_char, ent.label_) for ent in eg.predicted.ents}
    if unknown:
        guess = {span for span in guess if not any(span[0] < end and start < span[1] for start, end in unknown)}
    return gold, guess


def compared_spans(eg: Example, groups: SpanGroups) -> tuple[set[CharSpan], set[CharSpan]]:
    """Collect spans that can nest. eg (Example): annotated. groups (SpanGroups): keys. RETURNS (tuple): gold and predicted spans."""
    return char_spans(eg.reference, groups.gold), char_spans(eg.predicted, groups.predicted)


def char_spans(doc: Doc, key: str) -> set[CharSpan]:
    """doc (Doc): any. key (str): of `doc.spans`. RETURNS (set[CharSpan]): of its spans; empty where there is no such group."""
    return {(span.start_char, span.end_char, span.label_) for span in doc.spans[key]} if key in doc.spans else set()


def class_accuracy(examples: Iterable[Example], *, exclusive: bool) -> float | None:
    """Compute the share of documents whose set of classes is right.

    examples (Iterable[Example]): Predictions beside gold; a document without gold classes is not counted.
    exclusive (bool): See `predicted_classes`.
    RETURNS (float | None): A share in [0, 1]; None without a counted document.
    """
    right = [_has_right_classes(eg, exclusive=exclusive) for eg in examples if eg.reference.cats]
    return sum(right) / len(right) if right else None


def utterance_accuracy(
    examples: Iterable[Example], *, exclusive: bool, groups: Sequence[SpanGroups] = (), ents: bool = True
) -> float | None:
    """Compute the share of documents with all classes and all entities right.

    What the gold does not annotate is not compared; a document without any annotation is not counted.

    examples (Iterable[Example]): Predictions beside gold.
    exclusive (bool): See `predicted_classes`.
    groups (Sequence[SpanGroups]): Of components whose entities can nest.
    ents (bool): Whether any component predicts `doc.ents`, which those do not.
    RETURNS (float | None): A share in [0, 1]; None without a counted document.
    """
    judged = [list(_judge(eg, exclusive, groups, ents)) for eg in examples]
    right = [all(parts) for parts in judged if parts]
    return sum(right) / len(right) if right else None


def _judge(eg: Example, exclusive: bool, groups: Sequence[SpanGroups], ents: bool) -> Iterator[bool]:
    """Whether each annotated part of a document is right."""
    if eg.reference.cats:
        yield _has_right_classes(eg, exclusive=exclusive)
    if ents and has_entities_annotated(eg.reference):
        gold, guess = compared_entities(eg)
        yield gold == guess
    for keys in groups:
        if keys.gold in eg.reference.spans:
            gold, guess = compared_spans(eg, keys)
            yield gold == guess


def _has_right_classes(eg: Example, *, exclusive: bool) -> bool:
    gold, guess = gold_classes(eg.reference), predicted_classes(eg.predicted, exclusive=exclusive)
    # What the annotation does not mention is neither right nor wrong.
    return gold == guess & eg.reference.cats.keys()
