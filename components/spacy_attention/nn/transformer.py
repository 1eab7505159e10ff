"""Runs a Hugging Face model over micro-batches of windows and keeps only the rows that are wanted."""

from typing import Any

import torch
from torch import Tensor, nn


class WindowedTransformer(nn.Module):
    """A transformer whose output is packed rows instead of a padded batch.

    transformer (nn.Module): a Hugging Face model that gives `last_hidden_state`.
    states (nn.Module): from `choose_states`; which hidden state is the output.
    """

    def __init__(self, transformer: Any, states: nn.Module):
        super().__init__()
        self.transformer = transformer
        self.states = states

    def forward(self, groups: list[tuple[Tensor, Tensor, Tensor, Tensor]]) -> Tensor:
        """Encode windows group by group.

        groups (list): per micro-batch the ids (windows, longest) int64, their mask (windows, longest) int64, the positions to keep
            (kept,) int64, counted over the flattened group, and the row of the result that each of them becomes (kept,) int64.
        RETURNS (Tensor): (rows, width) float32.
        """
        options = {"output_hidden_states": True} if self.states.all_states else {}
        n_rows = sum(len(target) for *_, target in groups)
        rows = groups[0][0].new_empty(n_rows, self.transformer.config.hidden_size, dtype=torch.float32)
        for ids, mask, source, target in groups:
            hidden = self.states(self.transformer(input_ids=ids, attention_mask=mask, **options))
            # Written in place: of a long document no second copy is ever held.
            rows.index_copy_(0, target, hidden.flatten(0, 1).index_select(0, source).float())
        return rows
