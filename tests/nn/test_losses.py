import itertools
import math

import pytest
import torch

from spacy_attention.nn.losses import binary_loss, exclusive_loss

NAN = math.nan


def loss_by_enumeration(logits: list[float], gold: list[float]) -> float:
    """-log of the summed probabilities of the labels that the annotation leaves possible."""
    total = sum(math.exp(x) for x in logits)
    true = [i for i, g in enumerate(gold) if g == 1.0]
    possible = true or [i for i, g in enumerate(gold) if math.isnan(g)]
    if not possible:
        return 0.0
    return -math.log(sum(math.exp(logits[i]) for i in possible) / total)


def test_exclusive_over_all_annotations():
    logits = [0.3, -1.2, 2.0]
    for gold in itertools.product([0.0, 1.0, NAN], repeat=3):
        if sum(g == 1.0 for g in gold) > 1:
            continue
        loss = exclusive_loss(torch.tensor([logits]), torch.tensor([gold]))
        assert loss.item() == pytest.approx(loss_by_enumeration(logits, gold), abs=1e-6), gold


def test_exclusive_is_cross_entropy_when_all_is_known():
    torch.manual_seed(0)
    logits = torch.randn(5, 4)
    target = torch.tensor([0, 3, 1, 1, 2])
    gold = torch.nn.functional.one_hot(target, 4).float()
    expected = torch.nn.functional.cross_entropy(logits, target, reduction="sum")
    torch.testing.assert_close(exclusive_loss(logits, gold), expected)


def test_exclusive_with_zeros_only_is_minus_log_of_the_rest():
    logits = torch.tensor([[0.5, 1.0, -0.5, 0.1]])
    probabilities = logits.softmax(1)[0]
    expected = -(1 - probabilities[0] - probabilities[2]).log()
    torch.testing.assert_close(exclusive_loss(logits, torch.tensor([[0.0, NAN, 0.0, NAN]])), expected)


@pytest.mark.parametrize("loss", [exclusive_loss, binary_loss])
def test_nothing_known_adds_nothing(loss):
    logits = torch.randn(3, 4, requires_grad=True)
    total = loss(logits, torch.full((3, 4), NAN))
    total.backward()
    assert total.item() == 0.0
    assert not logits.grad.any()


def test_contradiction_adds_nothing():
    logits = torch.randn(1, 3, requires_grad=True)
    total = exclusive_loss(logits, torch.zeros(1, 3))
    total.backward()
    assert total.item() == 0.0
    assert logits.grad.abs().max() < 1e-6


def test_binary_over_all_annotations():
    logits = [0.3, -1.2]
    for gold in itertools.product([0.0, 0.25, 1.0, NAN], repeat=2):
        expected = 0.0
        for x, g in zip(logits, gold, strict=True):
            p = 1 / (1 + math.exp(-x))
            expected -= 0.0 if math.isnan(g) else g * math.log(p) + (1 - g) * math.log(1 - p)
        loss = binary_loss(torch.tensor([logits]), torch.tensor([gold]))
        assert loss.item() == pytest.approx(expected, abs=1e-6), gold


@pytest.mark.parametrize("loss", [exclusive_loss, binary_loss])
def test_sum_over_documents_not_mean(loss):
    torch.manual_seed(0)
    logits = torch.randn(3, 4)
    gold = torch.tensor([[0.0, 1.0, 0.0, 0.0], [NAN, 0.0, NAN, 0.0], [NAN] * 4])
    alone = sum(loss(logits[i : i + 1], gold[i : i + 1]) for i in range(3))
    torch.testing.assert_close(loss(logits, gold), alone)


@pytest.mark.parametrize("loss", [exclusive_loss, binary_loss])
def test_gradient_by_finite_differences(loss):
    torch.manual_seed(0)
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    gold = torch.tensor([[0, 1, 0], [NAN, 0, NAN], [NAN] * 3, [0, NAN, 1]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: loss(x, gold), logits)


@pytest.mark.parametrize("loss", [exclusive_loss, binary_loss])
def test_extreme_logits_stay_finite(loss):
    logits = torch.tensor([[1e4, -1e4], [-1e4, 1e4]], requires_grad=True)
    total = loss(logits, torch.tensor([[0.0, 1.0], [0.0, NAN]]))
    total.backward()
    assert total.isfinite()
    assert logits.grad.isfinite().all()


GOLD = torch.tensor([[0.0, 1.0, 0.0], [NAN, 0.0, NAN], [NAN] * 3, [0.0, NAN, 1.0]])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_exclusive_with_smoothing_and_weights_by_hand(smoothing):
    torch.manual_seed(0)
    logits, weights = torch.randn(4, 3), torch.tensor([0.5, 2.0, 3.0])
    logs = logits.log_softmax(1)
    smooth = [-(1 - smoothing) * logs[row, label] - smoothing * logs[row].mean() for row, label in ((0, 1), (3, 2))]
    expected = 2.0 * smooth[0] + 3.0 * smooth[1] - (1 - logs[1, 1].exp()).log()
    torch.testing.assert_close(exclusive_loss(logits, GOLD, weights=weights, smoothing=smoothing), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_binary_with_smoothing_and_weights_by_hand(smoothing):
    torch.manual_seed(0)
    logits, weights = torch.randn(4, 3), torch.tensor([[0.5, 2.0, 3.0], [4.0, 5.0, 6.0]])
    expected = torch.zeros(())
    for row, label in itertools.product(range(4), range(3)):
        gold = GOLD[row, label].item()
        if not math.isnan(gold):
            target, weight = gold * (1 - smoothing) + smoothing / 2, weights[int(gold), label]
            p = logits[row, label].sigmoid()
            expected = expected - weight * (target * p.log() + (1 - target) * (1 - p).log())
    torch.testing.assert_close(binary_loss(logits, GOLD, weights=weights, smoothing=smoothing), expected)


@pytest.mark.parametrize("loss", [exclusive_loss, binary_loss])
def test_gradient_with_smoothing_and_weights_by_finite_differences(loss):
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([0.5, 2.0, 3.0]) if loss is exclusive_loss else torch.tensor([[0.5, 2.0, 3.0], [1.0, 2.0, 0.1]])
    assert torch.autograd.gradcheck(lambda x: loss(x, GOLD.double(), weights=weights.double(), smoothing=0.2), logits)
