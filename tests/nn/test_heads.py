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
