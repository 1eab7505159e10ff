"""Labelled spans in the order of their probability, found without looking at all of them."""

import heapq
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy

from .span_scores import SpanScores


class LabelledSpan(NamedTuple):
    """Rows `start` to `end` (exclusive) of the packed array, number of a label, and the probability in [0, 1] of exactly this span."""

    start: int
    end: int
    label: int
    probability: float


def most_probable_spans(scores: SpanScores, document: int, rows: range, *, least: float) -> Iterator[LabelledSpan]:
    """Give the spans of a document, the most probable first, as many as are asked for.

    Best-first search: an entity that is open after a token ends with the next one or stays open, and the probabilities of the two add
    up to its own. So what is open bounds all that may come of it, and no span less probable than the last one given is looked at.

    scores (SpanScores): of the batch.
    document (int): number of the document. rows (range): its rows in the packed array.
    least (float): probability above 0 and up to 1; spans below it are not given.
    YIELDS (LabelledSpan): in descending order of probability.
    """
    enter, after, opened, emissions, inside = (x.numpy() for x in scores[:-1])
    total, labels = float(scores.total[document]), inside.shape[1]
    begin, middle, last, unit = (1 + block * labels for block in range(4))  # first columns of B, I, L, U
    here = slice(rows.start, rows.stop)
    started = enter[here, 1:] - total
    # (negative probability, start, exclusive end, label, whether it ends there or is open)
    heap: list[tuple[float, int, int, int, bool]] = []
    for ends, logs in (
        (True, started + emissions[here, unit:] + after[here, 1:]),
        (False, started + emissions[here, begin:middle] + opened[here]),
    ):
        for row, label in zip(*numpy.nonzero(logs >= math.log(least)), strict=True):
            start = rows.start + int(row)
            heap.append((-math.exp(logs[row, label]), start, start + 1, int(label), ends))
    heapq.heapify(heap)
    while heap:
        negative, start, end, label, ends = heapq.heappop(heap)
        if ends:
            yield LabelledSpan(start, end, label, min(-negative, 1.0))
            continue
        until = enter[start, 1 + label] + emissions[start, begin + label] + inside[end, label] - inside[start + 1, label] - total
        for ends_here, log in (
            (True, until + emissions[end, last + label] + after[end, 1 + label]),
            (False, until + emissions[end, middle + label] + opened[end, label]),
        ):
            if log >= math.log(least):
                heapq.heappush(heap, (-math.exp(log), start, end + 1, label, ends_here))
