"""The exact probability that a chain gives to any labelled span, by one forward and one backward pass (Rabiner 1989, section III).

In NumPy and in probabilities, scaled to sum to 1 at each step (his section V.A): the arrays of a step are so small that what counts
is the cost of a call, and a step without exponentials and logarithms is a few times cheaper.
"""

from typing import NamedTuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from .time_major import time_major

Floats = NDArray[numpy.float64]

# Log-probabilities of tags below this are raised to it, those of ruled-out tags too, and transitions are kept within it of zero. Then
# no step can underflow to zero as a whole, and what is raised stays far below anything that a probability shows.
FLOOR = -200.0


class SpanScores(NamedTuple):
    """Forward and backward scores from which the probability of any span follows without another pass; rows as in the packed array.

    enter (Tensor): (tokens, labels + 1) float64: log-sum of all ways to come to a token and start O or label x there.
    after (Tensor): (tokens, labels + 1) float64: log-sum of all ways to finish, given O or the end of label x at a token.
    emissions (Tensor): (tokens, tags) float64, normalised.
    inside (Tensor): (tokens + 1, labels) float64, sums of the I emissions before each token.
    total (Tensor): (documents,) float64, log partition.
    """

    enter: Tensor
    after: Tensor
    emissions: Tensor
    inside: Tensor
    total: Tensor


class _Tags(NamedTuple):
    """Probabilities of the tags, in pairs: (tokens,) and (tokens, 2, labels); rows in the order of `time_major`."""

    outside: Floats
    unit_begin: Floats
    last_inside: Floats

    def at(self, start: int, end: int) -> tuple[Floats, ...]:
        return self.outside[start:end], self.unit_begin[start:end], self.last_inside[start:end]


def score_spans(emissions: Tensor, lengths: Tensor, transitions: Tensor) -> SpanScores:
    """Run the forward and the backward pass over a batch, in float64.

    emissions (Tensor): (tokens, tags). lengths (Tensor): (documents,) int64. transitions (Tensor): (labels + 1, labels + 1).
    RETURNS (SpanScores): what `span_log_probability` needs.
    """
    scores = emissions.detach().cpu().double().log_softmax(-1).clamp_(min=FLOOR)
    moves = transitions.detach().cpu().double()
    labels = len(moves) - 1
    sums = scores[:, 1 + labels : 1 + 2 * labels].cumsum(0)
    inside = torch.cat([sums.new_zeros(1, labels), sums])
    if not len(scores):
        nothing = scores.new_zeros(0, labels + 1)
        return SpanScores(nothing, nothing, scores, inside, scores.new_zeros(len(lengths)))
    rows, active, order = time_major(lengths.cpu())
    steps = moves.clamp(min=FLOOR, max=-FLOOR).exp().numpy()
    probabilities = scores[rows].exp_().numpy()
    blocks = probabilities[:, 1:].reshape(len(scores), 4, labels)  # B, I, L, U
    tags = _Tags(probabilities[:, 0], blocks[:, [3, 0]], blocks[:, [2, 1]])
    enter, logs, ends = _forward(tags, active, len(lengths), steps)
    scales = _unsort(logs, rows)
    before, of_document = _sums_before(scales, lengths)
    enter_scores = _unsort(enter, rows).log_() + before[:, None]
    total = torch.zeros(len(lengths), dtype=torch.float64).index_copy_(0, order, torch.from_numpy(ends)).log_() + of_document
    after, logs = _backward(tags, active, len(lengths), steps)
    scales = _unsort(logs, rows)
    before, of_document = _sums_before(scales, lengths)
    behind = torch.repeat_interleave(of_document, lengths.cpu()) - before - scales
    return SpanScores(enter_scores, _unsort(after, rows).log_() + behind[:, None], scores, inside, total)


def _forward(tags: _Tags, active: list[int], documents: int, steps: Floats) -> tuple[Floats, Floats, Floats]:
    """RETURNS (tuple): `enter`, scaled; logs of the scales, (tokens,); and the sum at the end of each document, longest first."""
    n_free = len(steps)
    # After O, then where each label ends, then where it goes on.
    states = numpy.zeros((documents, 2 * n_free - 1))
    states[:, 0] = 1.0
    enter, totals = numpy.empty((len(tags.outside), n_free)), numpy.empty(len(tags.outside))
    end = 0
    for n in active:
        start, end = end, end + n
        outside, unit_begin, last_inside = tags.at(start, end)
        now = states[:n]
        came = numpy.matmul(now[:, :n_free], steps, out=enter[start:end])
        entities = came[:, None, 1:] * unit_begin
        entities += now[:, None, n_free:] * last_inside
        numpy.multiply(came[:, 0], outside, out=now[:, 0])
        now[:, 1:] = entities.reshape(n, -1)
        now /= now.sum(1, out=totals[start:end])[:, None]
    return enter, numpy.log(totals), states[:, :n_free].sum(1)


def _backward(tags: _Tags, active: list[int], documents: int, steps: Floats) -> tuple[Floats, Floats]:
    """RETURNS (tuple): `after`, scaled, and logs of the scales, (tokens,)."""
    n_free = len(steps)
    states = numpy.zeros((documents, 2 * n_free - 1))
    states[:, :n_free] = 1.0
    starts = numpy.empty((documents, n_free))
    after, totals = numpy.empty((len(tags.outside), n_free)), numpy.empty(len(tags.outside))
    # What ends here ended with L or U, what goes on did so with I or B; the other way round than forwards.
    from_end = numpy.stack([tags.unit_begin[:, 0], tags.last_inside[:, 0]], axis=1)
    from_open = numpy.stack([tags.unit_begin[:, 1], tags.last_inside[:, 1]], axis=1)
    start = len(tags.outside)
    for n in reversed(active):
        start, end = start - n, start
        now = states[:n]
        after[start:end] = now[:, :n_free]
        entities = now[:, None, 1:n_free] * from_end[start:end]
        entities += now[:, None, n_free:] * from_open[start:end]
        numpy.multiply(now[:, 0], tags.outside[start:end], out=starts[:n, 0])
        starts[:n, 1:] = entities[:, 0]
        now[:, :n_free] = starts[:n] @ steps.T
        now[:, n_free:] = entities[:, 1]
        now /= now.sum(1, out=totals[start:end])[:, None]
    return after, numpy.log(totals)


def _unsort(values: Floats, rows: Tensor) -> Tensor:
    packed = torch.empty(values.shape, dtype=torch.float64)
    packed[rows] = torch.from_numpy(values)
    return packed


def _sums_before(values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """values (Tensor): (tokens,). RETURNS (tuple): for each the sum of those before it in its document, and of each document."""
    lengths = lengths.cpu()
    sums = torch.cat([values.new_zeros(1), values.cumsum(0)])
    ends = lengths.cumsum(0)
    starts = ends - lengths
    return sums[:-1] - torch.repeat_interleave(sums[starts], lengths), sums[ends] - sums[starts]


def span_log_probability(scores: SpanScores, document: Tensor, start: Tensor, end: Tensor, label: Tensor) -> Tensor:
    """Log-probability that the chain holds exactly this labelled span, over all tag sequences of its document.

    scores (SpanScores): of the batch.
    document (Tensor): (spans,) int64, document of each span.
    start, end (Tensor): (spans,) int64, rows of the packed array; end is exclusive.
    label (Tensor): (spans,) int64.
    RETURNS (Tensor): (spans,) float64, at most 0.
    """
    labels, last = scores.inside.shape[1], end - 1
    comes, goes = scores.enter[start, 1 + label], scores.after[last, 1 + label]
    unit = scores.emissions[start, 1 + 3 * labels + label]
    long = (
        scores.emissions[start, 1 + label]
        + scores.inside[last, label]
        - scores.inside[(start + 1).clamp(max=len(scores.emissions)), label]
        + scores.emissions[last, 1 + 2 * labels + label]
    )
    return (comes + torch.where(start == last, unit, long) + goes - scores.total[document]).clamp(max=0.0)
