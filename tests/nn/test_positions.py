import math

import pytest
import torch

from spacy_attention.nn.positions import NoPositions, SinusoidalPositions, sinusoidal_table


@pytest.mark.parametrize("width", [1, 6, 7])
def test_table_equals_the_formula(width):
    table = sinusoidal_table(50, width)
    assert table.dtype == torch.float32
    for position in (0, 1, 17, 49):
        for column in range(width):
            angle = position / 10000 ** (2 * (column // 2) / width)
            expected = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert table[position, column].item() == pytest.approx(expected, abs=1e-5)


def test_sinusoidal_adds_the_same_table_to_every_document():
    X = torch.randn(2, 4, 6)
    Y = SinusoidalPositions(6)(X)
    table = sinusoidal_table(4, 6)
    for doc in range(2):
        torch.testing.assert_close(Y[doc] - X[doc], table, atol=1e-6, rtol=0)


def test_sinusoidal_keeps_the_number_format():
    assert SinusoidalPositions(4)(torch.zeros(1, 2, 4, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_no_positions_changes_nothing():
    X = torch.randn(2, 4, 6)
    assert NoPositions(6)(X) is X
