"""One learned query per class, which looks for the tokens that speak for it."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from .dropout import Dropout
from .pooling import document_of_row, softmax_within


class LabelScores(nn.Module):
    """Score each class from its own weighted mean of a document's token vectors (Mullenbach et al. 2018, section 2.2).

    A linear score of a weighted mean is the weighted mean of linear scores, so the means themselves, one vector per document and class,
    are never made. Queries start at zero, which is the plain mean, as in `AttentionPooling`.

    width (int): width of the token vectors.
    classes (int): number of classes.
    """

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.queries = nn.Parameter(torch.zeros(classes, width))
        self.dropout = Dropout(0.0)
        self.linear = nn.Linear(width, classes)

    def token_weights(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, width). RETURNS (Tensor): (tokens, classes); each column sums to 1 within each document."""
        with torch.autocast(rows.device.type, enabled=False):
            scores = rows @ self.queries.to(rows.dtype).T
        return softmax_within(scores, lengths)

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, width); lengths (Tensor): (documents,). RETURNS (Tensor): (documents, classes) logits."""
        values = linear(self.dropout(rows).to(self.linear.weight.dtype), self.linear.weight).to(rows.dtype)
        weighted = self.token_weights(rows, lengths) * values
        start = self.linear.bias.to(rows.dtype).expand(len(lengths), -1)
        return start.index_add(0, document_of_row(lengths, rows.device), weighted)
