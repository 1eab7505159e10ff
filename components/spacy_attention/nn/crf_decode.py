"""What a trained chain says about a document: the best tag sequence, and the probability of any labelled span."""

from typing import NamedTuple

import torch
from torch import Tensor

from .crf import NEVER, Chains, lay_out, log_matmul, start_scores


class SpanScores(NamedTuple):
    """Forward and backward scores from which the probability of any span follows without another pass.

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


@torch.no_grad()
def viterbi(emissions: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
    """The most probable valid tag sequence of each document.

    emissions (Tensor): (tokens, tags). lengths (Tensor): (documents,) int64. transitions (Tensor): (labels + 1, labels + 1).
    RETURNS (Tensor): (tokens,) int64, column of each token's tag.
    """
    tags = torch.zeros(len(emissions), dtype=torch.int64)
    if not len(emissions):
        return tags
    chains = lay_out(emissions.double().cpu(), lengths.cpu())
    free, steps = _best_scores(chains, transitions.double().cpu())
    state = free.argmax(-1)
    inside = torch.zeros_like(state, dtype=torch.bool)
    labels = chains.begin.shape[-1]
    for t in range(len(chains.active) - 1, -1, -1):
        n = chains.active[t]
        tag, state[:n], inside[:n] = _step_back(state[:n], inside[:n], steps[t], labels)
        tags[chains.rows[t, :n]] = tag
    return tags


class _Step(NamedTuple):
    came_from: Tensor  # (documents, labels + 1): free state before entering O or label x here
    closed_long: Tensor  # (documents, labels): the entity that ends here started earlier
    stayed: Tensor  # (documents, labels): the entity that stays open here started earlier


def _best_scores(chains: Chains, transitions: Tensor) -> tuple[Tensor, list[_Step]]:
    free, inside = start_scores(chains)
    ended, steps = [], []
    for t, n in enumerate(chains.active):
        ended.append(free[n:])
        enter, came_from = (free[:n, :, None] + transitions).max(1)
        inside = inside[:n]
        long, unit = inside + chains.last[t, :n], enter[:, 1:] + chains.unit[t, :n]
        stay, begin = inside + chains.inside[t, :n], enter[:, 1:] + chains.begin[t, :n]
        steps.append(_Step(came_from, long > unit, stay > begin))
        inside = torch.maximum(stay, begin)
        free = torch.cat([(enter[:, 0] + chains.outside[t, :n])[:, None], torch.maximum(long, unit)], dim=1)
    ended.append(free)
    return torch.cat(ended[::-1]), steps


def _step_back(state: Tensor, inside: Tensor, step: _Step, labels: int) -> tuple[Tensor, Tensor, Tensor]:
    """From the state after a token to its tag and the state before it. `state` is 0 for O, else 1 + label."""
    label = (state - 1).clamp(min=0)[:, None]
    outside = (state == 0) & ~inside
    goes_on = torch.where(inside, _pick(step.stayed, label), _pick(step.closed_long, label)) & ~outside
    # Columns: O, then B, I, L, U in blocks of `labels`.
    block = torch.where(inside, torch.where(goes_on, 1, 0), torch.where(goes_on, 2, 3))
    tag = torch.where(outside, 0, 1 + block * labels + label[:, 0])
    before = torch.where(goes_on, state, step.came_from.gather(1, state[:, None])[:, 0])
    return tag, before, goes_on


def _pick(table: Tensor, column: Tensor) -> Tensor:
    if not table.shape[1]:
        return torch.zeros(len(table), dtype=torch.bool)
    return table.gather(1, column)[:, 0]


@torch.no_grad()
def score_spans(emissions: Tensor, lengths: Tensor, transitions: Tensor) -> SpanScores:
    """Run the forward and the backward pass over a batch, in float64.

    emissions (Tensor): (tokens, tags). lengths (Tensor): (documents,) int64. transitions (Tensor): (labels + 1, labels + 1).
    RETURNS (SpanScores): what `span_log_probability` needs.
    """
    emissions, lengths, transitions = emissions.double().cpu(), lengths.cpu(), transitions.double().cpu()
    normalised = emissions.log_softmax(-1)
    labels = (emissions.shape[1] - 1) // 4
    enter = emissions.new_zeros(len(emissions), labels + 1)
    after = torch.zeros_like(enter)
    total = emissions.new_zeros(len(lengths))
    if len(emissions):
        chains = lay_out(emissions, lengths)
        total[chains.order] = _forward(chains, transitions, enter)
        _backward(chains, transitions, after)
    sums = normalised[:, 1 + labels : 1 + 2 * labels].cumsum(0)
    inside = torch.cat([sums.new_zeros(1, labels), sums])
    return SpanScores(enter, after, normalised, inside, total)


def _forward(chains: Chains, transitions: Tensor, enter_out: Tensor) -> Tensor:
    free, inside = start_scores(chains)
    ended = []
    for t, n in enumerate(chains.active):
        ended.append(free[n:])
        enter, inside = log_matmul(free[:n], transitions), inside[:n]
        enter_out[chains.rows[t, :n]] = enter
        closed = torch.logaddexp(inside + chains.last[t, :n], enter[:, 1:] + chains.unit[t, :n])
        inside = torch.logaddexp(inside + chains.inside[t, :n], enter[:, 1:] + chains.begin[t, :n])
        free = torch.cat([(enter[:, 0] + chains.outside[t, :n])[:, None], closed], dim=1)
    ended.append(free)
    return torch.cat(ended[::-1]).logsumexp(-1)


def _backward(chains: Chains, transitions: Tensor, after_out: Tensor) -> None:
    documents, labels = chains.begin.shape[1:]
    after = transitions.new_zeros(documents, labels + 1)
    inside = transitions.new_full((documents, labels), NEVER)
    for t in range(len(chains.active) - 1, -1, -1):
        n = chains.active[t]
        after_out[chains.rows[t, :n]] = after[:n]
        close = after[:n, 1:]
        goes_unit = torch.logaddexp(close + chains.unit[t, :n], inside[:n] + chains.begin[t, :n])
        goes_out = after[:n, :1] + chains.outside[t, :n, None]
        inside[:n] = torch.logaddexp(close + chains.last[t, :n], inside[:n] + chains.inside[t, :n])
        after[:n] = log_matmul(torch.cat([goes_out, goes_unit], dim=1), transitions.T)


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
