"""Registered scorers."""

from collections.abc import Callable, Iterable
from typing import Any

from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example

ScorerFunction = Callable[..., dict[str, Any]]


def make_textcat_scorer() -> ScorerFunction:
    """RETURNS (Callable): spaCy's scores of cats, exclusive or multilabel as the component says."""
    return score_cats


def score_cats(examples: Iterable[Example], *, labels: Iterable[str], multi_label: bool, **kwargs: Any) -> dict[str, Any]:
    """examples (Iterable[Example]): with predictions. labels, multi_label: of the component. RETURNS (dict): `cats_*` scores.

    A text without any annotated cats is left out; spaCy's own scorer counts its predicted class as wrong.
    """
    annotated = [eg for eg in examples if eg.reference.cats]
    return Scorer.score_cats(annotated, "cats", labels=list(labels), multi_label=multi_label, **kwargs)


def make_utterance_scorer(base: ScorerFunction, exclusive: bool = True) -> ScorerFunction:
    """Add `utterance_acc` to what another scorer gives: the share of documents with all cats and all entities right.

    base (Callable): the other scorer, for instance `spacy.ner_scorer.v1`.
    exclusive (bool): whether the predicted class is the one with the highest score, or all from 0.5 on.
    RETURNS (Callable): the scorer.
    """

    def score(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        examples = list(examples)
        return {**base(examples, **kwargs), "utterance_acc": utterance_accuracy(examples, exclusive=exclusive)}

    return score


def utterance_accuracy(examples: list[Example], *, exclusive: bool) -> float | None:
    """Share of documents with all annotated cats and all entities right.

    examples (list[Example]): with predictions. A document without gold entity annotation is judged by its cats alone, one without
        cats by its entities alone, one without either not at all.
    exclusive (bool): see `make_utterance_scorer`.
    RETURNS (float | None): in [0, 1]; None when no document can be judged.
    """
    verdicts = []
    for eg in examples:
        parts = []
        if eg.reference.cats:
            parts.append(_true_cats(eg.reference) == _predicted_cats(eg.predicted, set(eg.reference.cats), exclusive))
        if eg.reference.has_annotation("ENT_IOB"):
            parts.append(_entities(eg.reference) == _entities(eg.predicted))
        if parts:
            verdicts.append(all(parts))
    return sum(verdicts) / len(verdicts) if verdicts else None


def _true_cats(doc: Doc) -> set[str]:
    return {label for label, value in doc.cats.items() if value >= 0.5}


def _predicted_cats(doc: Doc, judged: set[str], exclusive: bool) -> set[str]:
    if exclusive:
        return {max(doc.cats, key=doc.cats.__getitem__)} if doc.cats else set()
    return {label for label, value in doc.cats.items() if value >= 0.5 and label in judged}


def _entities(doc: Doc) -> set[tuple[int, int, str]]:
    return {(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents}
