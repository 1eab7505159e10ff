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
    """The best way into each state; rows in the order of `time_major`.

    A state is 0 after O, 1 + x where an entity of label x ends, and 1 + labels + x where one goes on behind the token.
    """

    previous: NDArray[numpy.int64]  # (tokens, 2 * labels + 1) state before the token
    tags: NDArray[numpy.int64]  # (tokens, 2 * labels + 1) tag of the token


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
    last, choices = _best_scores(scores, active, len(lengths), transitions.detach().cpu().double().numpy())
    states = _walk_back(last, choices.previous, active)
    tags = numpy.empty(len(scores), dtype=numpy.int64)
    tags[rows.numpy()] = choices.tags[numpy.arange(len(states)), states]
    return torch.from_numpy(tags)


def _best_scores(scores: Floats, active: list[int], documents: int, transitions: Floats) -> tuple[NDArray[numpy.int64], _Choices]:
    """RETURNS (tuple): the best state at the end of each document, longest first, and how each state was come to."""
    n_free = len(transitions)
    labels = n_free - 1
    into = numpy.ascontiguousarray(transitions.T)
    outside, short, long = scores[:, 0], *_pairs(scores[:, 1:].reshape(len(scores), 4, labels))
    free, inside = numpy.full((documents, n_free), NEVER), numpy.full((documents, labels), NEVER)
    free[:, 0] = 0.0
    came_from = numpy.empty((len(scores), n_free), dtype=numpy.int64)
    is_long = numpy.empty((len(scores), 2, labels), dtype=numpy.bool_)
    cells = numpy.arange(documents * n_free)
    end = 0
    for n in active:
        start, end = end, end + n
        ways = free[:n, None, :] + into  # (documents, state entered, state before)
        ways.argmax(2, out=came_from[start:end])
        enter = ways.reshape(-1, n_free)[cells[: n * n_free], came_from[start:end].reshape(-1)].reshape(n, n_free)
        goes_on, starts = inside[:n, None] + long[start:end], enter[:, None, 1:] + short[start:end]
        numpy.greater(goes_on, starts, out=is_long[start:end])
        numpy.maximum(goes_on, starts, out=goes_on)
        numpy.add(enter[:, 0], outside[start:end], out=free[:n, 0])
        free[:n, 1:] = goes_on[:, 0]
        inside[:n] = goes_on[:, 1]
    return free.argmax(1), _choices(came_from, is_long)


def _pairs(blocks: Floats) -> tuple[Floats, Floats]:
    """Scores of (U, B) and of (L, I), (tokens, 2, labels): an entity that ends, or goes on, and starts here, or started earlier."""
    return blocks[:, [3, 0]], blocks[:, [2, 1]]


def _choices(came_from: NDArray[numpy.int64], is_long: NDArray[numpy.bool_]) -> _Choices:
    tokens, labels = len(is_long), is_long.shape[2]
    number = numpy.arange(labels)
    previous = numpy.where(is_long, 1 + labels + number, came_from[:, None, 1:])
    # Columns of the blocks of tags after O: B, I, L, U.
    begin, inside, last, unit = (1 + block * labels + number for block in range(4))
    tags = numpy.where(is_long, numpy.stack([last, inside]), numpy.stack([unit, begin]))
    return _Choices(
        numpy.concatenate([came_from[:, :1], previous.reshape(tokens, -1)], axis=1),
        numpy.concatenate([numpy.zeros_like(came_from[:, :1]), tags.reshape(tokens, -1)], axis=1),
    )


def _walk_back(state: NDArray[numpy.int64], previous: NDArray[numpy.int64], active: list[int]) -> NDArray[numpy.int64]:
    """state (NDArray): at the end of each document. RETURNS (NDArray): (tokens,) the state after each token."""
    documents = numpy.arange(len(state))
    states = numpy.empty(len(previous), dtype=numpy.int64)
    start = len(previous)
    for n in reversed(active):
        start, end = start - n, start
        states[start:end] = state[:n]
        state[:n] = previous[start:end][documents[:n], state[:n]]
    return states
