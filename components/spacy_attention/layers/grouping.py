"""Which documents are laid out together, and which of their windows go through the transformer together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

Ints = NDArray[numpy.int64]

# Fused attention is fastest where lengths are a multiple of this: its blocks are full then. With torch 2.13 on a CPU with AMX, in
# bfloat16, 2,048 pieces in windows of 63 take 2.9 ms and in windows of 64 take 1.3 ms; of 254, 6.2 ms, of 256, 3.3 ms.
ALIGNED = 16


def group_documents(lengths: Sequence[int], limit: int) -> list[list[int]]:
    """Put documents of like length together.

    lengths (Sequence[int]): (documents,) tokens of each.
    limit (int): tokens per group; a longer document has a group of its own.
    RETURNS (list[list[int]]): indices of each group, longest documents first.
    """
    groups: list[list[int]] = []
    room = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not groups or lengths[i] > room:
            groups.append([])
            room = limit
        groups[-1].append(i)
        room -= lengths[i]
    return groups


class Passes(NamedTuple):
    """What a forward pass may hold, and what it costs.

    longest (int): pieces of a window that the model takes, special ones included.
    budget (int): pieces in all, padding included; a single window longer than it has a pass of its own.
    packed (bool): windows of several lengths go through together, each padded to the longest of its block only.
    block_cost (float): time that one more block takes, in time for one piece; a block is a pass where passes are not packed.
    crooked_cost (float): share of its time that a piece takes longer where the length of windows is no multiple of `ALIGNED`.
    multiple (int): a packed pass is filled up with padding to a multiple of this many pieces, beyond the budget if need be.
    """

    longest: int
    budget: int
    packed: bool
    block_cost: float
    crooked_cost: float
    multiple: int = 1


class Group(NamedTuple):
    """Windows that are padded to one length.

    members (Ints): (windows,) their indices.
    length (int): pieces of each, padding included.
    """

    members: Ints
    length: int


def pad_lengths(lengths: Ints, passes: Passes) -> Ints:
    """Round lengths up to a multiple of `ALIGNED` where the padding costs less than a crooked length.

    lengths (Ints): (windows,) pieces of each, special ones included.
    passes (Passes): what limits and costs are.
    RETURNS (Ints): (windows,) at least 1.
    """
    rounded = numpy.minimum(-(-lengths // ALIGNED) * ALIGNED, passes.longest)
    return numpy.maximum(numpy.where(rounded <= lengths * (1 + passes.crooked_cost), rounded, lengths), 1)


def plan_passes(lengths: Ints, passes: Passes) -> list[list[Group]]:
    """Share windows out among forward passes, as cheaply as can be within the budget.

    lengths (Ints): (windows,) from `pad_lengths`.
    passes (Passes): what limits and costs are.
    RETURNS (list[list[Group]]): the groups of each pass, a single one where passes are not packed; longest windows first.
    """
    order = numpy.argsort(-lengths, kind="stable")
    plan: list[list[Group]] = []
    room = 0
    for start, end in cheapest_cuts(lengths[order], passes):
        while start < end:
            length = int(lengths[order[start]])
            if room < length or not passes.packed:
                plan.append([])
                room = passes.budget
            n_windows = min(max(room // length, 1), end - start)
            plan[-1].append(Group(order[start : start + n_windows], length))
            room -= n_windows * length
            start += n_windows
    return plan


def cheapest_cuts(lengths: Ints, passes: Passes) -> list[tuple[int, int]]:
    """Where to cut windows in order of length into groups, by dynamic programming over the different lengths.

    A group costs its padded pieces, and something for being one more.

    lengths (Ints): (windows,) falling.
    passes (Passes): what limits and costs are.
    RETURNS (list): first and exclusive last window of each group.
    """
    negative, counts = numpy.unique(-lengths, return_counts=True)
    distinct, before = -negative, numpy.concatenate([[0], counts.cumsum()])
    per_pass = numpy.maximum(passes.budget // distinct, 1)
    cheapest, came_from = numpy.zeros(len(before)), numpy.zeros(len(before), dtype="int64")
    for end in range(1, len(before)):
        n_windows = before[end] - before[:end]
        costs = cheapest[:end] + distinct[:end] * n_windows + passes.block_cost * -(-n_windows // per_pass[:end])
        came_from[end] = costs.argmin()
        cheapest[end] = costs[came_from[end]]
    cuts, end = [], len(distinct)
    while end:
        cuts.append((int(before[came_from[end]]), int(before[end])))
        end = came_from[end]
    return cuts[::-1]
