"""From windows over pieces to what the transformer takes: padded micro-batches, and where each row of the result comes from."""

from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from .layout import Layout, exclusive_sums, pack
from .pieces import SpecialIds
from .windows import expand_ranges, group_by_budget

Ints = NDArray[numpy.int64]


class MicroBatch(NamedTuple):
    """One forward pass.

    ids (Ints): (windows, longest) piece ids, special ones included, padded.
    mask (Ints): (windows, longest) 1 = a piece, 0 = padding.
    source (Ints): (kept,) positions in the flattened batch that are wanted.
    target (Ints): (kept,) the row of the result that each of them becomes.
    """

    ids: Ints
    mask: Ints
    source: Ints
    target: Ints


def make_micro_batches(layout: Layout, special: SpecialIds, budget: int) -> list[MicroBatch]:
    """Group windows of like length; no group, padded, has more pieces than the budget.

    layout (Layout): of the documents.
    special (SpecialIds): what stands around each window.
    budget (int): pieces per group; a single window longer than it has a group of its own.
    RETURNS (list[MicroBatch]): longest windows first; all `target` together are the rows of the result, each once.
    """
    windows, ids = layout.windows, pack(p.ids for p in layout.pieces)
    around = len(special.before) + len(special.after)
    # A text without pieces, under a tokenizer that adds none, still needs something to read: one piece of padding.
    lengths = numpy.maximum(windows.lengths + around, 1)
    window_of_row, column_of_row = _rows(layout, len(special.before))
    groups = group_by_budget(lengths, budget)
    group_of, place = numpy.empty_like(lengths), numpy.empty_like(lengths)
    for g, members in enumerate(groups):
        group_of[members], place[members] = g, numpy.arange(len(members))
    group_of_row = group_of[window_of_row]
    rows = numpy.argsort(group_of_row, kind="stable")
    ends = numpy.searchsorted(group_of_row[rows], numpy.arange(len(groups)), side="right")
    batches = []
    for members, start, end in zip(groups, [0, *ends], ends, strict=False):
        target = rows[start:end]
        padded, mask = _fill(members, lengths[members], layout, ids, special)
        source = place[window_of_row[target]] * padded.shape[1] + column_of_row[target]
        batches.append(MicroBatch(padded, mask, source, target))
    return batches


def _rows(layout: Layout, n_before: int) -> tuple[Ints, Ints]:
    """Window and column from which each row of the result is taken."""
    windows = layout.windows
    filled = layout.n_tokens > 0
    own = layout.row_starts[filled]
    is_piece = numpy.ones(int(layout.n_rows.sum()), dtype=bool)
    is_piece[own] = False
    window, column = numpy.zeros(len(is_piece), "int64"), numpy.zeros(len(is_piece), "int64")
    window[own] = exclusive_sums(windows.per_doc)[filled]
    window[is_piece] = windows.owner
    column[is_piece] = numpy.arange(len(windows.owner)) - windows.starts[windows.owner] + n_before
    return window, column


def _fill(members: Ints, lengths: Ints, layout: Layout, ids: Ints, special: SpecialIds) -> tuple[Ints, Ints]:
    n_pieces, n_before = layout.windows.lengths[members], len(special.before)
    longest = int(lengths.max())
    padded = numpy.full((len(members), longest), special.pad, dtype="int64")
    padded[:, :n_before] = special.before
    row = numpy.repeat(numpy.arange(len(members)), n_pieces)
    column = expand_ranges(numpy.full(len(members), n_before), n_pieces)
    padded[row, column] = ids[expand_ranges(layout.windows.starts[members], n_pieces)]
    for i, piece in enumerate(special.after):
        padded[numpy.arange(len(members)), n_before + n_pieces + i] = piece
    return padded, (numpy.arange(longest) < lengths[:, None]).astype("int64")
