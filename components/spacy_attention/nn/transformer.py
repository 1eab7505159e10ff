"""Runs a Hugging Face model over micro-batches of windows and keeps only the rows that are wanted."""

from typing import Any

import torch
from torch import Tensor, nn


class WindowedTransformer(nn.Module):
    """A transformer whose output is packed rows instead of a padded batch.

    transformer (nn.Module): a Hugging Face model that gives `last_hidden_state`.
    """

    def __init__(self, transformer: Any):
        super().__init__()
        self.transformer = transformer

    def forward(self, groups: list[tuple[Tensor, Tensor, Tensor]], order: Tensor) -> Tensor:
        """Encode windows group by group.

        groups (list): per micro-batch the ids (windows, longest) int64, their mask (windows, longest) int64, and the rows to
            keep (kept,) int64, counted over the flattened group.
        order (Tensor): (rows,) int64, place of each row of the result among all that were kept.
        RETURNS (Tensor): (rows, width).
        """
        kept = []
        for ids, mask, rows in groups:
            hidden = self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
            kept.append(hidden.flatten(0, 1).index_select(0, rows))
        return torch.cat(kept).index_select(0, order)
