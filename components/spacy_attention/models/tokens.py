"""Running a `tok2vec` block of any kind on a batch of any kind."""

from typing import Any

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Ragged

from ..errors import Errors
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
    RETURNS (tuple): (tokens, width) float32, with rows of documents where tok2vec gives them; whether tok2vec gave a list of arrays; a
        callback that takes the packed gradient.
    """
    if not any(len(doc) for doc in docs):
        ops, per_doc = tok2vec.ops, int(gives_document_row(tok2vec))
        rows = ops.alloc2f(per_doc * len(docs), width)
        return Ragged(rows, ops.asarray1i([per_doc] * len(docs))), False, lambda d_packed: docs
    X, backprop_tok2vec = tok2vec(docs, is_train)
    packed, backprop_pack = pack(X, is_train)

    def backprop(d_packed: Ragged) -> Any:
        return backprop_tok2vec(backprop_pack(d_packed))

    return packed, not isinstance(X, Ragged), backprop


def gives_document_row(tok2vec: Model) -> bool:
    """tok2vec (Model): any. RETURNS (bool): whether a row for the document itself comes before those of its tokens."""
    return any(node.attrs["document_row"] for node in _that_can(tok2vec))


def ask_for_document_row(tok2vec: Model) -> None:
    """tok2vec (Model): is to give a row for each document. RAISES (ValueError): E311 for one that cannot."""
    nodes = _that_can(tok2vec)
    if not nodes:
        raise ValueError(Errors.E311.format(found=tok2vec.name))
    for node in nodes:
        node.attrs["document_row"] = True


def refuse_document_row(tok2vec: Model) -> None:
    """tok2vec (Model): of a model that reads tokens only. RAISES (ValueError): E312 where it gives rows for documents."""
    if gives_document_row(tok2vec):
        raise ValueError(Errors.E312)


def _that_can(tok2vec: Model) -> list[Model]:
    """The listener itself, or the last layer of what replaced it; a listener further inside belongs to an encoder."""
    return [node for node in (tok2vec, *tok2vec.layers[-1:]) if "document_row" in node.attrs]
