"""The most probable tag sequence of a chain (Viterbi 1967), over the states that `crf` describes, for a whole batch at once.

In NumPy: the arrays of a step are so small that what counts is the cost of a call.
"""

from typing import NamedTuple

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from .crf import NEVER
from .time_major import time_major

Floats = NDArray[numpy.float64]


class _Choices(NamedTuple):
    """Which way into each state was the best; rows in the order of `time_major`."""

    came_from: NDArray[numpy.int16]  # (tokens, labels + 1): free state before entering O or label x here
    closed_long: NDArray[numpy.bool_]  # (tokens, labels): the entity that ends here started earlier
    stayed: NDArray[numpy.bool_]  # (tokens, labels): the entity that stays open here started earlier


def viterbi(emissions: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
    """The most probable valid tag sequence of each document.

    emissions (Tensor): (tokens, tags). lengths (Tensor): (documents,) int64. transitions (Tensor): (labels + 1, labels + 1).
    RETURNS (Tensor): (tokens,) int64, column of each token's tag.
    """
    if not len(emissions):
        return torch.zeros(0, dtype=torch.int64)
    rows, active, _ = time_major(lengths.cpu())
    # Normalised, so that sums over a long document stay near zero.
    scores = emissions.detach().cpu().double().log_softmax(-1)[rows].numpy()
    free, choices = _best_scores(scores, active, len(lengths), transitions.detach().cpu().double().numpy())
    tags = numpy.empty(len(scores), dtype=numpy.int64)
    tags[rows.numpy()] = _walk_back(free.argmax(1), choices, active)
    return torch.from_numpy(tags)


def _best_scores(scores: Floats, active: list[int], documents: int, transitions: Floats) -> tuple[Floats, _Choices]:
    labels = len(transitions) - 1
    into = numpy.ascontiguousarray(transitions.T)
    free, inside = numpy.full((documents, labels + 1), NEVER), numpy.full((documents, labels), NEVER)
    free[:, 0] = 0.0
    choices = _Choices(
        numpy.empty((len(scores), labels + 1), dtype=numpy.int16),
        numpy.empty((len(scores), labels), dtype=numpy.bool_),
        numpy.empty((len(scores), labels), dtype=numpy.bool_),
    )
    end = 0
    for n in active:
        start, end = end, end + n
        outside, begin, goes_on, last, unit = _columns(scores[start:end], labels)
        ways = free[:n, None, :] + into  # (documents, state entered, state before)
        came_from = ways.argmax(2)
        enter = numpy.take_along_axis(ways, came_from[:, :, None], 2)[:, :, 0]
        choices.came_from[start:end] = came_from
        long, short = inside[:n] + last, enter[:, 1:] + unit
        stay, open_ = inside[:n] + goes_on, enter[:, 1:] + begin
        numpy.greater(long, short, out=choices.closed_long[start:end])
        numpy.greater(stay, open_, out=choices.stayed[start:end])
        numpy.maximum(stay, open_, out=inside[:n])
        free[:n, 0] = enter[:, 0] + outside
        numpy.maximum(long, short, out=free[:n, 1:])
    return free, choices


def _columns(scores: Floats, labels: int) -> tuple[Floats, ...]:
    blocks = (scores[:, 1 + i * labels : 1 + (i + 1) * labels] for i in range(4))
    return scores[:, 0], *blocks


def _walk_back(state: NDArray[numpy.int64], choices: _Choices, active: list[int]) -> NDArray[numpy.int64]:
    """From the best state after the last token (0 for O, else 1 + label) back to the tag of each token."""
    labels = choices.stayed.shape[1]
    if not labels:
        return numpy.zeros(len(choices.stayed), dtype=numpy.int64)
    inside = numpy.zeros(len(state), dtype=numpy.bool_)
    documents = numpy.arange(len(state))
    tags = numpy.empty(len(choices.stayed), dtype=numpy.int64)
    start = len(tags)
    for n in reversed(active):
        start, end = start - n, start
        now, is_open, document = state[:n], inside[:n], documents[:n]
        label = numpy.maximum(now - 1, 0)
        outside = (now == 0) & ~is_open
        long = numpy.where(is_open, choices.stayed[start:end][document, label], choices.closed_long[start:end][document, label])
        goes_on = long & ~outside
        # Blocks of columns after O: B, I, L, U.
        block = numpy.where(is_open, numpy.where(goes_on, 1, 0), numpy.where(goes_on, 2, 3))
        tags[start:end] = numpy.where(outside, 0, 1 + block * labels + label)
        state[:n] = numpy.where(goes_on, now, choices.came_from[start:end][document, now])
        inside[:n] = goes_on
    return tags
