"""From windows over pieces to what the transformer takes: padded passes, and where each row of the result comes from."""

from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ..nn.packed_attention import Block
from .grouping import Group, Passes, pad_lengths, plan_passes
from .layout import Layout, pack
from .pieces import SpecialIds
from .windows import exclusive_sums, expand_ranges

Ints = NDArray[numpy.int64]


class MicroBatch(NamedTuple):
    """One forward pass. Its windows stand one after the other, in blocks of one length each; behind them there may be padding.

    ids (Ints): (cells,) piece ids, special ones included, padded.
    mask (Ints): (cells,) 1 = a piece, 0 = padding.
    positions (Ints): (cells,) counted from the start of each window.
    source (Ints): (kept,) cells that are wanted.
    target (Ints): (kept,) the row of the result that each of them becomes.
    blocks (list[Block]): their shapes.
    windows (Ints): (windows,) which ones these are, counted over the batch. Blocks and windows stay on the host.
    """

    ids: Ints
    mask: Ints
    positions: Ints
    source: Ints
    target: Ints
    blocks: list[Block]
    windows: Ints


def make_micro_batches(layout: Layout, special: SpecialIds, passes: Passes) -> list[MicroBatch]:
    """Share the windows of a batch out among forward passes.

    layout (Layout): of the documents.
    special (SpecialIds): what stands around each window.
    passes (Passes): what limits and costs are.
    RETURNS (list[MicroBatch]): longest windows first; all `target` together are the rows of the result, each once.
    """
    windows, ids = layout.windows, pack(p.ids for p in layout.pieces)
    # Never empty: a text without pieces, under a tokenizer that adds none, still needs something to read, one piece of padding.
    lengths = numpy.maximum(windows.lengths + len(special.before) + len(special.after), 1)
    plan = plan_passes(pad_lengths(lengths, passes), passes)
    window_of_row, column_of_row = _rows(layout, len(special.before))
    pass_of_window, first_cell = numpy.empty_like(lengths), numpy.empty_like(lengths)
    for p, groups in enumerate(plan):
        members = numpy.concatenate([group.members for group in groups])
        pass_of_window[members] = p
        first_cell[members] = exclusive_sums(numpy.concatenate([numpy.full(len(g.members), g.length) for g in groups]))
    pass_of_row = pass_of_window[window_of_row]
    rows = numpy.argsort(pass_of_row, kind="stable")
    ends = numpy.searchsorted(pass_of_row[rows], numpy.arange(len(plan)), side="right")
    batches = []
    for groups, start, end in zip(plan, [0, *ends], ends, strict=False):
        target = rows[start:end]
        source = first_cell[window_of_row[target]] + column_of_row[target]
        members = numpy.concatenate([group.members for group in groups])
        n_cells = sum(len(group.members) * group.length for group in groups)
        n_filled = -(-n_cells // passes.multiple) * passes.multiple if passes.packed else n_cells
        cells = _fill(groups, n_filled, first_cell, layout, ids, special)
        batches.append(MicroBatch(*cells, source, target, _blocks(groups, lengths), members))
    return batches


def _rows(layout: Layout, n_before: int) -> tuple[Ints, Ints]:
    """Window and column from which each row of the result is taken."""
    windows = layout.windows
    filled = layout.n_tokens > 0
    own = layout.row_starts[filled]
    is_piece = numpy.ones(int(layout.n_rows.sum()), dtype=bool)
    is_piece[own] = False
    window, column = numpy.zeros(len(is_piece), "int64"), numpy.zeros(len(is_piece), "int64")
    window[own] = layout.window_starts[filled]
    window[is_piece] = windows.owner
    column[is_piece] = numpy.arange(len(windows.owner)) - windows.starts[windows.owner] + n_before
    return window, column


def _fill(
    groups: list[Group], n_cells: int, first_cell: Ints, layout: Layout, ids: Ints, special: SpecialIds
) -> tuple[Ints, Ints, Ints]:
    """Ids, mask and positions of one pass."""
    members = numpy.concatenate([group.members for group in groups])
    cells, n_pieces, n_before = first_cell[members], layout.windows.lengths[members], len(special.before)
    counted = numpy.concatenate([numpy.tile(numpy.arange(g.length), len(g.members)) for g in groups])
    positions = numpy.zeros(n_cells, dtype="int64")
    positions[: len(counted)] = counted
    padded = numpy.full(n_cells, special.pad, dtype="int64")
    for i, piece in enumerate(special.before):
        padded[cells + i] = piece
    padded[expand_ranges(cells + n_before, n_pieces)] = ids[expand_ranges(layout.windows.starts[members], n_pieces)]
    for i, piece in enumerate(special.after):
        padded[cells + n_before + n_pieces + i] = piece
    mask = numpy.zeros(n_cells, dtype="int64")
    mask[expand_ranges(cells, numpy.maximum(n_pieces + n_before + len(special.after), 1))] = 1
    return padded, mask, positions


def _blocks(groups: list[Group], lengths: Ints) -> list[Block]:
    return [Block(len(g.members), g.length, bool((lengths[g.members] < g.length).any())) for g in groups]
