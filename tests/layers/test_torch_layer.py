"""One table that takes every torch layer through initialize, predict, backward and save."""

import functools
from typing import Any

import numpy
import pytest
import torch
from thinc.api import Adam, Model
from thinc.types import Ragged

from spacy_attention.layers.torch_layer import torch_layer
from spacy_attention.nn.encoder import build_encoder
from spacy_attention.nn.heads import ClassScores, TagScores

WIDTH = 6
ENCODER = dict(
    input_width=WIDTH, width=WIDTH, depth=1, heads=2, ff_width=12, activation="gelu", norm="pre", positions="none",
    attention="full", mask="bidirectional", identity=False,
)  # fmt: skip
TOKENS, DOCS = "tokens", "docs"
LAYERS = [
    # builder, sizes, shape of each output
    ("encoder", build_encoder, ENCODER, [(TOKENS, WIDTH)]),
    ("encoder-post", build_encoder, {**ENCODER, "norm": "post", "positions": "sinusoidal"}, [(TOKENS, WIDTH)]),
    ("encoder-causal", build_encoder, {**ENCODER, "mask": "causal"}, [(TOKENS, WIDTH)]),
    ("encoder-identity", build_encoder, {**ENCODER, "identity": True}, [(TOKENS, WIDTH)]),
    ("encoder-wider", build_encoder, {**ENCODER, "width": 8, "activation": "relu"}, [(TOKENS, 8)]),
    ("textcat-mean", functools.partial(ClassScores, pooling="mean"), {"width": WIDTH, "classes": 3}, [(DOCS, 3)]),
    ("textcat-max", functools.partial(ClassScores, pooling="max"), {"width": WIDTH, "classes": 3}, [(DOCS, 3)]),
    ("textcat-attention", functools.partial(ClassScores, pooling="attention"), {"width": WIDTH, "classes": 3}, [(DOCS, 3)]),
    ("ner", TagScores, {"width": WIDTH, "tags": 9, "states": 3}, [(TOKENS, 9), (3, 3)]),
]
BATCHES = {"usual": [3, 0, 1, 5], "one": [4], "empty": [0, 0]}
table = pytest.mark.parametrize(("name", "build", "sizes", "shapes"), LAYERS, ids=[layer[0] for layer in LAYERS])


def make_layer(name: str, build: Any, sizes: dict[str, Any], *, seed: int = 0, dropout: float = 0.0) -> Model[Ragged, Any]:
    torch.manual_seed(seed)
    layer = torch_layer(name, build, component="head", dropout=dropout)
    layer.shims[0].create(**sizes)
    layer.set_dim("nI", WIDTH)
    layer.initialize()
    return layer


def make_batch(lengths: list[int]) -> Ragged:
    rows = numpy.random.default_rng(0).normal(size=(sum(lengths), WIDTH)).astype("float32")
    return Ragged(rows, numpy.array(lengths, dtype="int32"))


def as_tuple(Y: Any) -> tuple:
    return Y if isinstance(Y, tuple) else (Y,)


@table
@pytest.mark.parametrize("batch", BATCHES)
def test_predict_update_and_backward(name, build, sizes, shapes, batch):
    layer = make_layer(name, build, sizes)
    X = make_batch(BATCHES[batch])
    counts = {TOKENS: len(X.dataXd), DOCS: len(X.lengths)}
    expected = [tuple(counts.get(size, size) for size in shape) for shape in shapes]
    predicted = as_tuple(layer.predict(X))
    Y, backprop = layer.begin_update(X)
    for y, again, shape in zip(as_tuple(Y), predicted, expected, strict=True):
        assert isinstance(y, numpy.ndarray)
        assert y.dtype == again.dtype == numpy.float32
        assert y.shape == again.shape == shape
        numpy.testing.assert_allclose(y, again, atol=1e-6)
    dY = tuple(numpy.ones_like(y) for y in as_tuple(Y))
    dX = backprop(dY if isinstance(Y, tuple) else dY[0])
    assert dX.dataXd.shape == X.dataXd.shape
    assert dX.dataXd.dtype == numpy.float32
    assert dX.lengths.tolist() == X.lengths.tolist()
    layer.finish_update(Adam(0.1))


@table
def test_gradient_of_the_input_by_finite_differences(name, build, sizes, shapes):
    layer = make_layer(name, build, sizes)
    X = make_batch(BATCHES["usual"])
    Y, backprop = layer.begin_update(X)
    random = numpy.random.default_rng(1)
    dY = tuple(random.normal(size=y.shape).astype("float32") for y in as_tuple(Y))
    dX = backprop(dY if isinstance(Y, tuple) else dY[0]).dataXd
    assert abs(dX).max() > 1e-2
    for row, column in [(0, 0), (2, 3), (3, 5), (8, 1)]:
        losses = []
        for step in (1e-2, -1e-2):
            rows = X.dataXd.copy()
            rows[row, column] += step
            outputs = as_tuple(layer.predict(Ragged(rows, X.lengths)))
            losses.append(sum(float((y.astype("float64") * dy).sum()) for y, dy in zip(outputs, dY, strict=True)))
        assert dX[row, column] == pytest.approx((losses[0] - losses[1]) / 2e-2, abs=5e-3)


@table
def test_save_and_load_into_another_seed(name, build, sizes, shapes):
    layer = make_layer(name, build, sizes)
    for parameter in layer.shims[0].module.parameters():
        torch.nn.init.normal_(parameter)
    X = make_batch(BATCHES["usual"])
    other = make_layer(name, build, sizes, seed=7)
    other.from_bytes(layer.to_bytes())
    for y, again in zip(as_tuple(layer.predict(X)), as_tuple(other.predict(X)), strict=True):
        numpy.testing.assert_array_equal(y, again)
    empty = torch_layer(name, build, component="head")
    empty.from_bytes(layer.to_bytes())
    numpy.testing.assert_array_equal(as_tuple(empty.predict(X))[0], as_tuple(layer.predict(X))[0])


@table
def test_same_seed_same_update(name, build, sizes, shapes):
    X = make_batch(BATCHES["usual"])
    states = []
    for _ in range(2):
        layer = make_layer(name, build, sizes)
        before = layer.to_bytes()
        Y, backprop = layer.begin_update(X)
        backprop(tuple(y + 1 for y in Y) if isinstance(Y, tuple) else Y + 1)
        layer.finish_update(Adam(0.1))
        states.append(layer.to_bytes())
        assert states[-1] != before
    assert states[0] == states[1]


@table
def test_dropout_in_updates_only(name, build, sizes, shapes):
    layer = make_layer(name, build, sizes, dropout=0.5)
    for parameter in layer.shims[0].module.parameters():
        torch.nn.init.normal_(parameter)
    X = make_batch(BATCHES["usual"])
    expected = as_tuple(layer.predict(X))[0]
    updates = [as_tuple(layer.begin_update(X)[0])[0] for _ in range(2)]
    assert not numpy.allclose(updates[0], updates[1])
    numpy.testing.assert_allclose(as_tuple(layer.predict(X))[0], expected, atol=1e-6)


def test_gradient_of_an_output_that_is_not_used():
    layer = make_layer("ner", TagScores, {"width": WIDTH, "tags": 9, "states": 3})
    (emissions, transitions), backprop = layer.begin_update(make_batch([2]))
    backprop((numpy.zeros_like(emissions), numpy.ones_like(transitions)))
    grads = {name: p.grad for name, p in layer.shims[0].module.named_parameters()}
    assert grads["transitions"].tolist() == [[1.0] * 3] * 3
    assert not grads["linear.weight"].any()
