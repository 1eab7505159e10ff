"""The registered scorer of the classifier."""

from collections.abc import Callable, Iterable
from typing import Any

from spacy.scorer import Scorer
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
