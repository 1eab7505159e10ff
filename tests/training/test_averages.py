import numpy
import pytest
import torch
from thinc.api import NumpyOps, Optimizer
from torch import nn

from spacy_attention.training.averages import update_averages
from spacy_attention.training.optimizer import create_adamw
from spacy_attention.types import ParameterKey

from .test_optimizer import Pipeline, assert_same, draw_gradients, replace_thinc, replace_torch


def averages_of(pipeline: Pipeline, optimizer: Optimizer) -> dict[str, numpy.ndarray]:
    with pipeline.shim.use_params(optimizer.averages), pipeline.thinc.use_params(optimizer.averages):
        return pipeline.values()


def take_steps(pipeline: Pipeline, optimizer: Optimizer, gradients: list[dict]) -> list[dict[str, numpy.ndarray]]:
    """RETURNS the weights after each step."""
    seen = []
    for step in gradients:
        pipeline.collect(optimizer, step)
        optimizer.step_schedules()
        seen.append(pipeline.values())
    return seen


def by_hand(seen: list[dict[str, numpy.ndarray]]) -> dict[str, numpy.ndarray]:
    """Of four steps: the weights of the first, then a decay of 3 / 12, 4 / 13 and 5 / 14."""
    averages = {}
    for name in seen[0]:
        second = 3 / 12 * seen[0][name] + 9 / 12 * seen[1][name]
        third = 4 / 13 * second + 9 / 13 * seen[2][name]
        averages[name] = 5 / 14 * third + 9 / 14 * seen[3][name]
    return averages


def test_averages_by_hand_of_torch_and_thinc_weights():
    pipeline, optimizer = Pipeline(), create_adamw(0.05, use_averages=True)
    seen = take_steps(pipeline, optimizer, draw_gradients(pipeline, 4))
    expected = by_hand(seen)
    assert_same(averages_of(pipeline, optimizer), expected)
    assert all(abs(expected[name] - seen[-1][name]).max() > 0.005 for name in expected)
    assert all((pipeline.values()[name] == seen[-1][name]).all() for name in seen[-1])


def test_averages_after_the_first_step_are_the_weights():
    pipeline, optimizer = Pipeline(), create_adamw(0.05, use_averages=True)
    (after,) = take_steps(pipeline, optimizer, draw_gradients(pipeline, 1))
    assert_same(averages_of(pipeline, optimizer), after)


def test_decay_is_that_of_thinc():
    """Thinc begins with zeros: it lacks the first weights, to the share that is left of the beginning after all decays."""
    random = numpy.random.default_rng(0)
    seen = [random.normal(size=(2, 3)).astype("float32") for _ in range(6)]
    key, averages, steps = (1, "W"), {}, {(1, "W"): 0}
    theirs, left = numpy.zeros((2, 3), dtype="float32"), 1.0
    for t, weights in enumerate(seen, start=1):
        update_averages(averages, steps, {key: torch.from_numpy(weights)})
        NumpyOps().update_averages(theirs, weights, t)
        left *= (1 + t) / (10 + t)
    numpy.testing.assert_allclose(averages[key], theirs + left * seen[0], atol=1e-6)


def test_decay_has_a_limit():
    averages, steps = {(1, "W"): numpy.zeros(1, dtype="float32")}, {(1, "W"): 10**6}
    update_averages(averages, steps, {(1, "W"): torch.ones(1)})
    assert averages[1, "W"][0] == pytest.approx(1e-4, rel=1e-3)


def test_weight_that_skips_a_step_counts_its_own_steps():
    optimizer = create_adamw(0.1, use_averages=True)
    parameters = {name: nn.Parameter(torch.ones(2)) for name in ("a", "b")}
    seen: dict[str, list[torch.Tensor]] = {"a": [], "b": []}
    for step in range(4):
        for name, parameter in parameters.items():
            if step != 1 or name == "a":
                parameter.grad = torch.ones(2)
                optimizer.collect_parameter(ParameterKey(1, name, "head", 0), parameter)
        optimizer.step_schedules()
        for name, parameter in parameters.items():
            if step != 1 or name == "a":
                seen[name].append(parameter.detach().clone())
    assert optimizer.nr_update == {(1, "a"): 4, (1, "b"): 3}
    second = 3 / 12 * seen["b"][0] + 9 / 12 * seen["b"][1]
    expected = 4 / 13 * second + 9 / 13 * seen["b"][2]
    numpy.testing.assert_allclose(optimizer.averages[1, "b"], expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("replace", [replace_torch, replace_thinc])
def test_averages_go_on_with_weights_that_were_replaced(replace):
    pipeline, optimizer = Pipeline(), create_adamw(0.05, use_averages=True)
    gradients = draw_gradients(pipeline, 4)
    seen = take_steps(pipeline, optimizer, gradients[:2])
    replace(pipeline)
    seen += take_steps(pipeline, optimizer, gradients[2:])
    assert_same(averages_of(pipeline, optimizer), by_hand(seen))


def test_steps_are_the_same_with_and_without_averages():
    ends = []
    for use_averages in (False, True):
        pipeline, optimizer = Pipeline(), create_adamw(0.05, use_averages=use_averages)
        for step in draw_gradients(pipeline, 4):
            take_steps(pipeline, optimizer, [step])
            if use_averages:
                averages_of(pipeline, optimizer)
        ends.append(pipeline.values())
    assert all((ends[0][name] == ends[1][name]).all() for name in ends[0])


def test_no_averages_unless_asked_for():
    pipeline, optimizer = Pipeline(), create_adamw(0.05)
    take_steps(pipeline, optimizer, draw_gradients(pipeline, 2))
    assert optimizer.averages is None
    assert not optimizer.nr_update
