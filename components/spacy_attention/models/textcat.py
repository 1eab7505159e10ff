"""`spacy-attention.TextCatHead.v1`: one score per class from the pooled token vectors of a document."""

import functools

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..nn.heads import ClassScores
from ..nn.pooling import POOLINGS
from ..types import TokenVectors
from .head import check_choice, head_layer, head_model


def build_textcat_head(
    tok2vec: Model[list[Doc], TokenVectors], *, pooling: str = "mean", dropout: float = 0.1, precision: str = "auto"
) -> Model[list[Doc], Floats2d]:
    """Pool the token vectors of each document, then score its classes linearly.

    tok2vec (Model): where the token vectors come from.
    pooling (str): `mean`, `max`, or `attention` (a mean weighted by a learned query).
    dropout (float): on the pooled vector, in [0, 1); a training config sets its own.
    precision (str): as of the backbone.
    RETURNS (Model): documents in; (documents, nO) float32 logits out.
    RAISES (ValueError): E301 for an unknown pooling or precision.
    """
    check_choice("pooling", pooling, POOLINGS)
    build = functools.partial(ClassScores, pooling=pooling)
    return head_model(tok2vec, head_layer("textcat-head", build, dropout=dropout, precision=precision))
