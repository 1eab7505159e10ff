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
