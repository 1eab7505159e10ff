"""The exact probability that a chain gives to any labelled span, from one walk along it and one back."""

from typing import NamedTuple

import numpy
import torch
from torch import Tensor

from .chain import FLOOR, Floats, matmul, split_tags, walk_back, walk_forward
from .time_major import time_major


class SpanScores(NamedTuple):
    """Forward and backward scores from which the probability of any span follows without another pass; rows as in the packed array.

    enter (Tensor): (tokens, labels + 1) float64: log-sum of all ways to come to a token and start O or label x there.
    after (Tensor): (tokens, labels + 1) float64: log-sum of all ways to finish, given O or the end of label x at a token.
    opened (Tensor): (tokens, labels) float64: log-sum of all ways to finish, given that an entity of label x is open after a token.
    emissions (Tensor): (tokens, tags) float64, normalised.
    inside (Tensor): (tokens + 1, labels) float64, sums of the I emissions before each token.
    total (Tensor): (documents,) float64, log partition.
    """

    enter: Tensor
    after: Tensor
    opened: Tensor
    emissions: Tensor
    inside: Tensor
    total: Tensor


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
        return SpanScores(nothing, nothing, nothing[:, 1:], scores, inside, scores.new_zeros(len(lengths)))
    rows, active, order = time_major(lengths.cpu())
    steps = moves.clamp(min=FLOOR, max=-FLOOR).exp().numpy()
    tags = split_tags(scores[rows].exp_().numpy())
    states, divided_by, ends = walk_forward(tags, active, len(lengths), steps)
    before, of_document = _sums_before(_unsort(numpy.log(divided_by), rows), lengths)
    enter_scores = _unsort(matmul(states[:, : labels + 1], steps), rows).log_() + before[:, None]
    total = torch.zeros(len(lengths), dtype=torch.float64).index_copy_(0, order, torch.from_numpy(ends)).log_() + of_document
    states, divided_by = walk_back(tags, active, len(lengths), steps)
    scales = _unsort(numpy.log(divided_by), rows)
    before, of_document = _sums_before(scales, lengths)
    behind = torch.repeat_interleave(of_document, lengths.cpu()) - before - scales
    finish_scores = _unsort(states, rows).log_() + behind[:, None]
    return SpanScores(enter_scores, finish_scores[:, : labels + 1], finish_scores[:, labels + 1 :], scores, inside, total)


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
    own = span_emissions(scores, start, end, label)
    return (scores.enter[start, 1 + label] + own + scores.after[end - 1, 1 + label] - scores.total[document]).clamp(max=0.0)


def span_emissions(scores: SpanScores, start: Tensor, end: Tensor, label: Tensor) -> Tensor:
    """What the tags of a labelled span score by themselves.

    scores (SpanScores), start, end, label (Tensor): as in `span_log_probability`.
    RETURNS (Tensor): (spans,) float64, sums of emissions.
    """
    labels, last = scores.inside.shape[1], end - 1
    unit = scores.emissions[start, 1 + 3 * labels + label]
    long = (
        scores.emissions[start, 1 + label]
        + scores.inside[last, label]
        - scores.inside[(start + 1).clamp(max=len(scores.emissions)), label]
        + scores.emissions[last, 1 + 2 * labels + label]
    )
    return torch.where(start == last, unit, long)
