import itertools

import pytest
import torch

from spacy_attention.nn.best_spans import LabelledSpan, most_probable_spans
from spacy_attention.nn.restricted_path import best_of_spans
from spacy_attention.nn.span_scores import score_spans
from spacy_attention.nn.viterbi import viterbi

from .brute_force import distribution, spans_of
from .test_crf import chain


def as_spans(bounds):
    return [LabelledSpan(*span, 0.5) for span in bounds]


@pytest.mark.parametrize("seed", range(4))
def test_equals_enumeration_for_every_choice_of_spans(seed):
    emissions, lengths, transitions = chain([3], 2, seed=seed, scale=2.0)
    probabilities, _ = distribution(emissions, transitions)
    scores = score_spans(emissions, lengths, transitions)
    pool = [(0, 1, 0), (0, 2, 1), (1, 2, 0), (1, 3, 0), (2, 3, 1)]
    for n in range(len(pool) + 1):
        for chosen in itertools.combinations(pool, n):
            allowed = [tags for tags in probabilities if set(spans_of(tags, 2)) <= set(chosen)]
            expected = spans_of(max(allowed, key=probabilities.get), 2)
            found = best_of_spans(scores, transitions, range(3), as_spans(chosen))
            assert [span[:3] for span in found] == expected, chosen


def test_with_all_spans_it_is_viterbi_in_each_document():
    lengths = [6, 0, 4]
    emissions, n, transitions = chain(lengths, 2, scale=3.0)
    scores = score_spans(emissions, n, transitions)
    for document, (start, length) in enumerate([(0, 6), (6, 0), (6, 4)]):
        spans = list(most_probable_spans(scores, document, range(start, start + length), least=1e-300))
        found = best_of_spans(scores, transitions, range(start, start + length), spans)
        tags = viterbi(emissions[start : start + length], torch.tensor([length]), transitions)
        expected = spans_of(tuple(tags.tolist()), 2)
        assert [(s.start - start, s.end - start, s.label) for s in found] == expected
