import pytest
import torch
from torch import nn

from spacy_attention.nn.dropout import Dropout, replace_dropouts


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 7, 384)])
def test_what_stays_is_scaled_and_the_rest_is_zero(shape, dtype):
    torch.manual_seed(0)
    X = torch.randn(shape, dtype=dtype).abs() + 1
    Y = Dropout(0.25)(X)
    assert Y.shape == X.shape
    assert Y.dtype == dtype
    torch.testing.assert_close(Y[Y != 0], (X / 0.75)[Y != 0])


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.9])
def test_the_rate_and_the_mean_come_out(rate):
    torch.manual_seed(0)
    X = torch.ones(1000, 1000)
    Y = Dropout(rate)(X)
    # Six standard deviations of a share of a million values.
    assert abs((Y == 0).float().mean().item() - rate) < 6 * (rate * (1 - rate)) ** 0.5 / 1000
    assert abs(Y.mean().item() - 1) < 6 * (rate / (1 - rate)) ** 0.5 / 1000
    # No pattern over the four values that share a draw, nor over neighbours.
    dropped = (Y == 0).float().view(-1, 4)
    assert (dropped.mean(0) - rate).abs().max() < 6 * (rate * (1 - rate)) ** 0.5 / 500
    both = (dropped[:, :-1] * dropped[:, 1:]).mean(0)
    assert (both - rate**2).abs().max() < 6 * (rate**2 * (1 - rate**2)) ** 0.5 / 500


def test_the_gradient_goes_where_the_value_went():
    torch.manual_seed(0)
    X = torch.randn(50, 40, requires_grad=True)
    Y = Dropout(0.5)(X)
    Y.sum().backward()
    torch.testing.assert_close(X.grad, torch.where(Y == 0, 0.0, 2.0))


def test_one_seed_one_result():
    X, results = torch.ones(10, 10), []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        results.append(Dropout(0.5)(X))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.3, 1.0])
def test_edges_are_those_of_torch(rate):
    X = torch.randn(20, 20)
    evaluating = Dropout(rate).eval()
    assert torch.equal(evaluating(X), X)
    if rate != 0.3:
        assert torch.equal(Dropout(rate)(X), nn.Dropout(rate)(X) if rate == 1.0 else X)
    assert Dropout(0.3)(torch.zeros(0, 4)).shape == (0, 4)


def test_the_dropouts_of_another_library_are_replaced():
    class Special(nn.Dropout):
        pass

    module = nn.Sequential(nn.Dropout(0.3), nn.ModuleDict({"a": nn.Dropout(0.2), "b": Special(0.1), "c": nn.Linear(2, 2)}))
    replace_dropouts(module)
    assert [(type(m), m.p) for m in module.modules() if isinstance(m, nn.Dropout)] == [
        (Dropout, 0.3),
        (Dropout, 0.2),
        (Special, 0.1),
    ]
