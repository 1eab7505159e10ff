import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_attention.nn.time_major import time_major


def test_walks_all_documents_side_by_side_longest_first():
    rows, active, order = time_major(torch.tensor([2, 0, 3, 1]))
    assert order.tolist() == [2, 0, 3, 1]
    assert active == [3, 2, 1]
    # Packed rows: 0-1 the first document, 2-4 the third, 5 the fourth.
    assert rows.tolist() == [2, 0, 5, 3, 1, 4]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=6))
def test_every_row_comes_once_and_in_the_order_of_its_document(lengths):
    rows, active, order = time_major(torch.tensor(lengths, dtype=torch.int64))
    assert sorted(rows.tolist()) == list(range(sum(lengths)))
    assert active == [sum(length > t for length in lengths) for t in range(max(lengths, default=0))]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    expected = [starts[d] + t for t in range(len(active)) for d in order.tolist() if lengths[d] > t]
    assert rows.tolist() == expected


@pytest.mark.parametrize("lengths", [[], [0, 0]])
def test_nothing_to_walk(lengths):
    rows, active, _ = time_major(torch.tensor(lengths, dtype=torch.int64))
    assert rows.tolist() == []
    assert active == []
