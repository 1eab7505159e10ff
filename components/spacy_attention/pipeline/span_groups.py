"""Predicted spans as span groups, with their probabilities beside them."""

from collections.abc import Callable, Iterable
from itertools import islice

from spacy.tokens import Doc, Span, SpanGroup

from ..errors import Errors
from ..types import EntityPrediction

# Probability from which on a span is worth a look.
LEAST_CANDIDATE = 1e-6


def candidate_group(doc: Doc, k: int, spans_from: Callable[[float], Iterable[EntityPrediction]], *, name: str) -> SpanGroup:
    """The most probable spans of a document.

    doc (Doc): stays as it is. k (int): how many.
    spans_from (Callable): from a probability, gives the spans that have at least that much, the most probable first.
    name (str): of the component.
    RETURNS (SpanGroup): by descending probability; the probabilities in `attrs["scores"]`.
    RAISES (ValueError): E310 for a k below 1.
    """
    if k < 1:
        raise ValueError(Errors.E310.format(name=name, found=k))
    return make_group(doc, "candidates", islice(spans_from(LEAST_CANDIDATE), k))


def make_group(doc: Doc, name: str, entities: Iterable[EntityPrediction]) -> SpanGroup:
    """doc (Doc): of the spans. name (str): of the group. entities (Iterable): in order. RETURNS (SpanGroup): with `attrs["scores"]`."""
    entities = list(entities)
    spans = [Span(doc, e.start, e.end, label=e.label) for e in entities]
    return SpanGroup(doc, name=name, spans=spans, attrs={"scores": [e.confidence for e in entities]})
