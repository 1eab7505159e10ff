"""From the token vectors of a document to one vector, over packed rows.

The vectors stay float32 here, whatever the precision of the rest: a sum in bfloat16, which has 8 bits, stops growing after a few hundred
tokens.
"""

import torch
from torch import Tensor, nn


def _document_of_row(lengths: Tensor, device: torch.device) -> Tensor:
    lengths = lengths.to(device)
    return torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)


class MeanPooling(nn.Module):
    """The mean of a document's token vectors; zeros for an empty document."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, width); lengths (Tensor): (documents,) int64. RETURNS (Tensor): (documents, width)."""
        document = _document_of_row(lengths, rows.device)
        total = rows.new_zeros(len(lengths), rows.shape[1]).index_add(0, document, rows)
        return total / lengths.to(rows.device).clamp(min=1)[:, None]


class MaxPooling(nn.Module):
    """The largest value of each column over a document's token vectors; zeros for an empty document."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, width); lengths (Tensor): (documents,) int64. RETURNS (Tensor): (documents, width)."""
        document = _document_of_row(lengths, rows.device)
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
        document = _document_of_row(lengths, rows.device)
        top = scores.detach().new_zeros(len(lengths)).scatter_reduce(0, document, scores.detach(), "amax", include_self=False)
        exps = (scores - top[document]).exp()
        total = exps.new_zeros(len(lengths)).index_add(0, document, exps)
        return exps / total[document]

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, width); lengths (Tensor): (documents,) int64. RETURNS (Tensor): (documents, width)."""
        document = _document_of_row(lengths, rows.device)
        weighted = rows * self.weights(rows, lengths)[:, None]
        return rows.new_zeros(len(lengths), rows.shape[1]).index_add(0, document, weighted)


POOLINGS: dict[str, type[nn.Module]] = {"mean": MeanPooling, "max": MaxPooling, "attention": AttentionPooling}
