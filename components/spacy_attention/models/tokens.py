"""Running a `tok2vec` block of any kind on a batch of any kind."""

from typing import Any

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Ragged

from ..types import Backprop, TokenVectors


def packed_tokens(
    tok2vec: Model[list[Doc], TokenVectors], pack: Model[TokenVectors, Ragged], docs: list[Doc], width: int, is_train: bool
) -> tuple[Ragged, bool, Backprop]:
    """The token vectors of a batch, packed.

    A batch without a single token does not reach tok2vec: stock listeners and layers fail on one, and there is nothing to learn.

    tok2vec (Model): documents in, token vectors out.
    pack (Model): from `to_ragged`.
    docs (list[Doc]): of the batch.
    width (int): of the vectors.
    is_train (bool): as of Thinc.
    RETURNS (tuple): (tokens, width) float32; whether tok2vec gave a list of arrays; a callback that takes the packed gradient.
    """
    if not any(len(doc) for doc in docs):
        ops = tok2vec.ops
        return Ragged(ops.alloc2f(0, width), ops.asarray1i([0] * len(docs))), False, lambda d_packed: docs
    X, backprop_tok2vec = tok2vec(docs, is_train)
    packed, backprop_pack = pack(X, is_train)

    def backprop(d_packed: Ragged) -> Any:
        return backprop_tok2vec(backprop_pack(d_packed))

    return packed, not isinstance(X, Ragged), backprop
