"""One walk along a chain of BILUO tags and one back (Rabiner 1989, section III): what all sums over tag sequences are made of.

In NumPy and in probabilities, scaled to sum to 1 at each step (his section V.A): the arrays of a step are so small that what counts
is the cost of a call, and a step without exponentials and logarithms is a few times cheaper. For the states see `crf.py`; here they
stand in one row: after O, after an entity of each label, inside an entity of each label.
"""

from typing import NamedTuple

import numpy
import torch
from numpy.typing import NDArray

Floats = NDArray[numpy.float64]

# Log-probabilities of tags below this are raised to it, and transitions are kept within it of zero. Then no step can underflow to
# zero as a whole, and what is raised stays far below anything that a probability shows.
FLOOR = -200.0
# Stands for the sum of a step that nothing can pass, by which the step is divided.
TINY = 1e-300


class Tags(NamedTuple):
    """Probabilities of the tags, in pairs: (tokens,) and (tokens, 2, labels); rows in the order of `time_major`."""

    outside: Floats
    unit_begin: Floats
    last_inside: Floats


def split_tags(probabilities: Floats) -> Tags:
    """probabilities (Floats): (tokens, tags), in the order of `time_major`. RETURNS (Tags): the same in pairs."""
    blocks = probabilities[:, 1:].reshape(len(probabilities), 4, -1)  # B, I, L, U
    return Tags(probabilities[:, 0], blocks[:, [3, 0]], blocks[:, [2, 1]])


def matmul(a: Floats, b: Floats) -> Floats:
    """By torch: the threads of NumPy's own product and those of torch take the cores away from each other, for milliseconds.

    a (Floats): (n, m). b (Floats): (m, k). RETURNS (Floats): (n, k).
    """
    return (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()


def walk_forward(tags: Tags, active: list[int], documents: int, steps: Floats) -> tuple[Floats, Floats, Floats]:
    """From the first token of each document to its last.

    tags (Tags): of the batch.
    active (list[int]): see `time_major`.
    documents (int): of the batch.
    steps (Floats): (labels + 1, labels + 1), exponentials of the transitions.
    RETURNS (tuple): share of each state before each token, (tokens, states); the sums by which the steps were divided, (tokens,);
        and the share of the states in which a document may end, (documents,), longest document first.
    """
    n_free = len(steps)
    states = numpy.zeros((documents, 2 * n_free - 1))
    states[:, 0] = 1.0
    before, sums = numpy.empty((len(tags.outside), states.shape[1])), numpy.empty(len(tags.outside))
    end = 0
    for n in active:
        start, end = end, end + n
        now = states[:n]
        before[start:end] = now
        came = now[:, :n_free] @ steps
        entities = came[:, None, 1:] * tags.unit_begin[start:end]
        entities += now[:, None, n_free:] * tags.last_inside[start:end]
        numpy.multiply(came[:, 0], tags.outside[start:end], out=now[:, 0])
        now[:, 1:] = entities.reshape(n, -1)
        now /= numpy.maximum(now.sum(1, out=sums[start:end]), TINY)[:, None]
    return before, sums, states[:, :n_free].sum(1)


def walk_back(tags: Tags, active: list[int], documents: int, steps: Floats) -> tuple[Floats, Floats]:
    """From the last token of each document to its first.

    tags (Tags), active (list[int]), documents (int), steps (Floats): as in `walk_forward`.
    RETURNS (tuple): weight of all ways to finish, given each state behind each token, (tokens, states); and the sums by which the
        steps were divided, (tokens,).
    """
    n_free = len(steps)
    states = numpy.zeros((documents, 2 * n_free - 1))
    states[:, :n_free] = 1.0
    starts = numpy.empty((documents, n_free))
    behind, sums = numpy.empty((len(tags.outside), states.shape[1])), numpy.empty(len(tags.outside))
    # What ends here ended with L or U, what goes on did so with I or B; the other way round than forwards.
    from_end = numpy.stack([tags.unit_begin[:, 0], tags.last_inside[:, 0]], axis=1)
    from_open = numpy.stack([tags.unit_begin[:, 1], tags.last_inside[:, 1]], axis=1)
    start = len(tags.outside)
    for n in reversed(active):
        start, end = start - n, start
        now = states[:n]
        behind[start:end] = now
        entities = now[:, None, 1:n_free] * from_end[start:end]
        entities += now[:, None, n_free:] * from_open[start:end]
        numpy.multiply(now[:, 0], tags.outside[start:end], out=starts[:n, 0])
        starts[:n, 1:] = entities[:, 0]
        now[:, :n_free] = starts[:n] @ steps.T
        now[:, n_free:] = entities[:, 1]
        now /= numpy.maximum(now.sum(1, out=sums[start:end]), TINY)[:, None]
    return behind, sums
