"""The best sequence of entities when only some spans may be entities (semi-Markov Viterbi, Sarawagi and Cohen 2004, section 3.2)."""

from collections import defaultdict
from collections.abc import Sequence

import numpy
import torch
from torch import Tensor

from .best_spans import LabelledSpan
from .chain import FLOOR
from .span_scores import SpanScores, span_emissions


def best_of_spans(scores: SpanScores, transitions: Tensor, rows: range, spans: Sequence[LabelledSpan]) -> list[LabelledSpan]:
    """Find the most probable tag sequence of a document whose entities are all among some spans.

    scores (SpanScores): of the batch.
    transitions (Tensor): (labels + 1, labels + 1).
    rows (range): of the document, in the packed array.
    spans (Sequence[LabelledSpan]): what may be an entity.
    RETURNS (list[LabelledSpan]): those that are, in text order.
    """
    moves = transitions.detach().cpu().double().clamp(min=FLOOR, max=-FLOOR).numpy()
    outside = scores.emissions[:, 0].tolist()
    ending = defaultdict(list)
    for entity, score in zip(spans, _scores_of(scores, spans), strict=True):
        ending[entity.end].append((entity.start, entity.label + 1, score, entity))
    # best[i, s]: score of the best way over the first i tokens, the last thing being s (0: O, x + 1: an entity of label x).
    best = numpy.full((len(rows) + 1, len(moves)), -numpy.inf)
    best[0, 0] = 0.0
    way: dict[tuple[int, int], tuple[int, int, LabelledSpan | None]] = {}
    for end in range(rows.start + 1, rows.stop + 1):
        for start, state, score, span in [(end - 1, 0, outside[end - 1], None), *ending[end]]:
            ways = best[start - rows.start] + moves[:, state]
            before = int(ways.argmax())
            if ways[before] + score > best[end - rows.start, state]:
                best[end - rows.start, state] = ways[before] + score
                way[end - rows.start, state] = start - rows.start, before, span
    return _walk_back(len(rows), int(best[-1].argmax()), way)


def _scores_of(scores: SpanScores, spans: Sequence[LabelledSpan]) -> list[float]:
    bounds = torch.tensor([span[:3] for span in spans], dtype=torch.int64).reshape(-1, 3)
    return span_emissions(scores, *bounds.unbind(1)).tolist()


def _walk_back(position: int, state: int, way: dict[tuple[int, int], tuple[int, int, LabelledSpan | None]]) -> list[LabelledSpan]:
    chosen = []
    while position:
        position, state, span = way[position, state]
        if span is not None:
            chosen.append(span)
    return chosen[::-1]
