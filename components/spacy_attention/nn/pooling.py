"""From the token vectors of a document to one vector, over packed rows.

The vectors stay float32 here, whatever the precision of the rest: a sum in bfloat16, which has 8 bits, stops growing after a few hundred
tokens.
"""

import torch
from torch import Tensor, nn


def document_of_row(lengths: Tensor, device: torch.device) -> Tensor:
    """lengths (Tensor): (documents,) int64. RETURNS (Tensor): (rows,) int64, the number of each row's document."""
    lengths = lengths.to(device)
    return torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)


def softmax_within(scores: Tensor, lengths: Tensor) -> Tensor:
    """scores (Tensor): (rows, n). lengths (Tensor): (documents,) int64. RETURNS (Tensor): columns that sum to 1 in each document."""
    document = document_of_row(lengths, scores.device)
    index = document[:, None].expand_as(scores)
    start = scores.detach().new_zeros(len(lengths), scores.shape[1])
    top = start.scatter_reduce(0, index, scores.detach(), "amax", include_self=False)
    exps = (scores - top[document]).exp()
    return exps / start.index_add(0, document, exps)[document]


class MeanPooling(nn.Module):
    """The mean of a document's token vectors; zeros for an empty document."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, width); lengths (Tensor): (documents,) int64. RETURNS (Tensor): (documents, width)."""
        document = document_of_row(lengths, rows.device)
        total = rows.new_zeros(len(lengths), rows.shape[1]).index_add(0, document, rows)
        return total / lengths.to(rows.device).clamp(min=1)[:, None]


class MaxPooling(nn.Module):
    """The largest value of each column over a document's token vectors; zeros for an empty document."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, width); lengths (Tensor): (documents,) int64. RETURNS (Tensor): (documents, width)."""
        document = document_of_row(lengths, rows.device)
        index = document[:, None].expand_as(rows)
        start = rows.new_zeros(len(lengths), rows.shape[1])
        return start.scatter_reduce(0, index, rows, "amax", include_self=False)


class AttentionPooling(nn.Module):
    """A mean weighted by a learned query: weights softmax(q . x) within each document.

    The attention of Yang et al. 2016 (section 2.2) without its hidden layer. The query starts at zero: the plain mean. Scores are not
    divided by sqrt(width), as those of two random vectors would be: from zero, a query so slowed down stays the mean for hundreds of
    steps, and the one sentence that matters of a long text is lost among the others.
    """

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Parameter(torch.zeros(width))

    def weights(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, width). RETURNS (Tensor): (tokens,), summing to 1 within each document."""
        # Not `@`, which autocast would turn into bfloat16.
        scores = torch.mv(rows, self.query.to(rows.dtype))
        return softmax_within(scores[:, None], lengths)[:, 0]

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, width); lengths (Tensor): (documents,) int64. RETURNS (Tensor): (documents, width)."""
        document = document_of_row(lengths, rows.device)
        weighted = rows * self.weights(rows, lengths)[:, None]
        return rows.new_zeros(len(lengths), rows.shape[1]).index_add(0, document, weighted)


class FirstRow(nn.Module):
    """The first row of each document, where that is not a token but stands for the document; zeros for a document without rows."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (documents + tokens, width); lengths (Tensor): (documents,). RETURNS (Tensor): (documents, width)."""
        lengths = lengths.to(rows.device)
        filled = (lengths > 0).nonzero()[:, 0]
        first = (lengths.cumsum(0) - lengths)[filled]
        return rows.new_zeros(len(lengths), rows.shape[1]).index_copy(0, filled, rows[first])


POOLINGS: dict[str, type[nn.Module]] = {
    "mean": MeanPooling,
    "max": MaxPooling,
    "attention": AttentionPooling,
    "cls": FirstRow,
}
