"""Turns, rates and intervals, with a clock of our own where seconds matter."""

import itertools

import pytest

from spacy_attention.evaluation import timing
from spacy_attention.evaluation.timing import median_interval, rate, speed_up, time_in_turns


def test_turns_alternate_and_the_first_does_not_count(monkeypatch):
    order = []
    ticks = itertools.count()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(ticks))
    seconds = time_in_turns([lambda: order.append("a"), lambda: order.append("b"), lambda: order.append("c")], rounds=3)
    assert "".join(order) == "cba" + "abc" + "cba" + "abc"
    assert seconds == [[1, 1, 1]] * 3


def test_rate_is_the_median_over_rounds():
    assert rate(12, [1.0, 2.0, 3.0])["value"] == 6.0


def test_ratio_is_paired_by_round():
    """The machine was ten times slower in the second round; both runs met it."""
    found = speed_up([2.0, 20.0, 2.0], [1.0, 10.0, 1.0])
    assert found == {"value": 2.0, "low": 2.0, "high": 2.0}


def test_rounds_of_different_number_are_refused():
    with pytest.raises(ValueError, match="zip"):
        speed_up([1.0], [1.0, 2.0])


def test_interval_by_hand():
    """Of three resampled values at least two are equal to the largest, or smallest, in 7 of 27 cases: more than 2.5 %."""
    assert median_interval([1.0, 2.0, 3.0]) == {"value": 2.0, "low": 1.0, "high": 3.0}
    assert median_interval([5.0]) == {"value": 5.0, "low": 5.0, "high": 5.0}


def test_interval_narrows_with_rounds():
    wide, narrow = median_interval([1.0, 2.0, 3.0, 4.0]), median_interval([1.0, 2.0, 3.0, 4.0] * 20)
    assert wide["low"] < narrow["low"] <= narrow["value"] <= narrow["high"] < wide["high"]


def test_same_seed_same_interval():
    values = [float(i * i % 17) for i in range(12)]
    assert median_interval(values, seed=1) == median_interval(values, seed=1)
