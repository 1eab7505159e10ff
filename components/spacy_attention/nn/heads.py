"""The task-specific last layers: class scores for documents, tag scores for tokens."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from .dropout import Dropout
from .pooling import POOLINGS


class ClassScores(nn.Module):
    """Pool a document's token vectors and score its classes linearly.

    width (int): width of the token vectors.
    classes (int): number of classes.
    pooling (str): a key of `POOLINGS`.
    """

    def __init__(self, width: int, classes: int, pooling: str):
        super().__init__()
        self.pooling = POOLINGS[pooling](width)
        self.dropout = Dropout(0.0)
        self.linear = nn.Linear(width, classes)

    def token_weights(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """Of `attention` pooling. rows (Tensor): (tokens, width). RETURNS (Tensor): (tokens, 1), the same weights for all classes."""
        weights: Tensor = self.pooling.weights(rows, lengths)  # type: ignore[operator]
        return weights[:, None]

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, width); lengths (Tensor): (documents,). RETURNS (Tensor): (documents, classes) logits."""
        return self.linear(self.dropout(self.pooling(rows, lengths)).to(self.linear.bias.dtype))


class TagScores(nn.Module):
    """Score the tags of each token linearly, and hold the transition scores of the tag chain.

    width (int): width of the token vectors, further columns included.
    tags (int): number of tags.
    states (int): number of states that the chain has between two entities.
    """

    def __init__(self, width: int, tags: int, states: int):
        super().__init__()
        self.dropout = Dropout(0.0)
        self.linear = nn.Linear(width, tags)
        self.transitions = nn.Parameter(torch.zeros(states, states))

    def forward(self, rows: Tensor, lengths: Tensor, columns: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Score a packed batch.

        rows (Tensor): (tokens, width) token vectors. columns (Tensor | None): (tokens, n) further features; `width` counts them.
        RETURNS (tuple): emissions (tokens, tags) and transitions (states, states).
        """
        rows = rows.to(self.linear.bias.dtype)
        if columns is None:
            return self.linear(self.dropout(rows)), self.transitions
        # Two products instead of one over the concatenation, which would be a copy of all token vectors.
        weight, width = self.linear.weight, rows.shape[1]
        scores = linear(self.dropout(rows), weight[:, :width], self.linear.bias)
        return scores + linear(self.dropout(columns.to(rows.dtype)), weight[:, width:]), self.transitions
