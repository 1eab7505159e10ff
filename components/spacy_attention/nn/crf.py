"""Linear-chain conditional random field over BILUO tags (Lafferty et al. 2001), with hard structure.

Of the (4K + 1)^2 transitions between the tags of K labels most are forbidden, and those inside an entity are forced up to its
length. What is left to learn is which thing follows which: O or an entity of some label, after O or an entity of some label. So
the chain keeps two sets of scores per token and never builds the full matrix:

    free (K + 1): no entity is open after this token; column 0 after O, column x after an entity of label x
    inside (K):   an entity of label x is open after this token

A document starts as if after O, and must end free. Emissions are normalised per token first; that changes no probability of a
tag sequence, and keeps every score near zero.
"""

from typing import Any

import numpy
import torch
from torch import Tensor

from .chain import FLOOR, TINY, Floats, Tags, matmul, split_tags, walk_back, walk_forward
from .time_major import time_major

# Stands for log(0): far below any score, and still finite, so that gradients stay numbers.
NEVER = -1e9


def log_partition(emissions: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
    """Log of the sum over all valid tag sequences of the exponential of their score.

    emissions (Tensor): (tokens, tags); only differences within a row count. A column of `NEVER` rules a tag out.
    lengths (Tensor): (documents,) int64, may hold zeros.
    transitions (Tensor): (labels + 1, labels + 1); [i, j] is the score of j (0: O, x: an entity of label x) after i.
    RETURNS (Tensor): (documents,), with each token's emissions normalised to sum to 1; 0 for an empty document; near `NEVER` times
        its length for one in which no valid sequence is left.
    """
    if not len(emissions):
        return emissions.new_zeros(len(lengths)) + 0.0 * transitions.sum()
    return _LogPartition.apply(emissions.log_softmax(-1), lengths, transitions)


class _LogPartition(torch.autograd.Function):
    """Its gradient is known: of an emission the probability of the tag, of a transition how often it is expected.

    On the host, whatever the device of the scores: a long document is many tiny steps. See `chain.py`.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
        """scores (Tensor): (tokens, tags), normalised. RETURNS (Tensor): (documents,)."""
        rows, active, order = time_major(lengths.cpu())
        logs = scores.detach().cpu().double()[rows]
        steps = transitions.detach().cpu().double().clamp(min=FLOOR, max=-FLOOR).exp().numpy()
        tags = split_tags(logs.clamp(min=FLOOR).exp().masked_fill_(logs < NEVER / 2, 0.0).numpy())
        before, sums, ends = walk_forward(tags, active, len(lengths), steps)
        behind, _ = walk_back(tags, active, len(lengths), steps)
        ctx.marginals, ctx.entered = _marginals(tags, before, behind, steps)
        ctx.before, ctx.steps, ctx.rows, ctx.lengths = before[:, : len(steps)], steps, rows, lengths.cpu()
        document = torch.repeat_interleave(torch.arange(len(lengths)), ctx.lengths)[rows]
        totals = torch.zeros(len(lengths), dtype=torch.float64).index_copy_(0, order, _log(ends))
        return totals.index_add_(0, document, _log(sums)).to(scores)

    @staticmethod
    def backward(ctx: Any, d_totals: Tensor) -> tuple[Tensor, None, Tensor]:
        """d_totals (Tensor): (documents,). RETURNS (tuple): gradients of scores and transitions."""
        weights = torch.repeat_interleave(d_totals.cpu().double(), ctx.lengths)[ctx.rows, None]
        d_scores = torch.empty(ctx.marginals.shape, dtype=torch.float64)
        d_scores[ctx.rows] = weights * torch.from_numpy(ctx.marginals)
        d_transitions = matmul(ctx.before.T, weights.numpy() * ctx.entered) * ctx.steps
        return d_scores.to(d_totals), None, torch.from_numpy(d_transitions).to(d_totals)


def _log(sums: Floats) -> Tensor:
    """Logarithms, `NEVER` of zero."""
    return torch.from_numpy(numpy.where(sums > 0, numpy.log(numpy.maximum(sums, TINY)), NEVER))


def _marginals(tags: Tags, before: Floats, behind: Floats, steps: Floats) -> tuple[Floats, Floats]:
    """What the two walks say of each token.

    RETURNS (tuple): the probability of each tag, (tokens, tags); and what the probabilities of the steps to O and to an entity of
        each label are made of, (tokens, labels + 1): times the share of the state before the token, times the step.
    """
    n_free = len(steps)
    ends, goes_on = behind[:, 1:n_free], behind[:, n_free:]
    came, inside = matmul(before[:, :n_free], steps), before[:, n_free:]
    outside = tags.outside * behind[:, 0]
    unit, begin = tags.unit_begin[:, 0] * ends, tags.unit_begin[:, 1] * goes_on
    last, middle = tags.last_inside[:, 0] * ends, tags.last_inside[:, 1] * goes_on
    entered = numpy.concatenate([outside[:, None], unit + begin], axis=1)
    weights = [came[:, :1] * outside[:, None], came[:, 1:] * begin, inside * middle, inside * last, came[:, 1:] * unit]
    marginals = numpy.concatenate(weights, axis=1)
    total = numpy.maximum(marginals.sum(1, keepdims=True), TINY)
    return marginals / total, entered / total


def negative_log_likelihood(emissions: Tensor, lengths: Tensor, transitions: Tensor, allowed: Tensor) -> Tensor:
    """-log P(annotation), summed over the documents; tokens without annotation are marginalised.

    The likelihood of a partial annotation is the sum over all its completions (Tsuboi et al. 2008): the partition function over
    the allowed tags against that over all tags. A document without any annotation adds nothing, to the last bit.

    emissions (Tensor): (tokens, tags). lengths (Tensor): (documents,) int64. transitions (Tensor): (labels + 1, labels + 1).
    allowed (Tensor): (tokens, tags) bool, True = the annotation leaves this tag possible.
    RETURNS (Tensor): scalar. A document whose annotation no valid sequence fits gives a loss near 1e9.
    """
    document = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    annotated_tokens = (~allowed).any(1).to(lengths)
    annotated = torch.zeros_like(lengths).index_add(0, document, annotated_tokens) > 0
    rows, lengths = annotated[document], lengths[annotated]
    normalised, allowed = emissions[rows].log_softmax(-1), allowed[rows]
    both = torch.cat([normalised, normalised.masked_fill(~allowed, NEVER)])
    # The clamped emissions must not be normalised again, so their constant is added back below.
    constant = both[len(normalised) :].logsumexp(-1)
    totals = log_partition(both, torch.cat([lengths, lengths]), transitions)
    everything, possible = totals[: len(lengths)], totals[len(lengths) :]
    return everything.sum() - possible.sum() - constant.sum()
