"""What entity recognizers have in common, whether entities can nest or not: settings, and the spans that a person should look at."""

from collections.abc import Callable, Iterable
from typing import Any

from spacy.tokens import Doc, SpanGroup
from spacy.vocab import Vocab
from thinc.api import Model

from ..types import EntityPrediction
from .checks import check_share
from .head import Head
from .span_groups import candidate_group


class EntityHead(Head):
    """A head whose predictions are spans.

    vocab (Vocab): of the pipeline.
    model (Model): `spacy-attention.NerHead.v1`.
    name (str): of the component.
    scorer (Callable | None): from a registered scorer.
    min_confidence (float): probability in [0, 1] that every entity must have.
    spans_key (str): where gold that nests or overlaps is, in `doc.spans`.
    cfg: what a pipeline was saved with.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        *,
        name: str,
        scorer: Callable | None,
        min_confidence: float = 0.0,
        spans_key: str = "sc",
        **cfg: Any,
    ):
        check_share("min_confidence", min_confidence, name)
        super().__init__(
            vocab, model, name=name, scorer=scorer, **{**cfg, "min_confidence": min_confidence, "spans_key": spans_key}
        )

    def candidates(self, doc: Doc, k: int = 10) -> SpanGroup:
        """The most probable spans of a document, whether or not they became entities: for a person to review.

        doc (Doc): from the pipeline, so that it has token vectors. It stays as it is.
        k (int): how many, at least 1. Spans that the model gives less than `LEAST_CANDIDATE` are left out.
        RETURNS (SpanGroup): by descending probability; the probabilities in `attrs["scores"]`. They may overlap.
        RAISES (ValueError): E310 for a k below 1; E204 for a document without token vectors.
        """
        return candidate_group(doc, k, lambda least: self.by_probability(doc, least), name=self.name)

    def by_probability(self, doc: Doc, least: float) -> Iterable[EntityPrediction]:
        """doc (Doc): from the pipeline. least (float): probability. RETURNS (Iterable): spans that have it, the most probable first."""
        raise NotImplementedError
