"""What an optimizer remembers comes back in another process, for each kind of weight."""

from types import SimpleNamespace

import numpy
import pytest
import torch
from thinc.api import Adam, Linear, PyTorchWrapper, chain, fix_random_seed
from torch import nn

from spacy_attention.training.guard import GradientWatch
from spacy_attention.training.moments import read_moments, write_moments
from spacy_attention.training.optimizer import create_adamw
from spacy_attention.training.weights import weight_names

OPTIMIZERS = {"AdamW.v1": lambda: create_adamw(0.05, use_averages=True), "Adam.v1": lambda: Adam(0.05, use_averages=True)}


def make_pipeline():
    """One component of a Thinc layer and a torch module in Thinc's own shim, as stock components have it."""
    fix_random_seed(0)
    model = chain(Linear(2, 2), PyTorchWrapper(nn.Linear(2, 2)))
    model.initialize(X=numpy.ones((1, 2), dtype="float32"))
    pipe = SimpleNamespace(model=model)
    return SimpleNamespace(components=[("stock", pipe)], get_pipe=lambda name: pipe), model


def step(model, optimizer, seed):
    _, backprop = model.begin_update(numpy.random.default_rng(seed).normal(size=(4, 2)).astype("float32"))
    backprop(numpy.random.default_rng(seed + 1).normal(size=(4, 2)).astype("float32"))
    model.finish_update(optimizer)
    optimizer.step_schedules()


def weights(model):
    linear, wrapper = model.layers
    return [linear.get_param("W").copy(), *(p.detach().numpy().copy() for p in wrapper.shims[0]._model.parameters())]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_thincs_own_shim_for_torch(name):
    nlp, model = make_pipeline()
    optimizer = OPTIMIZERS[name]()
    for seed in range(3):
        step(model, optimizer, seed)
    again, copied = make_pipeline()
    copied.from_bytes(model.to_bytes())
    other = OPTIMIZERS[name]()
    write_moments(other, weight_names(again), read_moments(optimizer, weight_names(nlp)))
    step(model, optimizer, 7)
    step(copied, other, 7)
    for one, expected in zip(weights(copied), weights(model), strict=True):
        numpy.testing.assert_array_equal(one, expected)
    names, others = weight_names(nlp), weight_names(again)
    averages = {names[key]: value for key, value in optimizer.averages.items()}
    assert len(averages) == 4
    for key, value in other.averages.items():
        numpy.testing.assert_array_equal(value, averages[others[key]])


def test_weights_that_no_component_shows():
    nlp, model = make_pipeline()
    optimizer = Adam(0.05)
    step(model, optimizer, 0)
    optimizer(("elsewhere", "lost"), numpy.ones(2, dtype="float32"), numpy.ones(2, dtype="float32"))
    with pytest.raises(ValueError, match=r"E626.*1 weights.*lost.*spacy train"):
        read_moments(optimizer, weight_names(nlp))


def test_weights_that_the_pipeline_has_lost():
    nlp, model = make_pipeline()
    optimizer = Adam(0.05)
    step(model, optimizer, 0)
    names = weight_names(nlp)
    moments = read_moments(optimizer, names)
    lost = {key: name for key, name in names.items() if not name.endswith("/W")}
    with pytest.raises(ValueError, match=r"E633.*1 weights.*stock/1/W"):
        write_moments(Adam(0.05), lost, moments)


def test_gradients_that_cannot_be_seen_are_not_missed(recwarn):
    nlp, model = make_pipeline()
    watch = GradientWatch(["stock"])
    for n in range(52):
        watch.look(nlp, n)
    assert not recwarn.list
    assert not any(p.grad is not None and torch.any(p.grad) for p in model.layers[1].shims[0]._model.parameters())
