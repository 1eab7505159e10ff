import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from spacy_attention.nn.packed_attention import Block, PackedAttention

BLOCKS = [Block(2, 5, True), Block(1, 3, False), Block(3, 1, False)]
LENGTHS = [5, 3, 3, 1, 1, 1]  # of the second window of the first block two cells are padding
HEADS, WIDTH, CELLS = 2, 4, 16


@pytest.fixture
def mask():
    mask = torch.ones(CELLS, dtype=torch.int64)
    mask[8:10] = 0
    return mask


def random_row() -> torch.Tensor:
    return torch.randn(1, CELLS, HEADS, WIDTH, generator=torch.Generator().manual_seed(0)).transpose(1, 2)


def test_attention_stays_within_windows(mask):
    query, key, value = random_row(), random_row() + 1, random_row() * 2
    with PackedAttention(BLOCKS, mask):
        found = scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0)
        assert torch.equal(torch.ones(2) + 1, torch.tensor([2.0, 2.0]))  # all else is left alone
    assert found.shape == query.shape
    for start, length in zip([0, 5, 10, 13, 14, 15], LENGTHS, strict=True):
        part = slice(start, start + length)
        expected = scaled_dot_product_attention(query[:, :, part], key[:, :, part], value[:, :, part])
        torch.testing.assert_close(found[:, :, part], expected, atol=1e-6, rtol=0)


def test_gradients_come_back_from_every_window(mask):
    row = random_row().requires_grad_()
    with PackedAttention(BLOCKS, mask):
        found = scaled_dot_product_attention(row, row, row)
    wanted = mask.bool()
    found[:, :, wanted].square().sum().backward()
    assert (row.grad[:, :, wanted].abs().sum((0, 1, 3)) > 0).all()
    assert not row.grad[:, :, ~wanted].any()


def test_what_stands_behind_the_blocks_is_left_out(mask):
    row, blocks = random_row().requires_grad_(), BLOCKS[:2]
    filled = sum(block.cells for block in blocks)
    with PackedAttention(blocks, mask):
        found = scaled_dot_product_attention(row, row, row)
    with PackedAttention(blocks, mask[:filled]):
        expected = scaled_dot_product_attention(*[row[:, :, :filled]] * 3)
    torch.testing.assert_close(found[:, :, :filled], expected, atol=1e-6, rtol=0)
    assert not found[:, :, filled:].any()
    found.sum().backward()
    assert not row.grad[:, :, filled:].any()


def test_options_are_handed_on(mask):
    row = random_row()
    with PackedAttention([Block(1, CELLS, False)], mask):
        found = scaled_dot_product_attention(row, row, row, is_causal=True)
    torch.testing.assert_close(found, scaled_dot_product_attention(row, row, row, is_causal=True))


def test_learns_in_float32_under_autocast(mask):
    row = random_row().to(torch.bfloat16)
    narrow, exact = row.clone().requires_grad_(), row.float().requires_grad_()
    with PackedAttention(BLOCKS, mask), torch.autocast("cpu", torch.bfloat16):
        found = scaled_dot_product_attention(narrow, narrow, narrow, dropout_p=0.0)
    with PackedAttention(BLOCKS, mask):
        expected = scaled_dot_product_attention(exact, exact, exact, dropout_p=0.0)
    assert torch.equal(found, expected.to(torch.bfloat16))
    found.float().sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(narrow.grad.float(), exact.grad, atol=1e-2, rtol=1e-2)
