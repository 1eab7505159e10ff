"""Scores of all spans of a document up to a length, on their own: spans that nest or overlap do not exclude each other."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from .dropout import Dropout
from .pooling import document_of_row

# Spans that are scored at once. Without gradients, no more than their hidden vectors are in memory.
CHUNK = 32768
# Log-odds of a span before anything is learned: nearly all spans are none.
PRIOR = -4.0


class SpanScorer(nn.Module):
    """Score each label for each span from its first and last token, the mean of its tokens, and its length.

    One hidden layer over the four, of which each is projected per token or per length first, so that a span costs a few sums.

    width (int): width of the token vectors, further columns included.
    labels (int): number of labels.
    max_length (int): tokens of the longest span.
    hidden (int): width of the hidden layer.
    """

    def __init__(self, width: int, labels: int, max_length: int, hidden: int = 128):
        super().__init__()
        self.max_length = max_length
        self.dropout = Dropout(0.0)
        self.first = nn.Linear(width, hidden)
        self.last = nn.Linear(width, hidden, bias=False)
        self.mean = nn.Linear(width, hidden, bias=False)
        self.length = nn.Embedding(max_length, hidden)
        self.output = nn.Linear(hidden, labels)
        nn.init.zeros_(self.length.weight)
        nn.init.constant_(self.output.bias, PRIOR)

    def forward(self, rows: Tensor, lengths: Tensor, columns: Tensor | None = None) -> Tensor:
        """Score a packed batch.

        rows (Tensor): (tokens, width) token vectors. lengths (Tensor): (documents,).
        columns (Tensor | None): (tokens, n) further features; `width` counts them.
        RETURNS (Tensor): (spans, labels) logits, in the order of `all_spans`.
        """
        dtype = self.output.weight.dtype
        inputs = self.dropout((rows if columns is None else torch.cat([rows, columns], 1)).to(dtype))
        first, last, mean = self.first(inputs), self.last(inputs), self.mean(inputs)
        # In float64, since the difference of two long sums is what counts.
        sums = torch.cat([mean.new_zeros(1, mean.shape[1]), mean]).double().cumsum(0)
        start, end = all_spans(lengths.to(rows.device), self.max_length)
        parts = [
            self._score(first[a] + last[b - 1] + ((sums[b] - sums[a]) / (b - a)[:, None]).to(dtype) + self.length(b - a - 1))
            for a, b in zip(start.split(CHUNK), end.split(CHUNK), strict=True)
        ]
        return torch.cat(parts) if parts else rows.new_zeros(0, self.output.out_features)

    def _score(self, hidden: Tensor) -> Tensor:
        return self.output(self.dropout(gelu(hidden)))


def all_spans(lengths: Tensor, max_length: int) -> tuple[Tensor, Tensor]:
    """List the spans of a batch: by start, then by length.

    lengths (Tensor): (documents,) int64. max_length (int): tokens of the longest span.
    RETURNS (tuple): start and exclusive end of each, (spans,) int64, in rows of the packed array.
    """
    document_ends = lengths.cumsum(0)[document_of_row(lengths, lengths.device)]
    tokens = torch.arange(len(document_ends), device=lengths.device)
    counts = (document_ends - tokens).clamp(max=max_length)
    start = torch.repeat_interleave(tokens, counts)
    before = counts.cumsum(0) - counts
    return start, start + 1 + torch.arange(len(start), device=lengths.device) - before[start]
