import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_attention.nn.crf import log_partition
from spacy_attention.nn.span_scores import score_spans, span_log_probability
from spacy_attention.nn.viterbi import viterbi

from .brute_force import distribution, spans_of
from .test_crf import chain


def all_spans(lengths: list[int], n_labels: int) -> list[tuple[int, int, int, int]]:
    """(document, start, exclusive end, label), in rows of the packed array."""
    spans, offset = [], 0
    for document, length in enumerate(lengths):
        for start in range(length):
            for end in range(start + 1, length + 1):
                spans.extend((document, offset + start, offset + end, label) for label in range(n_labels))
        offset += length
    return spans


def confidences(emissions, lengths, transitions, spans) -> torch.Tensor:
    scores = score_spans(emissions, lengths, transitions)
    return span_log_probability(scores, *torch.tensor(spans, dtype=torch.int64).reshape(-1, 4).unbind(1)).exp()


@pytest.mark.parametrize(("length", "n_labels"), [(1, 1), (1, 3), (3, 2), (4, 2), (5, 1)])
@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_confidence_of_every_span_equals_enumeration(length, n_labels, scale):
    emissions, lengths, transitions = chain([length], n_labels, scale=scale)
    probabilities, _ = distribution(emissions, transitions)
    expected = dict.fromkeys(all_spans([length], n_labels), 0.0)
    for tags, probability in probabilities.items():
        for start, end, label in spans_of(tags, n_labels):
            expected[0, start, end, label] += probability
    found = confidences(emissions, lengths, transitions, list(expected))
    torch.testing.assert_close(found, torch.tensor(list(expected.values()), dtype=torch.float64), atol=1e-9, rtol=0)


def test_confidences_in_a_ragged_batch_equal_enumeration():
    lengths = [2, 0, 4, 1]
    emissions, n, transitions = chain(lengths, 2)
    spans = all_spans(lengths, 2)
    found = dict(zip(spans, confidences(emissions, n, transitions, spans).tolist(), strict=True))
    offset = 0
    for document, part in enumerate(emissions.split(lengths)):
        if not len(part):
            continue
        probabilities, _ = distribution(part, transitions)
        for d, start, end, label in [span for span in spans if span[0] == document]:
            wanted = (start - offset, end - offset, label)
            expected = sum(p for tags, p in probabilities.items() if wanted in spans_of(tags, 2))
            assert found[d, start, end, label] == pytest.approx(expected, abs=1e-9)
        offset += len(part)


def test_spans_that_start_at_a_token_and_none_starts_sum_to_one_by_enumeration():
    emissions, lengths, transitions = chain([4], 2)
    probabilities, _ = distribution(emissions, transitions)
    spans = all_spans([4], 2)
    found = confidences(emissions, lengths, transitions, spans)
    for token in range(4):
        starts = sum(p for (_, start, _, _), p in zip(spans, found.tolist(), strict=True) if start == token)
        none = sum(p for tags, p in probabilities.items() if all(start != token for start, _, _ in spans_of(tags, 2)))
        assert starts + none == pytest.approx(1.0, abs=1e-9)


def test_spans_that_start_at_a_token_and_none_starts_sum_to_one_by_marginals():
    lengths, n_labels = [17, 1, 9], 3
    emissions, n, transitions = chain(lengths, n_labels, scale=2.0)
    emissions.requires_grad_()
    log_partition(emissions, n, transitions).sum().backward()
    # log_partition normalises each row first; its gradient is the marginal minus the softmax.
    marginals = emissions.grad + emissions.detach().softmax(-1)
    starts_none = marginals[:, 0] + marginals[:, 1 + n_labels : 1 + 3 * n_labels].sum(1)
    spans = all_spans(lengths, n_labels)
    found = confidences(emissions.detach(), n, transitions, spans)
    starting = torch.zeros(sum(lengths), dtype=torch.float64)
    starting.index_add_(0, torch.tensor([start for _, start, _, _ in spans]), found)
    torch.testing.assert_close(starting + starts_none, torch.ones(sum(lengths), dtype=torch.float64), atol=1e-9, rtol=0)
    assert 0.01 < starting.min() < starting.max() < 1.0


scores = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e4, 1e4, width=32))


@settings(max_examples=40, deadline=None)
@given(data=st.data(), lengths=st.lists(st.integers(0, 5), min_size=1, max_size=3))
def test_confidences_are_probabilities(data, lengths):
    drawn = data.draw(st.lists(scores, min_size=5 * sum(lengths), max_size=5 * sum(lengths)))
    emissions = torch.tensor(drawn).reshape(-1, 5)
    found = confidences(emissions, torch.tensor(lengths), torch.zeros(2, 2), all_spans(lengths, 1))
    assert ((found >= 0) & (found <= 1)).all()


def test_empty_batches():
    emissions, lengths, transitions = chain([0, 0], 2)
    assert confidences(emissions, lengths, transitions, []).tolist() == []


def test_long_chain_in_float32():
    lengths = [5000, 40]
    emissions, n, transitions = chain(lengths, 3, scale=4.0, dtype=torch.float32)
    total, scores = log_partition(emissions, n, transitions), score_spans(emissions, n, transitions)
    assert total.isfinite().all()
    torch.testing.assert_close(total.double(), scores.total, rtol=1e-5, atol=0)
    best = viterbi(emissions, n, transitions).split(lengths)
    spans = [
        (document, offset + start, offset + end, label)
        for document, (tags, offset) in enumerate(zip(best, [0, 5000], strict=True))
        for start, end, label in spans_of(tuple(tags.tolist()), 3)
    ]
    assert len(spans) > 500
    found = span_log_probability(scores, *torch.tensor(spans).unbind(1)).exp()
    assert found.isfinite().all()
    assert ((found > 0) & (found <= 1)).all()
    # A span near the end of the long document says the same when the text before it is cut away far from it.
    late = [(0, start - 4800, end - 4800, label) for d, start, end, label in spans if d == 0 and start > 4900]
    again = confidences(emissions[4800:5000], torch.tensor([200]), transitions, late)
    here = torch.tensor([d == 0 and start > 4900 for d, start, _, _ in spans])
    torch.testing.assert_close(found[here], again, atol=1e-6, rtol=0)
