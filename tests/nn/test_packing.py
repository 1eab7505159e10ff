import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_attention.nn.packing import group_rows, pad_rows, unpad_rows


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


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(0, 9), max_size=12), budget=st.integers(1, 40))
def test_groups_hold_every_row_once_within_the_budget(lengths, budget):
    groups = group_rows(torch.tensor(lengths, dtype=torch.int64), budget)
    assert sorted(row for rows, _ in groups for row in rows.tolist()) == list(range(sum(lengths)))
    offsets = [sum(lengths[:i]) for i in range(len(lengths))]
    spans = {(offset, length) for offset, length in zip(offsets, lengths, strict=True) if length}
    for rows, group in groups:
        assert len(group) == 1 or len(group) * int(group.max()) <= budget
        assert int(group.min()) > 0
        # The rows of each document stand together and in order.
        for part in rows.split(group.tolist()):
            start = int(part[0])
            assert part.tolist() == list(range(start, start + len(part)))
            assert (start, len(part)) in spans
