"""`spacy-attention.NerHead.v1`: scores of BILUO tags per token, and of the steps between entities."""

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d
from torch import nn

from ..layers.word_case import N_FEATURES, case_features
from ..nn.heads import TagScores
from ..nn.span_scorer import SpanScorer
from ..types import TokenVectors
from .head import head_layer, head_model


def build_ner_head(
    tok2vec: Model[list[Doc], TokenVectors], *, case: bool = True, dropout: float = 0.1, precision: str = "auto"
) -> Model[list[Doc], tuple[Floats2d, Floats2d]]:
    """Score the tags of each token linearly, or the spans where entities can nest; which, the component says.

    tok2vec (Model): where the token vectors come from.
    case (bool): also look at how a word and its neighbours are written: lower, title or upper case. Names depend on it, and an
        uncased checkpoint does not see it.
    dropout (float): on the token vectors, in [0, 1); a training config sets its own.
    precision (str): as of the backbone.
    RETURNS (Model): documents in. Out, for tags: emissions (tokens, nO) float32, documents one after the other, and transitions
        (labels + 1, labels + 1) float32; nO is 4 times the number of labels, plus 1. For spans: logits (spans, nO) float32, in the order
        of `all_spans`; nO is the number of labels.
    RAISES (ValueError): E301 for an unknown precision.
    """
    layer = head_layer("ner-head", _scores, dropout=dropout, precision=precision)
    return head_model(tok2vec, layer, features=case_features, n_features=N_FEATURES) if case else head_model(tok2vec, layer)


def _scores(**sizes: int) -> nn.Module:
    """Sizes that were saved say which of the two it was."""
    return SpanScorer(**sizes) if "max_length" in sizes else TagScores(**sizes)
