import math

import numpy
import pytest
import torch
from torch.nn.functional import cross_entropy

from spacy_attention.nn.calibration import COLDEST, best_threshold, brier_score, expected_calibration_error, fit_temperature


def test_error_by_hand():
    # Two bins of two: 0.1 and 0.3 with one right, 0.8 and 1.0 with both right.
    probabilities, right = numpy.array([0.8, 0.1, 1.0, 0.3]), numpy.array([1.0, 0.0, 1.0, 1.0])
    expected = (2 * abs(0.2 - 0.5) + 2 * abs(0.9 - 1.0)) / 4
    assert expected_calibration_error(probabilities, right, bins=2) == pytest.approx(expected)
    assert brier_score(probabilities, right) == pytest.approx((0.04 + 0.01 + 0.0 + 0.49) / 4)


def test_error_of_what_is_right_and_of_what_is_too_sure():
    generator = numpy.random.default_rng(0)
    probabilities = generator.uniform(0.5, 1.0, 20_000)
    right = (generator.uniform(size=20_000) < probabilities).astype(float)
    assert expected_calibration_error(probabilities, right) < 0.01
    assert expected_calibration_error(numpy.ones(20_000), right) == pytest.approx(1 - right.mean())


def test_no_more_bins_than_predictions():
    assert expected_calibration_error(numpy.array([0.5, 0.7]), numpy.array([1.0, 0.0])) == pytest.approx((0.5 + 0.7) / 2)
    assert expected_calibration_error(numpy.zeros(0), numpy.zeros(0)) is None
    assert brier_score(numpy.zeros(0), numpy.zeros(0)) is None


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.5])
def test_temperature_is_found_again(temperature):
    torch.manual_seed(0)
    logits = 2 * torch.randn(20_000, 4, dtype=torch.float64)
    target = torch.multinomial(logits.softmax(-1), 1)[:, 0]
    found = fit_temperature(lambda t: [cross_entropy(temperature * logits / t, target, reduction="sum")])
    assert found == pytest.approx(temperature, rel=0.05)


def test_temperature_has_limits():
    logits = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    assert fit_temperature(lambda t: [cross_entropy(logits / t, torch.tensor([0]))]) == pytest.approx(COLDEST, rel=1e-3)
    assert fit_temperature(lambda t: [cross_entropy(logits / t, torch.tensor([1]))]) == pytest.approx(1 / COLDEST, rel=1e-3)
    assert fit_temperature(lambda t: [0.0 * t]) == 1.0


def test_threshold_by_hand():
    right = numpy.array([1, 0, 1, 0, 0], bool)
    # F1 for a cut after each, by descending probability: 2/3, 1/2, 4/5, 2/3, 4/7.
    probabilities = numpy.array([0.3, 0.2, 0.1, 0.05, 0.01])
    assert best_threshold(probabilities, right) == pytest.approx(0.075)
    assert best_threshold(probabilities, ~right | right) == pytest.approx(0.005)
    assert best_threshold(probabilities, right & False) is None


def test_threshold_does_not_divide_equal_probabilities():
    probabilities = numpy.array([0.9, 0.4, 0.4, 0.4])
    right = numpy.array([1, 1, 0, 0], bool)
    # A cut within the three would be best; of those that are possible, after the first: 2/3, after all: 4/6. The closer to one half wins.
    assert best_threshold(probabilities, right) == pytest.approx(0.65)
    assert 0.0 < best_threshold(numpy.array([0.4]), numpy.array([True])) < 0.4


def test_threshold_reaches_the_best_f_score_of_all_cuts():
    generator = numpy.random.default_rng(1)
    for _ in range(20):
        right = generator.uniform(size=30) < 0.3
        probabilities = generator.uniform(size=30).round(1) * 0.9 + 0.05
        if not right.any():
            continue

        def f_score(threshold, right=right, probabilities=probabilities):
            predicted = probabilities >= threshold
            return 2 * (predicted & right).sum() / (predicted.sum() + right.sum())

        best = max(f_score(cut) for cut in [*probabilities, math.inf])
        assert f_score(best_threshold(probabilities, right)) == pytest.approx(best)


def test_what_is_no_number_is_not_judged():
    nothing, right = numpy.array([0.5, math.nan]), numpy.array([True, False])
    assert expected_calibration_error(nothing, right.astype(float)) is None
    assert brier_score(nothing, right.astype(float)) is None
    assert best_threshold(nothing, right) is None
    assert fit_temperature(lambda t: [t * math.nan]) == 1.0


def test_threshold_between_two_that_are_very_close():
    found = best_threshold(numpy.array([0.9999999, 0.9999996]), numpy.array([True, False]))
    assert 0.9999996 < found <= 0.9999999
