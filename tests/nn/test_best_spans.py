import heapq

import pytest
import torch

from spacy_attention.nn.best_spans import most_probable_spans
from spacy_attention.nn.span_scores import score_spans

from .test_crf import chain
from .test_span_scores import all_spans, confidences


def ranges(lengths: list[int]) -> list[range]:
    ends = torch.tensor(lengths).cumsum(0).tolist()
    return [range(end - length, end) for end, length in zip(ends, lengths, strict=True)]


@pytest.mark.parametrize("scale", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("least", [1e-9, 0.01, 0.3])
def test_equals_sorting_all_spans(scale, least):
    lengths, n_labels = [5, 0, 9, 1], 3
    emissions, n, transitions = chain(lengths, n_labels, scale=scale)
    scores = score_spans(emissions, n, transitions)
    spans = all_spans(lengths, n_labels)
    probabilities = dict(zip(spans, confidences(emissions, n, transitions, spans).tolist(), strict=True))
    for document, rows in enumerate(ranges(lengths)):
        found = list(most_probable_spans(scores, document, rows, least=least))
        expected = [p for span, p in probabilities.items() if span[0] == document and p >= least]
        assert [s.probability for s in found] == pytest.approx(sorted(expected, reverse=True), abs=1e-12)
        assert all(probabilities[document, *s[:3]] == pytest.approx(s.probability, abs=1e-12) for s in found)
        assert len({s[:3] for s in found}) == len(found)
    assert probabilities


def test_looks_at_few_spans(monkeypatch):
    """The ten best of two thousand tokens: a look at all of them would be millions."""
    emissions, n, transitions = chain([2000], 2, scale=4.0)
    scores, pushed = score_spans(emissions, n, transitions), []
    push = heapq.heappush
    monkeypatch.setattr(heapq, "heappush", lambda heap, item: (pushed.append(item), push(heap, item)))
    spans = most_probable_spans(scores, 0, range(2000), least=1e-6)
    best = [next(spans) for _ in range(10)]
    assert best == sorted(best, key=lambda span: -span.probability)
    assert len(pushed) < 10_000
