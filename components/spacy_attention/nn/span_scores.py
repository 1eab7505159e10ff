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
    """Probabilities of the tags: (tokens,) for O, (tokens, labels) for the others; rows in the order of `time_major`."""

    outside: Floats
    begin: Floats
    inside: Floats
    last: Floats
    unit: Floats

    def at(self, start: int, end: int) -> tuple[Floats, ...]:
        return tuple(part[start:end] for part in self)


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
    outside, *parts = scores[rows].exp_().split([1, *[labels] * 4], dim=1)
    tags = _Tags(outside[:, 0].numpy(), *(part.contiguous().numpy() for part in parts))
    enter, totals = _forward(tags, active, len(lengths), steps)
    after = _backward(tags, active, len(lengths), steps)
    total = torch.zeros(len(lengths), dtype=torch.float64).index_copy_(0, order, torch.from_numpy(totals))
    return SpanScores(_unsort(enter, rows), _unsort(after, rows), scores, inside, total)


def _forward(tags: _Tags, active: list[int], documents: int, steps: Floats) -> tuple[Floats, Floats]:
    """RETURNS (tuple): logs of `enter`, and of the partition of each document, longest first."""
    free, inside = numpy.zeros((documents, len(steps))), numpy.zeros((documents, len(steps) - 1))
    free[:, 0] = 1.0
    scale = numpy.zeros(documents)
    enter, scales = numpy.empty((len(tags.outside), len(steps))), numpy.empty(len(tags.outside))
    end = 0
    for n in active:
        start, end = end, end + n
        outside, begin, goes_on, last, unit = tags.at(start, end)
        came = numpy.matmul(free[:n], steps, out=enter[start:end])
        scales[start:end] = scale[:n]
        starts, stays = came[:, 1:], inside[:n]
        free[:n, 0] = came[:, 0] * outside
        free[:n, 1:] = stays * last + starts * unit
        inside[:n] = stays * goes_on + starts * begin
        _rescale(free[:n], inside[:n], scale[:n])
    return numpy.log(enter) + scales[:, None], numpy.log(free.sum(1)) + scale


def _backward(tags: _Tags, active: list[int], documents: int, steps: Floats) -> Floats:
    """RETURNS (Floats): logs of `after`."""
    after, inside = numpy.ones((documents, len(steps))), numpy.zeros((documents, len(steps) - 1))
    scale = numpy.zeros(documents)
    goes, scales = numpy.empty((len(tags.outside), len(steps))), numpy.empty(len(tags.outside))
    start = len(tags.outside)
    for n in reversed(active):
        start, end = start - n, start
        outside, begin, goes_on, last, unit = tags.at(start, end)
        goes[start:end], scales[start:end] = after[:n], scale[:n]
        ends, stays = after[:n, 1:], inside[:n]
        starts = numpy.concatenate([after[:n, :1] * outside[:, None], ends * unit + stays * begin], axis=1)
        inside[:n] = ends * last + stays * goes_on
        numpy.matmul(starts, steps.T, out=after[:n])
        _rescale(after[:n], inside[:n], scale[:n])
    return numpy.log(goes) + scales[:, None]


def _rescale(free: Floats, inside: Floats, scale: Floats) -> None:
    total = free.sum(1) + inside.sum(1)
    free /= total[:, None]
    inside /= total[:, None]
    scale += numpy.log(total)


def _unsort(values: Floats, rows: Tensor) -> Tensor:
    packed = torch.empty(values.shape, dtype=torch.float64)
    packed[rows] = torch.from_numpy(values)
    return packed


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
