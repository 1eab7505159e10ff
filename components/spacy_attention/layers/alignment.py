"""Which word pieces cover which spaCy tokens, from character offsets alone."""

import numpy
from numpy.typing import NDArray
from spacy.attrs import IDX, LENGTH
from spacy.tokens import Doc

Ints = NDArray[numpy.int64]


def token_offsets(doc: Doc) -> tuple[Ints, Ints]:
    """doc (Doc): any. RETURNS (tuple): first character and exclusive last character of each token, (tokens,)."""
    starts, lengths = doc.to_array([IDX, LENGTH]).astype("int64").reshape(-1, 2).T
    return starts, starts + lengths


def align_offsets(token_starts: Ints, token_ends: Ints, piece_starts: Ints, piece_ends: Ints) -> tuple[Ints, Ints]:
    """The range of pieces that share a character with each token.

    token_starts, token_ends (Ints): (tokens,) character offsets, ends exclusive, in text order.
    piece_starts, piece_ends (Ints): (pieces,) the same for pieces, in reading order. Pieces may share characters, as those of one
        emoji do, leave some out, and be empty.
    RETURNS (tuple): first and exclusive last piece of each token, (tokens,); an empty range for a token without pieces.
    """
    # No tokenizer was found whose offsets ever go back. With one that did, a range would hold a piece too many, and none too few.
    first = numpy.searchsorted(numpy.maximum.accumulate(piece_ends), token_starts, side="right")
    last = numpy.searchsorted(numpy.minimum.accumulate(piece_starts[::-1])[::-1], token_ends, side="left")
    return first, numpy.maximum(first, last)
