"""Which of a transformer's hidden states is its output: that of one layer, or a learned mix of all."""

from typing import Any

import torch
from torch import Tensor, nn


class LastState(nn.Module):
    """The output of the last layer."""

    all_states = False

    def forward(self, output: Any) -> Tensor:
        """output: of a Hugging Face model. RETURNS (Tensor): (windows, pieces, width)."""
        return output.last_hidden_state


class OneState(nn.Module):
    """The output of one layer.

    index (int): 0 for the embeddings, n for the n-th layer; negative ones count from the last.
    """

    all_states = True

    def __init__(self, index: int):
        super().__init__()
        self.index = index

    def forward(self, output: Any) -> Tensor:
        """output: of a Hugging Face model, with `hidden_states`. RETURNS (Tensor): (windows, pieces, width)."""
        return output.hidden_states[self.index]


class MixedStates(nn.Module):
    """A weighted mean of all layers and the embeddings, times a factor; both learned (Peters et al. 2018, equation 1).

    n_states (int): number of layers, plus 1. Starts as the plain mean.
    """

    all_states = True

    def __init__(self, n_states: int):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(n_states))
        self.factor = nn.Parameter(torch.ones(1))

    def forward(self, output: Any) -> Tensor:
        """output: of a Hugging Face model, with `hidden_states`. RETURNS (Tensor): (windows, pieces, width)."""
        mixed = sum(share * state for share, state in zip(self.weights.softmax(0), output.hidden_states, strict=True))
        return self.factor * mixed


def choose_states(layer: int | str, n_layers: int) -> nn.Module:
    """layer (int | str): -1 for the last, another number for one layer, or `mix`. n_layers (int): of the transformer.
    RETURNS (nn.Module): takes the output of the transformer.
    """
    if layer == "mix":
        return MixedStates(n_layers + 1)
    return LastState() if layer in (-1, n_layers) else OneState(int(layer))
