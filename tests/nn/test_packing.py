import torch

from spacy_attention.nn.packing import pad_rows, unpad_rows


def test_padding_by_hand():
    rows = torch.tensor([[1.0], [2.0], [3.0]])
    batch, mask = pad_rows(rows, torch.tensor([1, 2]))
    assert batch.tolist() == [[[1.0], [0.0]], [[2.0], [3.0]]]
    assert mask.tolist() == [[True, False], [True, True]]


def test_there_and_back_with_gradient():
    rows = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([2, 1, 4])
    assert torch.equal(unpad_rows(*pad_rows(rows, lengths)), rows)
    assert torch.autograd.gradcheck(lambda x: unpad_rows(pad_rows(x, lengths)[0] ** 2, pad_rows(x, lengths)[1]), rows)


def test_no_documents():
    rows = torch.zeros(0, 3)
    batch, mask = pad_rows(rows, torch.zeros(0, dtype=torch.int64))
    assert batch.shape == (0, 0, 3)
    assert unpad_rows(batch, mask).shape == (0, 3)
