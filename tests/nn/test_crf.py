import math

import pytest
import torch

from spacy_attention.nn.crf import NEVER, log_partition, negative_log_likelihood

from .brute_force import distribution, is_valid, valid_sequences


def chain(lengths: list[int], n_labels: int, *, seed: int = 0, scale: float = 1.0, dtype=torch.float64):
    torch.manual_seed(seed)
    emissions = scale * torch.randn(sum(lengths), 4 * n_labels + 1, dtype=dtype)
    transitions = scale * torch.randn(n_labels + 1, n_labels + 1, dtype=dtype)
    return emissions, torch.tensor(lengths), transitions


def test_the_brute_force_itself():
    assert valid_sequences(1, 1) == [(0,), (4,)]
    assert valid_sequences(2, 1) == [(0, 0), (0, 4), (1, 3), (4, 0), (4, 4)]
    # Of n tokens: entities of each length at each place; with one label the count doubles and adds one step by step.
    assert [len(valid_sequences(n, 1)) for n in (1, 2, 3)] == [2, 5, 13]
    assert not is_valid([1, 4], 2)  # B of one label, I of the other
    assert not is_valid([1], 1)


@pytest.mark.parametrize(("length", "n_labels"), [(1, 1), (1, 3), (2, 2), (3, 2), (4, 2), (5, 1)])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_log_partition_equals_enumeration(length, n_labels, scale):
    emissions, lengths, transitions = chain([length], n_labels, scale=scale)
    _, expected = distribution(emissions, transitions)
    assert log_partition(emissions, lengths, transitions).item() == pytest.approx(expected, abs=1e-9)


def test_likelihood_of_every_sequence_equals_enumeration():
    emissions, lengths, transitions = chain([3], 2)
    probabilities, _ = distribution(emissions, transitions)
    for tags, probability in probabilities.items():
        allowed = torch.nn.functional.one_hot(torch.tensor(tags), 9).bool()
        loss = negative_log_likelihood(emissions, lengths, transitions, allowed)
        assert loss.item() == pytest.approx(-math.log(probability), abs=1e-8), tags


def test_partial_annotation_equals_the_sum_over_its_completions():
    emissions, lengths, transitions = chain([4], 2, scale=2.0)
    probabilities, _ = distribution(emissions, transitions)
    gold = (0, 1, 5, 8)  # O, B of the first label, L of the first, U of the second
    for missing in range(16):
        free = [bool(missing >> i & 1) for i in range(4)]
        allowed = torch.nn.functional.one_hot(torch.tensor(gold), 9).bool()
        allowed[torch.tensor(free)] = True
        completions = [
            p for tags, p in probabilities.items() if all(f or a == b for a, b, f in zip(tags, gold, free, strict=True))
        ]
        loss = negative_log_likelihood(emissions, lengths, transitions, allowed)
        assert loss.item() == pytest.approx(-math.log(math.fsum(completions)), abs=1e-8), free


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_text_without_annotation_has_a_gradient_of_exactly_zero(dtype):
    emissions, lengths, transitions = chain([5, 0, 3], 2, dtype=dtype)
    emissions.requires_grad_()
    transitions.requires_grad_()
    everything = torch.ones(8, 9, dtype=torch.bool)
    loss = negative_log_likelihood(emissions, lengths, transitions, everything)
    loss.backward()
    assert loss.item() == 0.0
    assert not emissions.grad.any()
    assert not transitions.grad.any()


def test_text_without_annotation_changes_nothing_for_the_others():
    emissions, lengths, transitions = chain([5, 3], 2)
    emissions.requires_grad_()
    allowed = torch.ones(8, 9, dtype=torch.bool)
    allowed[5:] = torch.nn.functional.one_hot(torch.tensor([1, 5, 0]), 9).bool()
    loss = negative_log_likelihood(emissions, lengths, transitions, allowed)
    loss.backward()
    alone = negative_log_likelihood(emissions[5:], lengths[1:], transitions, allowed[5:])
    assert loss.item() == pytest.approx(alone.item(), abs=1e-12)
    assert not emissions.grad[:5].any()
    assert emissions.grad[5:].abs().max() > 1e-2


def test_impossible_annotation_gives_a_huge_finite_loss():
    emissions, lengths, transitions = chain([2], 1)
    emissions.requires_grad_()
    allowed = torch.nn.functional.one_hot(torch.tensor([1, 0]), 5).bool()  # B then O
    loss = negative_log_likelihood(emissions, lengths, transitions, allowed)
    loss.backward()
    assert loss.item() > 1e8
    assert emissions.grad.isfinite().all()


@pytest.mark.parametrize("lengths", [[4], [2, 0, 3, 1]])
def test_gradients_by_finite_differences(lengths):
    emissions, lengths, transitions = chain(lengths, 2)
    emissions.requires_grad_()
    transitions.requires_grad_()
    assert torch.autograd.gradcheck(lambda e, t: log_partition(e, lengths, t), (emissions, transitions))
    allowed = torch.ones(emissions.shape, dtype=torch.bool)
    allowed[0] = False
    allowed[0, [0, 1]] = True
    assert torch.autograd.gradcheck(lambda e, t: negative_log_likelihood(e, lengths, t, allowed), (emissions, transitions))


def test_ragged_batch_equals_documents_alone():
    lengths = [3, 0, 7, 1, 7, 2, 0]
    emissions, n, transitions = chain(lengths, 3)
    emissions.requires_grad_()
    transitions.requires_grad_()
    together = log_partition(emissions, n, transitions)
    weights = torch.randn(len(lengths), dtype=torch.float64)
    (together * weights).sum().backward()
    grads = emissions.grad.clone(), transitions.grad.clone()
    emissions.grad = transitions.grad = None
    alone = [log_partition(part, torch.tensor([len(part)]), transitions) for part in emissions.split(lengths)]
    (torch.cat(alone) * weights).sum().backward()
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-10, rtol=0)
    torch.testing.assert_close(grads[0], emissions.grad, atol=1e-10, rtol=0)
    torch.testing.assert_close(grads[1], transitions.grad, atol=1e-10, rtol=0)
    assert together[1].item() == together[6].item() == 0.0


def test_batch_of_empty_documents():
    emissions, lengths, transitions = chain([0, 0], 2)
    emissions.requires_grad_()
    transitions.requires_grad_()
    assert log_partition(emissions, lengths, transitions).tolist() == [0.0, 0.0]
    loss = negative_log_likelihood(emissions, lengths, transitions, torch.zeros(0, 9, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0.0


def test_shifting_the_scores_of_a_token_changes_no_probability():
    emissions, lengths, transitions = chain([4], 2)
    shift = torch.tensor([[100.0], [-3.0], [0.5], [7.0]], dtype=torch.float64)
    torch.testing.assert_close(
        log_partition(emissions, lengths, transitions), log_partition(emissions + shift, lengths, transitions)
    )


def test_column_that_is_ruled_out():
    emissions, lengths, transitions = chain([3], 1)
    emissions[:, 1:] = NEVER
    allowed = torch.zeros(3, 5, dtype=torch.bool)
    allowed[:, 0] = True
    assert negative_log_likelihood(emissions, lengths, transitions, allowed).item() == pytest.approx(0.0, abs=1e-9)


def test_long_chain_in_float32():
    length = 1500  # 5,000 tokens: see test_span_scores.py
    emissions, lengths, transitions = chain([length, 3], 3, scale=4.0, dtype=torch.float32)
    emissions.requires_grad_()
    gold = torch.zeros(length + 3, dtype=torch.int64)
    gold[0:length:5] = 10  # a single-token entity now and then
    allowed = torch.nn.functional.one_hot(gold, 13).bool()
    loss = negative_log_likelihood(emissions, lengths, transitions, allowed)
    loss.backward()
    with torch.no_grad():
        exact = negative_log_likelihood(emissions.double(), lengths, transitions.double(), allowed)
    assert loss.isfinite()
    assert loss.item() == pytest.approx(exact.item(), rel=1e-5)
    # The gradient of an emission is a difference of two marginals; over the tags of a token it sums to 0.
    assert emissions.grad.isfinite().all()
    assert emissions.grad.abs().max() <= 1 + 1e-3
    torch.testing.assert_close(emissions.grad.sum(1), torch.zeros(length + 3), atol=1e-3, rtol=0)
