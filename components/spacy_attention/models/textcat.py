"""`spacy-attention.TextCatHead.v1`: one score per class from the pooled token vectors of a document."""

import functools

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..nn.heads import ClassScores
from ..nn.label_attention import LabelScores
from ..nn.pooling import POOLINGS
from ..types import TokenVectors
from .head import check_choice, head_layer, head_model
from .tokens import ask_for_document_row

# Which have weights of tokens, see `token_weights`.
WEIGHTED = ("attention", "label")


def build_textcat_head(
    tok2vec: Model[list[Doc], TokenVectors], *, pooling: str = "mean", dropout: float = 0.1, precision: str = "auto"
) -> Model[list[Doc], Floats2d]:
    """Pool the token vectors of each document, then score its classes linearly.

    tok2vec (Model): where the token vectors come from.
    pooling (str): `mean`, `max`, `attention` (a mean weighted by a learned query), `label` (a learned query for each class), or `cls`
        (the state of the checkpoint's first special piece, which tok2vec is asked for).
    dropout (float): on the pooled vector, in [0, 1); a training config sets its own.
    precision (str): as of the backbone.
    RETURNS (Model): documents in; (documents, nO) float32 logits out.
    RAISES (ValueError): E301 for an unknown pooling or precision; E311 for `cls` on a tok2vec that has no such state.
    """
    check_choice("pooling", pooling, (*POOLINGS, "label"))
    build = LabelScores if pooling == "label" else functools.partial(ClassScores, pooling=pooling)
    if pooling == "cls":
        ask_for_document_row(tok2vec)
    model = head_model(
        tok2vec, head_layer("textcat-head", build, dropout=dropout, precision=precision), document_row=pooling == "cls"
    )
    model.attrs["weighted"] = pooling in WEIGHTED
    return model
