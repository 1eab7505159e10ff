import torch

from spacy_attention.nn.heads import ClassScores
from spacy_attention.nn.label_attention import LabelScores

LENGTHS = torch.tensor([2, 0, 3, 1])


def shaken(width: int, classes: int, dtype=torch.float64) -> LabelScores:
    torch.manual_seed(0)
    scores = LabelScores(width, classes).to(dtype)
    torch.nn.init.normal_(scores.queries)
    return scores


def test_equals_a_weighted_mean_per_class_written_out():
    scores, rows = shaken(3, 4), torch.randn(6, 3, dtype=torch.float64)
    found, weights = scores(rows, LENGTHS), scores.token_weights(rows, LENGTHS)
    start = 0
    for document, length in enumerate(LENGTHS.tolist()):
        part = rows[start : start + length]
        for label in range(4):
            attention = (part @ scores.queries[label]).softmax(0)
            torch.testing.assert_close(weights[start : start + length, label], attention)
            pooled = attention @ part
            expected = pooled @ scores.linear.weight[label] + scores.linear.bias[label]
            torch.testing.assert_close(found[document, label], expected)
        start += length


def test_starts_as_the_mean():
    torch.manual_seed(0)
    scores, mean = LabelScores(3, 2), ClassScores(3, 2, "mean")
    mean.linear = scores.linear
    rows = torch.randn(6, 3)
    torch.testing.assert_close(scores(rows, LENGTHS), mean(rows, LENGTHS))


def test_gradient_by_finite_differences():
    scores, rows = shaken(2, 3), torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    names, values = zip(*scores.named_parameters(), strict=True)

    def run(rows, *values):
        return torch.func.functional_call(scores, dict(zip(names, values, strict=True)), (rows, LENGTHS))

    assert torch.autograd.gradcheck(run, (rows, *values))


def test_weights_stay_float32_under_autocast():
    scores, rows = shaken(3, 2, torch.float32), 100 * torch.randn(6, 3)
    with torch.autocast("cpu", torch.bfloat16):
        weights = scores.token_weights(rows, LENGTHS)
    torch.testing.assert_close(weights, scores.token_weights(rows, LENGTHS), atol=1e-6, rtol=0)


def test_batch_without_tokens():
    scores = shaken(3, 2)
    found = scores(torch.zeros(0, 3, dtype=torch.float64), torch.tensor([0, 0]))
    assert found.tolist() == [scores.linear.bias.tolist()] * 2
