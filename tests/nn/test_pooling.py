import pytest
import torch

from spacy_attention.nn.pooling import POOLINGS, AttentionPooling, FirstRow, MaxPooling, MeanPooling

ROWS = [[1.0, -4.0], [3.0, 2.0], [5.0, -1.0], [-7.0, -8.0]]
LENGTHS = [2, 0, 1, 1, 0]


def test_mean_by_hand():
    Y = MeanPooling(2)(torch.tensor(ROWS), torch.tensor(LENGTHS))
    assert Y.tolist() == [[2.0, -1.0], [0.0, 0.0], [5.0, -1.0], [-7.0, -8.0], [0.0, 0.0]]


def test_max_by_hand():
    # The last filled document is negative throughout: zeros must come from empty documents only.
    Y = MaxPooling(2)(torch.tensor(ROWS), torch.tensor(LENGTHS))
    assert Y.tolist() == [[3.0, 2.0], [0.0, 0.0], [5.0, -1.0], [-7.0, -8.0], [0.0, 0.0]]


def test_first_row_by_hand():
    Y = FirstRow(2)(torch.tensor(ROWS), torch.tensor(LENGTHS))
    assert Y.tolist() == [[1.0, -4.0], [0.0, 0.0], [5.0, -1.0], [-7.0, -8.0], [0.0, 0.0]]


def test_attention_by_hand():
    pooling = AttentionPooling(2)
    pooling.query.data = torch.tensor([1.0, 0.5])
    rows, lengths = torch.tensor(ROWS), torch.tensor(LENGTHS)
    # Scores of the first document: 1 - 2 and 3 + 1.
    second = 1 / (1 + torch.tensor(-5.0).exp())
    weights = pooling.weights(rows, lengths)
    torch.testing.assert_close(weights, torch.stack([1 - second, second, *torch.ones(2)]))
    Y = pooling(rows, lengths)
    torch.testing.assert_close(Y[0], (1 - second) * rows[0] + second * rows[1])
    assert Y[[1, 4]].tolist() == [[0.0, 0.0]] * 2
    torch.testing.assert_close(Y[2:4], rows[2:4])


def test_attention_starts_as_the_mean():
    rows, lengths = torch.tensor(ROWS), torch.tensor(LENGTHS)
    torch.testing.assert_close(AttentionPooling(2)(rows, lengths), MeanPooling(2)(rows, lengths))


def test_attention_takes_extreme_scores():
    pooling = AttentionPooling(1)
    pooling.query.data = torch.tensor([1.0])
    Y = pooling(torch.tensor([[1e4], [-1e4], [-1e4]]), torch.tensor([2, 1]))
    assert Y.tolist() == [[1e4], [-1e4]]


@pytest.mark.parametrize("name", POOLINGS)
def test_gradient_by_finite_differences(name):
    torch.manual_seed(0)
    pooling = POOLINGS[name](3).double()
    for parameter in pooling.parameters():
        torch.nn.init.normal_(parameter)
    rows = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([2, 0, 3, 1])
    names, values = zip(("rows", rows), *pooling.named_parameters(), strict=True)

    def run(*values):
        weights = dict(zip(names[1:], values[1:], strict=True))
        return torch.func.functional_call(pooling, weights, (values[0], lengths))

    assert torch.autograd.gradcheck(run, values)


@pytest.mark.parametrize("name", POOLINGS)
def test_document_alone_as_in_the_batch(name):
    torch.manual_seed(0)
    pooling = POOLINGS[name](3)
    for parameter in pooling.parameters():
        torch.nn.init.normal_(parameter)
    rows = torch.randn(6, 3)
    together = pooling(rows, torch.tensor([2, 0, 4]))
    alone = [pooling(rows[a:b], torch.tensor([b - a])) for a, b in ((0, 2), (2, 2), (2, 6))]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", POOLINGS)
def test_batch_of_empty_documents(name):
    assert POOLINGS[name](3)(torch.zeros(0, 3), torch.tensor([0, 0])).tolist() == [[0.0] * 3] * 2
