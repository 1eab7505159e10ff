"""Between packed rows (documents one after the other) and a padded batch."""

import torch
from torch import Tensor


def pad_rows(rows: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Lay the documents of a packed array side by side.

    rows (Tensor): (tokens, width).
    lengths (Tensor): (documents,) int64, each at least 1.
    RETURNS (tuple): the batch (documents, longest, width), zeros where a document has ended, and its mask
        (documents, longest) bool, True = a token.
    """
    longest = int(lengths.max()) if len(lengths) else 0
    mask = torch.arange(longest, device=rows.device) < lengths.to(rows.device)[:, None]
    batch = rows.new_zeros((*mask.shape, rows.shape[-1]))
    batch[mask] = rows
    return batch, mask


def unpad_rows(batch: Tensor, mask: Tensor) -> Tensor:
    """Undo `pad_rows`.

    batch (Tensor): (documents, longest, width).
    mask (Tensor): (documents, longest) bool.
    RETURNS (Tensor): (tokens, width).
    """
    return batch[mask]


def group_rows(lengths: Tensor, budget: int) -> list[tuple[Tensor, Tensor]]:
    """Put documents of like length together, so that a short one is not padded to the longest of the batch.

    lengths (Tensor): (documents,) int64, may hold zeros, which belong to no group.
    budget (int): rows of a padded group; a single document longer than it has a group of its own.
    RETURNS (list): per group its rows in the packed array, document after document, and the lengths of its documents.
    """
    starts = torch.cumsum(lengths, 0) - lengths
    order = torch.argsort(lengths, descending=True, stable=True)
    sorted_lengths = lengths[order].tolist()
    n_filled = sum(length > 0 for length in sorted_lengths)
    groups, first = [], 0
    while first < n_filled:
        last = min(first + max(budget // sorted_lengths[first], 1), n_filled)
        members = order[first:last]
        ends = torch.cumsum(lengths[members], 0)
        shift = torch.repeat_interleave(starts[members] - ends + lengths[members], lengths[members])
        groups.append((torch.arange(len(shift), device=lengths.device) + shift, lengths[members]))
        first = last
    return groups
