"""Overlapping windows over the word pieces of a document, and which window each piece's vector is taken from."""

from typing import NamedTuple

import numpy
from numpy.typing import NDArray

Ints = NDArray[numpy.int64]


class Windows(NamedTuple):
    """Windows over the pieces of a batch of documents.

    starts, lengths (Ints): (windows,) first piece, counted over the batch, and number of pieces; of each document in turn.
    per_doc (Ints): (documents,) windows of each document; none for one without tokens.
    owner (Ints): (pieces,) the window from which each piece's vector is taken.
    """

    starts: Ints
    lengths: Ints
    per_doc: Ints
    owner: Ints


def cover_documents(n_pieces: Ints, n_tokens: Ints, first: Ints, last: Ints, *, capacity: int, stride: int) -> Windows:
    """Cover every document with windows.

    n_pieces, n_tokens (Ints): (documents,).
    first, last (Ints): (tokens,) range of pieces of each token, counted over the batch, last exclusive.
    capacity (int): pieces that fit into a window, special ones not counted.
    stride (int): see `cut_windows`.
    RETURNS (Windows): a document that has tokens has at least one, if it has no pieces an empty one.
    """
    per_doc = (1 - -numpy.maximum(n_pieces - capacity, 0) // stride) * (n_tokens > 0)
    ends, pieces_before, tokens_before = (x.cumsum() for x in (per_doc, n_pieces, n_tokens))
    # Right for all documents of one window, which are most.
    starts = numpy.repeat(pieces_before - n_pieces, per_doc)
    lengths = numpy.repeat(n_pieces, per_doc)
    owner = numpy.repeat(ends - per_doc, n_pieces)
    for d in numpy.flatnonzero(per_doc > 1):
        cuts = cut_windows(int(n_pieces[d]), capacity, stride)
        here = slice(ends[d] - per_doc[d], ends[d])
        base, tokens = pieces_before[d] - n_pieces[d], slice(tokens_before[d] - n_tokens[d], tokens_before[d])
        starts[here], lengths[here] = base + cuts[:, 0], cuts[:, 1] - cuts[:, 0]
        chosen = central_windows(cuts, first[tokens] - base, last[tokens] - base, int(n_pieces[d]))
        owner[base : pieces_before[d]] = here.start + chosen
    return Windows(starts, lengths, per_doc, owner)


def cut_windows(n_pieces: int, capacity: int, stride: int) -> Ints:
    """Cover a document with windows of like length, each of which shares `capacity - stride` pieces with the next.

    Only as many as are needed, and these no longer than needed: every piece that is read twice costs time.

    n_pieces (int): pieces of the document.
    capacity (int): pieces that fit into a window, special ones not counted.
    stride (int): pieces from the start of one full window to that of the next, 1 to capacity.
    RETURNS (Ints): (windows, 2) start and exclusive end, at least one window, none inside another.
    """
    shared = capacity - stride
    n_windows = 1 - -max(n_pieces - capacity, 0) // stride
    lengths = spread(n_pieces + (n_windows - 1) * shared, n_windows)
    starts = exclusive_sums(lengths - shared)
    return numpy.stack([starts, starts + lengths], axis=1)


def spread(total: int, n_parts: int) -> Ints:
    """total, n_parts (int). RETURNS (Ints): (n_parts,) whole numbers that sum to the total and differ by at most 1, larger ones first."""
    return total // n_parts + (numpy.arange(n_parts) < total % n_parts)


def central_windows(windows: Ints, first: Ints, last: Ints, n_pieces: int) -> Ints:
    """For each piece the window in which it is farthest from an edge; pieces of one token stay together.

    windows (Ints): (windows, 2), from `cut_windows`.
    first, last (Ints): (tokens,) range of pieces of each token, last exclusive, in text order.
    n_pieces (int): pieces of the document.
    RETURNS (Ints): (pieces,) index into windows. Only a token that no window holds whole is spread over several.
    """
    middles = (windows[1:, 0] + windows[:-1, 1]) // 2
    owner = numpy.searchsorted(middles, numpy.arange(n_pieces), side="right")
    if len(windows) == 1:
        return owner
    has_pieces = last > first
    first, last = first[has_pieces], last[has_pieces]
    choice = owner[(first + last) // 2]
    # If any window holds the token, the last one that starts before it does.
    latest = numpy.searchsorted(windows[:, 0], first, side="right") - 1
    choice = numpy.where(_holds(windows[choice], first, last), choice, latest)
    fits = _holds(windows[choice], first, last)
    first, lengths, choice = first[fits], (last - first)[fits], choice[fits]
    owner[expand_ranges(first, lengths)] = numpy.repeat(choice, lengths)
    return owner


def _holds(windows: Ints, first: Ints, last: Ints) -> NDArray[numpy.bool_]:
    return (windows[:, 0] <= first) & (windows[:, 1] >= last)


def expand_ranges(starts: Ints, lengths: Ints) -> Ints:
    """starts, lengths (Ints): (ranges,). RETURNS (Ints): the members of all ranges, one range after the other."""
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    return numpy.arange(total) + numpy.repeat(starts - ends + lengths, lengths)


def exclusive_sums(numbers: Ints) -> Ints:
    """numbers (Ints): (n,). RETURNS (Ints): (n,) sum of those before each."""
    return numbers.cumsum() - numbers
