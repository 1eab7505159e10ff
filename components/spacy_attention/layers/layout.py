"""Where the pieces and tokens of a batch of documents lie: worked out once on the host, for all documents together."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy
from numpy.typing import NDArray
from spacy.tokens import Doc
from transformers import PreTrainedTokenizerFast

from .alignment import align_offsets, token_offsets
from .pieces import Pieces, encode_texts
from .windows import Windows, cover_documents, exclusive_sums

Ints = NDArray[numpy.int64]


@dataclass
class Layout:
    """A batch of documents as pieces, windows, and rows of the backbone's output.

    A document with tokens has one row for itself and then one per piece; an empty one has none.

    pieces (list[Pieces]): of every document.
    n_tokens (Ints): (documents,).
    n_pieces (Ints): (documents,).
    truncated (Ints): (documents,) pieces that were cut off.
    first, last (Ints): (tokens,) range of pieces of each token, counted over the batch, last exclusive.
    windows (Windows): over all pieces of the batch.
    """

    pieces: list[Pieces]
    n_tokens: Ints
    n_pieces: Ints
    truncated: Ints
    first: Ints
    last: Ints
    windows: Windows

    @cached_property
    def n_rows(self) -> Ints:
        """(documents,) rows of each document."""
        return self.n_pieces + (self.n_tokens > 0)

    @cached_property
    def row_starts(self) -> Ints:
        """(documents,) first row of each document."""
        return exclusive_sums(self.n_rows)

    @cached_property
    def token_starts(self) -> Ints:
        """(documents,) first token of each document."""
        return exclusive_sums(self.n_tokens)

    @cached_property
    def piece_starts(self) -> Ints:
        """(documents,) first piece of each document."""
        return exclusive_sums(self.n_pieces)

    @cached_property
    def window_starts(self) -> Ints:
        """(documents,) first window of each document."""
        return exclusive_sums(self.windows.per_doc)

    @cached_property
    def token_rows(self) -> Ints:
        """(tokens,) row of the first piece of each token; the others follow it."""
        # Rows of a document run ahead of its pieces by one for each document so far.
        return self.first + numpy.repeat(numpy.cumsum(self.n_tokens > 0), self.n_tokens)

    @cached_property
    def pieces_per_token(self) -> Ints:
        """(tokens,) how many pieces each token has."""
        return self.last - self.first


def lay_out(tokenizer: PreTrainedTokenizerFast, docs: list[Doc], *, capacity: int, stride: int, truncate: bool) -> Layout:
    """Cut documents into pieces, align these with the tokens, and cover them with windows.

    tokenizer (PreTrainedTokenizerFast): from `prepare_tokenizer`.
    docs (list[Doc]): any.
    capacity (int): pieces per window, special ones not counted.
    stride (int): pieces from the start of one window to that of the next.
    truncate (bool): cut documents after one window, instead of reading on.
    RETURNS (Layout): of the batch.
    """
    texts = [doc.text for doc in docs]
    pieces = encode_texts(tokenizer, texts)
    whole = _counts(len(p.ids) for p in pieces)
    if truncate:
        pieces = [_cut(p, capacity) if n > capacity else p for p, n in zip(pieces, whole, strict=True)]
    n_tokens, n_pieces = _counts(map(len, docs)), _counts(len(p.ids) for p in pieces)
    # As if the texts stood one after the other, so that one search does for all.
    base = exclusive_sums(_counts(len(text) + 1 for text in texts))
    first, last = _align(docs, pieces, numpy.repeat(base, n_tokens), numpy.repeat(base, n_pieces))
    windows = cover_documents(n_pieces, n_tokens, first, last, capacity=capacity, stride=stride)
    return Layout(pieces, n_tokens, n_pieces, whole - n_pieces, first, last, windows)


def _align(docs: list[Doc], pieces: list[Pieces], token_shift: Ints, piece_shift: Ints) -> tuple[Ints, Ints]:
    starts, ends = zip(*map(token_offsets, docs), strict=True) if docs else ((), ())
    return align_offsets(
        pack(starts) + token_shift,
        pack(ends) + token_shift,
        pack(p.starts for p in pieces) + piece_shift,
        pack(p.ends for p in pieces) + piece_shift,
    )


def _cut(pieces: Pieces, n: int) -> Pieces:
    return pieces._replace(ids=pieces.ids[:n], starts=pieces.starts[:n], ends=pieces.ends[:n], strings=pieces.strings[:n])


def _counts(numbers: Iterable[int]) -> Ints:
    return numpy.fromiter(numbers, dtype="int64")


def pack(arrays: Iterable[Ints]) -> Ints:
    """arrays (Iterable[Ints]): any number of (n,). RETURNS (Ints): all of them, one after the other."""
    return numpy.concatenate([numpy.zeros(0, dtype="int64"), *arrays])
