"""Linear-chain conditional random field over BILUO tags (Lafferty et al. 2001), with hard structure.

Of the (4K + 1)^2 transitions between the tags of K labels most are forbidden, and those inside an entity are forced up to its
length. What is left to learn is which thing follows which: O or an entity of some label, after O or an entity of some label. So
the chain keeps two sets of scores per token and never builds the full matrix:

    free (K + 1): no entity is open after this token; column 0 after O, column x after an entity of label x
    inside (K):   an entity of label x is open after this token

A document starts as if after O, and must end free. Emissions are normalised per token first; that changes no probability of a
tag sequence, and keeps every score near zero, so that long documents lose no precision.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .time_major import time_major

# Stands for log(0): far below any score, and still finite, so that gradients stay numbers.
NEVER = -1e9


class Steps(NamedTuple):
    """Scores of the tags, one tensor per time: (documents at that time,) for O, (documents at that time, labels) for the others."""

    outside: tuple[Tensor, ...]
    begin: tuple[Tensor, ...]
    inside: tuple[Tensor, ...]
    last: tuple[Tensor, ...]
    unit: tuple[Tensor, ...]


def split_steps(scores: Tensor, active: list[int]) -> Steps:
    """Take scores apart once: the gradient of an index into all of time would be as long as time, at each step again.

    scores (Tensor): (tokens, tags), in the order of `time_major`.
    active (list[int]): documents at each time.
    RETURNS (Steps): views.
    """
    labels = (scores.shape[1] - 1) // 4
    begin, inside, last, unit = scores[:, 1:].split(labels, dim=1)
    return Steps(*(part.split(active) for part in (scores[:, 0], begin, inside, last, unit)))


def log_matmul(scores: Tensor, transitions: Tensor) -> Tensor:
    """log(exp(scores) @ exp(transitions)) without overflow.

    scores (Tensor): (documents, n). transitions (Tensor): (n, m), moderate values. RETURNS (Tensor): (documents, m).
    """
    top = scores.detach().amax(-1, keepdim=True)
    return ((scores - top).exp() @ transitions.exp()).log() + top


def log_partition(emissions: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
    """Log of the sum over all valid tag sequences of the exponential of their score.

    emissions (Tensor): (tokens, tags); only differences within a row count. A column of `NEVER` rules a tag out.
    lengths (Tensor): (documents,) int64, may hold zeros.
    transitions (Tensor): (labels + 1, labels + 1); [i, j] is the score of j (0: O, x: an entity of label x) after i.
    RETURNS (Tensor): (documents,), with each token's emissions normalised to sum to 1; 0 for an empty document.
    """
    if not len(emissions):
        return emissions.new_zeros(len(lengths)) + 0.0 * transitions.sum()
    rows, active, order = time_major(lengths.to(emissions.device))
    steps = split_steps(emissions.log_softmax(-1)[rows], active)
    free = emissions.new_full((len(lengths), len(transitions)), NEVER)
    free[:, 0] = 0.0
    inside = torch.full_like(free[:, 1:], NEVER)
    ended = []
    for n, outside, begin, goes_on, last, unit in zip(active, *steps, strict=True):
        ended.append(free[n:])
        enter, inside = log_matmul(free[:n], transitions), inside[:n]
        closed = torch.logaddexp(inside + last, enter[:, 1:] + unit)
        inside = torch.logaddexp(inside + goes_on, enter[:, 1:] + begin)
        free = torch.cat([(enter[:, 0] + outside)[:, None], closed], dim=1)
    ended.append(free)
    totals = torch.cat(ended[::-1]).logsumexp(-1)
    return torch.zeros_like(totals).index_copy(0, order, totals)


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
