import pytest
import torch
from torch.nn.functional import gelu

from spacy_attention.nn import span_scorer
from spacy_attention.nn.span_scorer import SpanScorer, all_spans

LENGTHS = [4, 0, 1, 3]


def shaken(width=3, labels=2, max_length=3) -> SpanScorer:
    torch.manual_seed(0)
    scorer = SpanScorer(width, labels, max_length, hidden=5).double()
    for parameter in scorer.parameters():
        torch.nn.init.normal_(parameter)
    return scorer


@pytest.mark.parametrize("max_length", [1, 2, 3, 9])
def test_all_spans_written_out(max_length):
    expected, offset = [], 0
    for length in LENGTHS:
        for start in range(length):
            expected += [(offset + start, offset + end) for end in range(start + 1, min(length, start + max_length) + 1)]
        offset += length
    start, end = all_spans(torch.tensor(LENGTHS), max_length)
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == expected


def test_scores_written_out():
    scorer, rows = shaken(), torch.randn(sum(LENGTHS), 3, dtype=torch.float64)
    found = scorer(rows, torch.tensor(LENGTHS))
    for (start, end), scores in zip(zip(*all_spans(torch.tensor(LENGTHS), 3), strict=True), found, strict=True):
        part = rows[start:end]
        hidden = scorer.first(part[0]) + scorer.last(part[-1]) + scorer.mean(part.mean(0)) + scorer.length.weight[len(part) - 1]
        torch.testing.assert_close(scores, scorer.output(gelu(hidden)))


def test_gradient_by_finite_differences():
    scorer, rows = shaken(width=2), torch.randn(sum(LENGTHS), 2, dtype=torch.float64, requires_grad=True)
    names, values = zip(*scorer.named_parameters(), strict=True)

    def run(rows, *values):
        return torch.func.functional_call(scorer, dict(zip(names, values, strict=True)), (rows, torch.tensor(LENGTHS)))

    assert torch.autograd.gradcheck(run, (rows, *values))


def test_chunks_and_documents_alone_give_the_same(monkeypatch):
    scorer, rows = shaken(), torch.randn(sum(LENGTHS), 3, dtype=torch.float64)
    whole = scorer(rows, torch.tensor(LENGTHS))
    monkeypatch.setattr(span_scorer, "CHUNK", 4)
    torch.testing.assert_close(scorer(rows, torch.tensor(LENGTHS)), whole)
    alone = [scorer(part, torch.tensor([len(part)])) for part in rows.split(LENGTHS)]
    torch.testing.assert_close(torch.cat(alone), whole)


def test_further_columns_count_as_width():
    scorer, rows = shaken(), torch.randn(sum(LENGTHS), 3, dtype=torch.float64)
    torch.testing.assert_close(scorer(rows[:, :2], torch.tensor(LENGTHS), rows[:, 2:]), scorer(rows, torch.tensor(LENGTHS)))


def test_means_of_a_long_document_stay_exact():
    scorer = shaken().float()
    rows = 100 + torch.randn(20_000, 3)
    late = scorer(rows, torch.tensor([20_000]))[-6:]
    torch.testing.assert_close(late, scorer(rows[-3:], torch.tensor([3])), atol=1e-3, rtol=1e-4)


def test_batch_without_tokens():
    assert shaken()(torch.zeros(0, 3, dtype=torch.float64), torch.tensor([0, 0])).shape == (0, 2)
