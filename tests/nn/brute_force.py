"""A conditional random field over BILUO tags by writing out every sequence; slow, and independent of the one under test."""

import functools
import itertools
import math

from torch import Tensor


def is_valid(tags: list[int], n_labels: int) -> bool:
    """Whether a sequence of tag columns opens, continues and closes its entities properly."""
    open_label = None
    for tag in tags:
        prefix, label = split_tag(tag, n_labels)
        if (open_label is None) != (prefix in "OBU"):
            return False
        if open_label is not None and label != open_label:
            return False
        open_label = label if prefix in "BI" else None
    return open_label is None


def split_tag(tag: int, n_labels: int) -> tuple[str, int]:
    if tag == 0:
        return "O", -1
    return "BILU"[(tag - 1) // n_labels], (tag - 1) % n_labels


@functools.cache
def valid_sequences(length: int, n_labels: int) -> list[tuple[int, ...]]:
    every = itertools.product(range(4 * n_labels + 1), repeat=length)
    return [tags for tags in every if is_valid(list(tags), n_labels)]


def score(tags: tuple[int, ...], emissions: Tensor, transitions: Tensor) -> float:
    """Sum of the emissions, and of the steps from each thing (O, or an entity of a label) to the next; starts after O."""
    n_labels = len(transitions) - 1
    total, before = 0.0, 0
    emitted, stepped = emissions.log_softmax(-1).tolist(), transitions.tolist()
    for row, tag in zip(emitted, tags, strict=True):
        prefix, label = split_tag(tag, n_labels)
        total += row[tag]
        if prefix in "OBU":
            total += stepped[before][label + 1]
            before = label + 1
    return total


def distribution(emissions: Tensor, transitions: Tensor) -> tuple[dict[tuple[int, ...], float], float]:
    """Probability of every valid sequence, and the log partition."""
    sequences = valid_sequences(len(emissions), len(transitions) - 1)
    scores = [score(tags, emissions, transitions) for tags in sequences]
    top = max(scores)
    total = top + math.log(math.fsum(math.exp(s - top) for s in scores))
    return {tags: math.exp(s - total) for tags, s in zip(sequences, scores, strict=True)}, total


def spans_of(tags: tuple[int, ...], n_labels: int) -> list[tuple[int, int, int]]:
    """(start, exclusive end, label) of each entity of a valid sequence."""
    spans, start = [], 0
    for i, tag in enumerate(tags):
        prefix, label = split_tag(tag, n_labels)
        if prefix in "BU":
            start = i
        if prefix in "LU":
            spans.append((start, i + 1, label))
    return spans
