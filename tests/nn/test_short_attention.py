import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from spacy_attention.nn.packed_attention import Block, PackedAttention
from spacy_attention.nn.short_attention import LONGEST, ShortAttention

SHAPES = [(2, 5), (3, 1), (1, 7)]
HEADS, WIDTH, CELLS = 3, 8, 24  # four cells behind the blocks


def random_rows(cells: int = CELLS, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(cells, HEADS, WIDTH, generator=generator).to(dtype).requires_grad_() for _ in range(3)]


def attend_one_by_one(rows: list[torch.Tensor], bias: torch.Tensor) -> torch.Tensor:
    outputs, start = [], 0
    for windows, length in SHAPES:
        for _ in range(windows):
            q, k, v = (x[start : start + length].transpose(0, 1) for x in rows)
            mask = bias if length == 5 else None
            outputs.append(scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(0, 1))
            start += length
    return torch.cat([*outputs, torch.zeros(CELLS - start, HEADS, WIDTH)])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_values_and_gradients_are_those_of_each_window_alone(dtype, tolerance):
    rows, exact = random_rows(dtype=dtype), random_rows()
    bias = torch.tensor([0.0, 0.0, 0.0, 0.0, -1e9]).expand(5, 5)
    biases = [bias.expand(2, 1, 5, 5), None, None]
    found, expected = ShortAttention.apply(*rows, SHAPES, biases), attend_one_by_one(exact, bias)
    assert found.dtype is dtype
    torch.testing.assert_close(found.float(), expected, atol=tolerance, rtol=tolerance)
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    (found.float() * weights).sum().backward()
    (expected * weights).sum().backward()
    for row, other in zip(rows, exact, strict=True):
        torch.testing.assert_close(row.grad.float(), other.grad, atol=tolerance, rtol=tolerance)
        assert not row.grad[-4:].any()


def test_gradients_are_those_of_finite_differences():
    rows = [x.detach().double().requires_grad_() for x in random_rows()]
    bias = torch.tensor([0.0, 0.5, 0.0, -1.0, -1e9], dtype=torch.float64).expand(2, 1, 5, 5)
    assert torch.autograd.gradcheck(lambda *x: ShortAttention.apply(*x, SHAPES, [bias, None, None]), rows)


@pytest.fixture
def calls(monkeypatch):
    """How often the products were asked for."""
    made = []
    apply = ShortAttention.apply
    monkeypatch.setattr(ShortAttention, "apply", lambda *args: made.append(args) or apply(*args))
    return made


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("length", [LONGEST, LONGEST + 1])
def test_an_update_is_the_same_on_both_sides_of_the_limit(calls, length, dtype, tolerance):
    blocks, mask = [Block(2, length, True), Block(1, 3, False)], torch.ones(2 * length + 3, dtype=torch.int64)
    mask[length - 2 : length] = 0
    rows = [x.detach().transpose(0, 1)[None].requires_grad_() for x in random_rows(len(mask), dtype)]
    exact = [x.detach().float() for x in rows]
    wanted = mask.bool()
    with PackedAttention(blocks, mask), torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
        found = scaled_dot_product_attention(*rows)
    assert len(calls) == (length <= LONGEST)
    assert found.dtype is dtype
    # Padding asks as well, and its answers would teach the keys; nobody reads them.
    found[:, :, wanted].float().square().sum().backward()
    for start, n in ((0, length - 2), (length, length), (2 * length, 3)):
        part = [x[:, :, start : start + n].requires_grad_() for x in exact]
        expected = scaled_dot_product_attention(*part)
        slopes = torch.autograd.grad(expected.square().sum(), part)
        torch.testing.assert_close(found[:, :, start : start + n].float(), expected, atol=tolerance, rtol=tolerance)
        for x, slope in zip(rows, slopes, strict=True):
            torch.testing.assert_close(x.grad[:, :, start : start + n].float(), slope, atol=5 * tolerance, rtol=5 * tolerance)


def test_what_does_not_learn_goes_the_fused_way(calls):
    mask = torch.ones(6, dtype=torch.int64)
    rows = [x.detach().transpose(0, 1)[None].requires_grad_() for x in random_rows(6)]
    with PackedAttention([Block(2, 3, False)], mask):
        with torch.no_grad():
            scaled_dot_product_attention(*rows)
        scaled_dot_product_attention(*(x.detach() for x in rows))
        scaled_dot_product_attention(*rows, dropout_p=0.1)
        assert not calls
        scaled_dot_product_attention(*rows)
    assert len(calls) == 1
