import pytest
import torch

from spacy_attention.nn.heads import ClassScores, TagScores
from spacy_attention.nn.pooling import POOLINGS

LENGTHS = torch.tensor([2, 0, 3])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_class_scores_are_linear_in_the_pooled_vector(pooling):
    torch.manual_seed(0)
    rows = torch.randn(5, 4)
    head = ClassScores(4, 3, pooling).eval()
    expected = head.pooling(rows, LENGTHS) @ head.linear.weight.T + head.linear.bias
    torch.testing.assert_close(head(rows, LENGTHS), expected)
    torch.testing.assert_close(head(rows, LENGTHS)[1], head.linear.bias)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_bfloat16_loses_nothing_in_long_documents(pooling):
    # A sum kept in bfloat16 would stop at 256 ones, and the mean of 5,000 near 0.05.
    head = ClassScores(2, 2, pooling).to(torch.bfloat16).eval()
    torch.nn.init.ones_(head.linear.weight)
    torch.nn.init.zeros_(head.linear.bias)
    Y = head(torch.ones(5001, 2), torch.tensor([5000, 1]))
    assert Y.dtype == torch.bfloat16
    assert Y.tolist() == [[2.0, 2.0]] * 2


def test_tag_scores_are_linear_in_each_token():
    torch.manual_seed(0)
    rows = torch.randn(5, 4)
    head = TagScores(4, 9, 3).eval()
    emissions, transitions = head(rows, LENGTHS)
    torch.testing.assert_close(emissions, rows @ head.linear.weight.T + head.linear.bias)
    assert transitions.shape == (3, 3)
    assert not transitions.any()


@pytest.mark.parametrize("head", [ClassScores(4, 3, "mean"), TagScores(4, 9, 3)])
def test_dropout_in_training_only(head):
    head.dropout.p = 0.5
    rows = torch.randn(5, 4)

    def run():
        Y = head(rows, LENGTHS)
        return Y[0] if isinstance(Y, tuple) else Y

    head.train()
    assert not torch.equal(run(), run())
    head.eval()
    assert torch.equal(run(), run())
