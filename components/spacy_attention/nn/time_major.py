"""Packed rows of several documents in the order in which a chain walks them: all first tokens, all second tokens, ..."""

from typing import NamedTuple

import torch
from torch import Tensor


class TimeMajor(NamedTuple):
    """Rows sorted by time, within a time by document, longest document first: each step is one dense slice, without padding.

    rows (Tensor): (tokens,) int64, row of the packed array at each place.
    active (list[int]): documents that have a token at each time; the lengths of the slices.
    order (Tensor): (documents,) int64, place in the batch of each document, longest first.
    """

    rows: Tensor
    active: list[int]
    order: Tensor


def time_major(lengths: Tensor) -> TimeMajor:
    """Work out the order.

    lengths (Tensor): (documents,) int64, may hold zeros.
    RETURNS (TimeMajor): of a packed array with that many rows per document; on the device of the lengths.
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    starts = (lengths.cumsum(0) - lengths)[order]
    longest = int(lengths.max()) if len(lengths) else 0
    time = torch.arange(longest, device=lengths.device)
    active = len(lengths) - torch.searchsorted(lengths[order].flip(0).contiguous(), time, right=True)
    offsets = active.cumsum(0) - active
    # The rank of a document within its slice, counted from the start of the slice.
    rank = torch.arange(int(active.sum()), device=lengths.device) - torch.repeat_interleave(offsets, active)
    return TimeMajor(starts[rank] + torch.repeat_interleave(time, active), active.tolist(), order)
