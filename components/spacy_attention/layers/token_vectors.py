"""From the hidden states of word pieces to one vector per token, for a whole batch at once."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy
from numpy.typing import NDArray
from spacy_transformers.data_classes import TransformerData
from thinc.api import Ops
from thinc.types import Floats2d, Ragged

from .backbone import BackboneBatch
from .windows import exclusive_sums, expand_ranges

Ints = NDArray[numpy.int32]

# Tokens that are pooled at once. The pieces gathered for it are a copy, which for a document of any length must stay small.
CHUNK = 16384


class TokenRows(NamedTuple):
    """Which rows each token of a batch is the mean of; on the host.

    rows (Ints): the rows of all tokens, one token after the other.
    per_token (Ints): (tokens,) how many rows each has.
    per_doc (Ints): (documents,) how many tokens each has.
    """

    rows: Ints
    per_token: Ints
    per_doc: Ints


def pool_batch(ops: Ops, batch: BackboneBatch, *, document_row: bool = False) -> tuple[Ragged, Callable[[Floats2d], Floats2d]]:
    """As `pool_pieces`, for a batch that comes straight from the backbone and is packed already."""
    layout = batch.layout
    rows = expand_ranges(layout.token_rows, layout.pieces_per_token)
    tokens = TokenRows(*(x.astype("int32") for x in (rows, layout.pieces_per_token, layout.n_tokens)))
    return pool_rows(ops, batch.rows, add_document_rows(tokens, layout.row_starts) if document_row else tokens)


def pool_pieces(
    ops: Ops, doc_data: list[TransformerData], width: int, *, document_row: bool = False
) -> tuple[Ragged, Callable[[Floats2d], Floats2d]]:
    """The mean of each token's pieces; zeros for a token without pieces.

    ops (Ops): where the rows lie.
    doc_data (list[TransformerData]): of the documents of a batch, in order.
    width (int): of the hidden states.
    document_row (bool): see `add_document_rows`.
    RETURNS (tuple): Ragged of (tokens, width) float32 with a length per document, and a callback from the gradient of its rows to
        that of the packed hidden states, (rows, width).
    """
    filled = [data for data in doc_data if "last_hidden_state" in data.model_output]
    states = [data.model_output.last_hidden_state.reshape(-1, width) for data in filled]
    starts = numpy.cumsum([0, *(len(x) for x in states)])
    rows = [data.align.dataXd.reshape(-1) + start for data, start in zip(filled, starts, strict=False)]
    tokens = TokenRows(
        _pack(rows),
        _pack(data.align.lengths for data in doc_data),
        numpy.array([len(x.align.lengths) for x in doc_data], "int32"),
    )
    hidden = ops.alloc2f(0, width) if not states else states[0] if len(states) == 1 else ops.xp.concatenate(states)
    if document_row:
        has_tokens = tokens.per_doc > 0
        document_rows = numpy.zeros(len(doc_data), dtype="int64")
        document_rows[has_tokens] = starts[:-1]
        tokens = add_document_rows(tokens, document_rows)
    return pool_rows(ops, hidden, tokens)


def add_document_rows(tokens: TokenRows, document_rows: NDArray[numpy.integer]) -> TokenRows:
    """Put one more in front of the tokens of each document: the row of the document itself; zeros for a document without tokens.

    tokens (TokenRows): of a batch. document_rows (NDArray): (documents,) where that row is.
    RETURNS (TokenRows): with one token more per document.
    """
    filled = tokens.per_doc > 0
    first_token = exclusive_sums(tokens.per_doc.astype("int64"))
    first_row = exclusive_sums(tokens.per_token.astype("int64"))
    # One past the end, for documents after the last token.
    first_row = numpy.append(first_row, len(tokens.rows))[first_token]
    return TokenRows(
        numpy.insert(tokens.rows, first_row[filled], document_rows[filled]),
        numpy.insert(tokens.per_token, first_token, filled),
        tokens.per_doc + 1,
    )


def pool_rows(ops: Ops, hidden: Floats2d, tokens: TokenRows) -> tuple[Ragged, Callable[[Floats2d], Floats2d]]:
    """hidden (Floats2d): (rows, width). tokens (TokenRows): what to pool. RETURNS (tuple): as `pool_pieces`."""
    # Most tokens are one piece, and their vector is a copy of its row; only the others need a mean.
    is_single = tokens.per_token == 1
    of_several = numpy.repeat(~is_single, tokens.per_token)
    pooled = ops.alloc2f(len(tokens.per_token), hidden.shape[1])
    _copy_rows(ops, hidden, tokens.rows[~of_several], pooled, _places(is_single))
    _average_rows(ops, hidden, tokens.rows[of_several], tokens.per_token[~is_single], pooled, _places(~is_single))

    def backprop(d_rows: Floats2d) -> Floats2d:
        d_hidden = ops.alloc2f(*hidden.shape)
        if len(tokens.rows):
            index, per_token = ops.asarray1i(tokens.rows), ops.asarray1i(tokens.per_token)
            ops.scatter_add(d_hidden, index, ops.backprop_reduce_mean(d_rows, per_token))
        return d_hidden

    return Ragged(pooled, ops.asarray1i(tokens.per_doc)), backprop


def _copy_rows(ops: Ops, hidden: Floats2d, rows: Ints, pooled: Floats2d, targets: Ints) -> None:
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        pooled[ops.asarray1i(targets[part])] = hidden[ops.asarray1i(rows[part])]


def _average_rows(ops: Ops, hidden: Floats2d, rows: Ints, per_token: Ints, pooled: Floats2d, targets: Ints) -> None:
    ends = numpy.concatenate([numpy.zeros(1, "int64"), per_token.cumsum()])
    for start in range(0, len(per_token), CHUNK):
        stop = min(start + CHUNK, len(per_token))
        here = ops.asarray1i(rows[ends[start] : ends[stop]])
        # Thinc's kernels do not take zero rows, which is what a batch of nothing but whitespace has.
        if len(here):
            pooled[ops.asarray1i(targets[start:stop])] = ops.reduce_mean(hidden[here], ops.asarray1i(per_token[start:stop]))


def _places(chosen: NDArray[numpy.bool_]) -> Ints:
    return numpy.flatnonzero(chosen).astype("int32")


def _pack(arrays: Iterable[Ints]) -> Ints:
    return numpy.concatenate([numpy.zeros(0, dtype="int32"), *arrays]).astype("int32")
