import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_attention.layers.grouping import Passes, cheapest_cuts, group_documents, pad_lengths, plan_passes

some_lengths = st.lists(st.integers(1, 40), max_size=14)


def passes(**changed) -> Passes:
    return Passes(**{"longest": 64, "budget": 100, "packed": True, "block_cost": 5.0, "crooked_cost": 0.2, **changed})


def cost(lengths, cuts, block_cost: float) -> float:
    return sum(lengths[start] * (end - start) + block_cost for start, end in cuts)


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=8), block_cost=st.integers(0, 12))
def test_no_other_cuts_are_cheaper(lengths, block_cost):
    falling = numpy.array(sorted(lengths, reverse=True))
    found = cheapest_cuts(falling, passes(budget=1000, block_cost=block_cost))
    assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
    inner = range(1, len(falling))
    best = min(
        cost(falling, list(zip([0, *chosen], [*chosen, len(falling)], strict=True)), block_cost)
        for mask in range(2 ** len(inner))
        for chosen in [[cut for i, cut in enumerate(inner) if mask >> i & 1]]
    )
    assert cost(falling, found, block_cost) == best


@settings(max_examples=100, deadline=None)
@given(lengths=some_lengths, budget=st.integers(1, 120), packed=st.booleans())
def test_passes_hold_each_window_once_within_the_budget(lengths, budget, packed):
    plan = plan_passes(numpy.array(lengths, dtype="int64"), passes(budget=budget, packed=packed))
    assert sorted(i for groups in plan for group in groups for i in group.members) == list(range(len(lengths)))
    for groups in plan:
        n_windows = sum(len(group.members) for group in groups)
        assert n_windows == 1 or sum(len(group.members) * group.length for group in groups) <= budget
        assert packed or len(groups) == 1
        for group in groups:
            assert group.length == max(lengths[i] for i in group.members)


@pytest.mark.parametrize(
    ("changed", "sizes"),
    [
        ({"budget": 1000, "block_cost": 100.0}, [[6]]),  # padding is cheaper than blocks
        ({"budget": 1000, "block_cost": 0.0}, [[1, 2, 1, 1, 1]]),
        ({"budget": 12, "block_cost": 0.0}, [[1], [2, 1], [1, 1]]),  # 12 | 4 4 3 | 2 1
        ({"budget": 1000, "block_cost": 0.0, "packed": False}, [[1], [2], [1], [1], [1]]),
        ({"budget": 1}, [[1]] * 6),
    ],
)
def test_plans_by_hand(changed, sizes):
    plan = plan_passes(numpy.array([4, 12, 3, 4, 1, 2]), passes(**changed))
    assert [[len(group.members) for group in groups] for groups in plan] == sizes
    assert plan[0][0].members[0] == 1


def test_lengths_are_rounded_up_where_that_is_cheap():
    lengths = numpy.array([1, 13, 14, 16, 17, 31, 60, 63])
    assert pad_lengths(lengths, passes()).tolist() == [1, 13, 16, 16, 17, 32, 64, 64]
    assert pad_lengths(lengths, passes(longest=63)).tolist() == [1, 13, 16, 16, 17, 32, 63, 63]
    assert pad_lengths(lengths, passes(crooked_cost=0.0)).tolist() == lengths.tolist()


@given(lengths=st.lists(st.integers(0, 50), max_size=20), limit=st.integers(1, 60))
def test_documents_are_grouped_by_length_within_the_limit(lengths, limit):
    groups = group_documents(lengths, limit)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or sum(lengths[i] for i in group) <= limit
    order = [lengths[i] for group in groups for i in group]
    assert order == sorted(order, reverse=True)
