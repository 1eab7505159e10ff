import pytest
import torch
from torch import nn
from torch.nn import functional as F

from spacy_attention.nn import scaled_dot_product_attention
from spacy_attention.nn.attention import MultiHeadAttention, full_attention


def random_mask(lengths: list[int]) -> torch.Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def test_hand_computed_weights_and_output():
    Q = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    V = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    output, weights = scaled_dot_product_attention(Q, Q, V)
    torch.testing.assert_close(weights[0], torch.tensor([0.401, 0.198, 0.401]), atol=1e-3, rtol=0)
    torch.testing.assert_close(output[0], torch.tensor([0.802, 0.797]), atol=1e-3, rtol=0)
    # Row 3 by hand: scores 1, 1, 2 over sqrt(2).
    e1, e2 = torch.tensor(1 / 2**0.5).exp(), torch.tensor(2 / 2**0.5).exp()
    by_hand = torch.stack([e1, e1, e2]) / (2 * e1 + e2)
    torch.testing.assert_close(weights[2], by_hand, atol=1e-6, rtol=0)


def test_far_apart_scores_give_one_hot_weights():
    key = torch.tensor([[8.0], [16.0], [24.0]])
    _, weights = scaled_dot_product_attention(torch.ones(1, 1), key, torch.eye(3))
    torch.testing.assert_close(weights, torch.tensor([[0.0, 0.0, 1.0]]), atol=4e-4, rtol=0)
    assert weights[0, 1] > 3e-4  # the bound is tight: e^-8


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "random"])
def test_equals_torch_kernel(kind):
    torch.manual_seed(0)
    query, key = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4)
    value = torch.randn(2, 3, 7, 6)
    mask = {
        "none": None,
        "padding": random_mask([7, 3])[:, None, None, :],
        "causal": torch.ones(5, 7, dtype=torch.bool).tril(),
        "random": torch.rand(2, 1, 5, 7) < 0.5,
    }[kind]
    if kind == "random":
        mask[..., 0] = True
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(output, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5), atol=1e-6, rtol=0)
    if mask is not None:
        assert not weights.masked_select(~mask.expand_as(weights)).any()


def test_query_that_sees_nothing_gets_zeros():
    X = torch.randn(2, 3, requires_grad=True)
    mask = torch.tensor([[False, False], [True, True]])
    output, weights = scaled_dot_product_attention(X, X, X, mask)
    assert not weights[0].any()
    assert not output[0].any()
    assert weights[1].sum().item() == pytest.approx(1.0)


def test_dropout_zeroes_weights_and_rescales_the_rest():
    torch.manual_seed(0)
    X = torch.randn(40, 4)
    _, kept = scaled_dot_product_attention(X, X, X)
    _, dropped = scaled_dot_product_attention(X, X, X, dropout=0.5)
    zero = dropped == 0
    assert 0.4 < zero.float().mean() < 0.6
    torch.testing.assert_close(dropped[~zero], 2 * kept[~zero])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [[6, 6], [6, 2]])
def test_full_attention_equals_the_written_out_one(lengths, causal):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 2, 6, 4).unbind(0)
    mask = random_mask(lengths)
    visible = mask[:, None, None, :].expand(2, 1, 6, 6)
    if causal:
        visible = visible & torch.ones(6, 6, dtype=torch.bool).tril()
    Y = full_attention(query, key, value, mask, 0.0, causal)
    expected, _ = scaled_dot_product_attention(query, key, value, visible)
    rows = mask[:, None, :].expand(2, 2, 6)
    torch.testing.assert_close(Y[rows], expected[rows], atol=1e-6, rtol=0)


def pair(width: int = 12, heads: int = 3, **kwargs) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    torch.manual_seed(1)
    ours = MultiHeadAttention(width, heads, **kwargs)
    theirs = nn.MultiheadAttention(width, heads, batch_first=True)
    theirs.in_proj_weight.data.copy_(ours.project_in.weight)
    theirs.in_proj_bias.data.copy_(ours.project_in.bias)
    theirs.out_proj.weight.data.copy_(ours.project_out.weight)
    theirs.out_proj.bias.data.copy_(ours.project_out.bias)
    return ours, theirs


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [[5, 5, 5], [5, 1, 3]])
def test_multi_head_parity_with_torch(lengths, causal, train):
    ours, theirs = pair(causal=causal)
    ours.train(train)
    theirs.train(train)
    mask = random_mask(lengths)
    X1 = torch.randn(3, 5, 12, requires_grad=True)
    X2 = X1.detach().clone().requires_grad_()
    future = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    Y1 = ours(X1, mask)
    Y2, _ = theirs(X2, X2, X2, key_padding_mask=~mask, attn_mask=future)
    torch.testing.assert_close(Y1[mask], Y2[mask], atol=1e-5, rtol=0)
    dY = torch.randn_like(Y1) * mask[..., None]
    Y1.backward(dY)
    Y2.backward(dY)
    torch.testing.assert_close(X1.grad, X2.grad, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.project_in.weight.grad, theirs.in_proj_weight.grad, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.project_in.bias.grad, theirs.in_proj_bias.grad, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.project_out.weight.grad, theirs.out_proj.weight.grad, atol=1e-5, rtol=0)
    assert ours.project_in.weight.grad.abs().max() > 1e-3


def test_dropout_works_in_training_only():
    ours, _ = pair(dropout=0.5)
    X, mask = torch.randn(1, 8, 12), torch.ones(1, 8, dtype=torch.bool)
    ours.train()
    assert not torch.equal(ours(X, mask), ours(X, mask))
    ours.eval()
    assert torch.equal(ours(X, mask), ours(X, mask))


def test_width_that_heads_do_not_divide():
    with pytest.raises(ValueError, match=r"E203\] Width 10 .* 3 attention"):
        MultiHeadAttention(10, 3)
