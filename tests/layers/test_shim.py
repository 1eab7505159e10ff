import copy

import numpy
import pytest
import srsly
import torch
from safetensors.torch import save
from thinc.api import Adam, Model
from torch import nn

from spacy_attention.layers.shim import TorchShim, load_strictly
from spacy_attention.training.optimizer import create_adamw


class Net(nn.Module):
    """Two layers with dropout between them, and a count of the module's modes."""

    def __init__(self, width: int, n_out: int = 2):
        super().__init__()
        self.first = nn.Linear(width, 8)
        self.dropout = nn.Dropout(0.0)
        self.second = nn.Linear(8, n_out)
        self.modes: list[bool] = []

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        self.modes.append(self.training)
        return self.second(self.dropout(self.first(X.to(self.first.bias.dtype)).tanh()))


def make_shim(precision: str = "float32", *, component: str = "head", **sizes) -> TorchShim:
    torch.manual_seed(0)
    shim = TorchShim(Net, component=component, precision=precision)
    shim.create(**{"width": 3, **sizes})
    return shim


X = torch.linspace(-1, 1, 15).reshape(5, 3)


def step(shim: TorchShim, optimizer) -> float:
    """One step towards zero outputs. RETURNS the loss before it."""
    Y, backprop = shim.begin_update(X)
    backprop(Y.detach())
    shim.finish_update(optimizer)
    optimizer.step_schedules()
    return float((Y.detach() ** 2).sum()) / 2


def test_without_weights():
    shim = TorchShim(Net, component="head")
    assert not shim.ready
    with pytest.raises(ValueError, match="E105"):
        shim.predict(X)
    shim.finish_update(Adam(0.1))
    assert not TorchShim(Net, component="head").from_bytes(shim.to_bytes()).ready
    assert not shim.copy().ready


@pytest.mark.parametrize("was_training", [False, True])
def test_modes_are_restored(was_training):
    shim = make_shim()
    shim.module.train(was_training)
    shim.begin_update(X)
    assert shim.module.training is was_training
    shim.module.eval()
    shim.predict(X)
    assert not shim.module.training
    assert shim.module.modes == [True, False]
    assert not shim.module.dropout.training


def test_mode_is_restored_after_an_error():
    shim = make_shim()
    with pytest.raises(RuntimeError):
        shim.begin_update(X[:, :2])
    assert not shim.module.training


def test_dropout_in_updates_only():
    shim = make_shim()
    expected = shim.predict(X)
    first, _ = shim.begin_update(X, dropout=0.5)
    second, _ = shim.begin_update(X, dropout=0.5)
    assert not torch.equal(first, second)
    torch.testing.assert_close(shim.predict(X), expected)
    without, _ = shim.begin_update(X, dropout=0.0)
    torch.testing.assert_close(without.detach(), expected)
    shim.module.dropout.p = 0.5
    kept, _ = shim.begin_update(X, dropout=None)
    assert not torch.equal(kept, expected)


def test_predict_keeps_no_graph_and_gradients_equal_torch():
    shim = make_shim()
    assert not shim.predict(X).requires_grad
    inputs = X.clone().requires_grad_()
    Y, backprop = shim.begin_update(inputs)
    dY = torch.randn_like(Y)
    backprop(dY)
    reference = make_shim().module
    inputs_2 = X.clone().requires_grad_()
    reference(inputs_2).backward(dY)
    torch.testing.assert_close(inputs.grad, inputs_2.grad)
    for ours, theirs in zip(shim.module.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_gradients_of_two_batches_add_up():
    shim = make_shim()
    for part in (X[:2], X[2:]):
        Y, backprop = shim.begin_update(part)
        backprop(Y.detach())
    whole = make_shim()
    Y, backprop = whole.begin_update(X)
    backprop(Y.detach())
    for ours, theirs in zip(shim.module.parameters(), whole.module.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=0)


def test_tuples_in_and_out():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, groups, lengths):
            return self.linear(groups[0][0].to(self.linear.bias.dtype)), lengths * 2

    shim = TorchShim(Two, component="head", precision="bfloat16")
    shim.create()
    Y, lengths = shim.predict([(X,)], torch.tensor([5]))
    assert Y.dtype == torch.float32
    assert lengths.dtype == torch.int64
    assert lengths.tolist() == [10]
    (Y, lengths), backprop = shim.begin_update([(X,)], torch.tensor([5]))
    backprop(torch.ones_like(Y), torch.zeros(1))
    assert shim.module.linear.bias.grad.tolist() == [5.0, 5.0]


def test_bfloat16_gives_float32_out_and_keeps_float32_weights():
    shim = make_shim("bfloat16", component="encoder")
    exact = make_shim().predict(X)
    for Y in (shim.predict(X), shim.begin_update(X)[0]):
        assert Y.dtype == torch.float32
        assert not torch.equal(Y, exact)
        torch.testing.assert_close(Y.detach(), exact, atol=2e-2, rtol=0)
    Y, backprop = shim.begin_update(X)
    backprop(torch.ones_like(Y))
    for parameter in shim.module.parameters():
        assert parameter.dtype == parameter.grad.dtype == torch.float32


def test_a_head_learns_in_float32_on_a_cpu():
    shim, exact = make_shim("bfloat16"), make_shim()
    assert torch.equal(shim.begin_update(X)[0], exact.begin_update(X)[0])
    assert not torch.equal(shim.predict(X), exact.predict(X))


@pytest.mark.parametrize("make_optimizer", [lambda: create_adamw(0.2), lambda: Adam(0.2)], ids=["ours", "thinc"])
def test_bfloat16_copy_follows_the_weights(make_optimizer):
    shim = make_shim("bfloat16")
    optimizer = make_optimizer()
    for _ in range(3):
        before = shim.predict(X)
        step(shim, optimizer)
        after = shim.predict(X)
        assert (after - before).abs().max() > 0.02
        exact = make_shim()
        exact.module.load_state_dict(shim.module.state_dict())
        torch.testing.assert_close(after, exact.predict(X), atol=3e-2, rtol=0)


def test_bfloat16_copy_follows_loaded_weights_and_is_made_once():
    shim, other = make_shim("bfloat16"), make_shim("bfloat16")
    for parameter in other.module.parameters():
        nn.init.normal_(parameter)
    shim.predict(X)
    shim.from_bytes(other.to_bytes())
    torch.testing.assert_close(shim.predict(X), other.predict(X))
    low = shim._low_precision
    shim.predict(X)
    assert shim._low_precision is low


@pytest.mark.parametrize("duplicate", [lambda shim: shim.copy(), copy.deepcopy], ids=["copy", "deepcopy"])
def test_copy_has_its_own_id_and_weights(duplicate):
    shim = make_shim("bfloat16")
    expected = shim.predict(X)
    copied = duplicate(shim)
    assert copied.id != shim.id
    torch.testing.assert_close(copied.predict(X), expected)
    with torch.no_grad():
        copied.module.second.bias.add_(1.0)
    torch.testing.assert_close(shim.predict(X), expected)
    assert (copied.predict(X) - expected).min() > 0.9
    assert {key.shim for key, _ in copied.parameters()} == {copied.id}


def test_copied_thinc_model_is_independent():
    model = Model("net", lambda model, X, is_train: (X, lambda dY: dY), shims=[make_shim()])
    copied = model.copy()
    assert copied.shims[0].id != model.shims[0].id
    assert copied.shims[0].module is not model.shims[0].module


def test_bytes_round_trip_into_another_seed():
    shim = make_shim(n_out=4)
    torch.manual_seed(9)
    other = TorchShim(Net, component="head")
    other.create(width=7)
    other.from_bytes(shim.to_bytes())
    assert torch.equal(other.predict(X), shim.predict(X))
    assert not other.module.training
    assert other.to_bytes() == shim.to_bytes()


def test_no_pickle_in_the_bytes():
    shim = make_shim()
    data = shim.to_bytes()
    for pickled in (b"PK\x03\x04", b"torch", b"storage", b"\x80\x02", b"\x80\x04\x95"):
        assert pickled not in data
    message = srsly.msgpack_loads(data)
    assert message["cfg"] == {"width": 3}
    # A safetensors file starts with the length of its header, which is JSON.
    weights = message["weights"]
    header = srsly.json_loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    assert set(header) - {"__metadata__"} == {"first.weight", "first.bias", "second.weight", "second.bias"}


@pytest.mark.parametrize("what", ["missing", "unexpected", "of another shape"])
def test_weights_that_do_not_fit_are_named(what):
    shim = make_shim()
    weights = {name: x.clone() for name, x in shim.module.state_dict().items()}
    if what == "missing":
        del weights["second.bias"]
    elif what == "unexpected":
        weights["second.scale"] = torch.zeros(2)
    else:
        weights["second.bias"] = torch.zeros(3)
    before = shim.predict(X)
    with pytest.raises(ValueError, match=rf"E108\].*'part'.*{what} \['second\.(bias|scale)'\]"):
        load_strictly(shim.module, save(weights), what="part")
    torch.testing.assert_close(shim.predict(X), before)


def test_thinc_optimizer_trains():
    shim = make_shim()
    optimizer = Adam(0.05)
    losses = [step(shim, optimizer) for _ in range(30)]
    assert losses[-1] < 0.05 * losses[0]
    assert all(parameter.grad is None for parameter in shim.module.parameters())


def test_optimizer_gets_keys_and_only_weights_with_gradients():
    seen = []

    class Collector:
        def collect_parameter(self, key, parameter):
            seen.append((key, parameter))

        def step(self):
            raise AssertionError("only the optimizer's owner steps")

    shim = TorchShim(Net, component="encoder", below_top=lambda name: 3 if name.startswith("first") else 0)
    shim.create(width=3)
    shim.module.first.requires_grad_(False)
    Y, backprop = shim.begin_update(X)
    backprop(torch.ones_like(Y))
    shim.finish_update(Collector())
    assert [(key.name, key.component, key.shim, key.below_top) for key, _ in seen] == [
        ("second.weight", "encoder", shim.id, 0),
        ("second.bias", "encoder", shim.id, 0),
    ]
    assert {key.below_top for key, _ in shim.parameters()} == {0, 3}


def test_backprop_without_anything_to_train():
    shim = make_shim()
    shim.module.requires_grad_(False)
    Y, backprop = shim.begin_update(X)
    backprop(torch.ones_like(Y))


def test_unknown_device():
    with pytest.raises(ValueError, match="E109.*tpu"):
        make_shim().to_device("tpu", 0)
    shim = make_shim()
    shim.to_device("cpu", 0)
    assert shim.device.type == "cpu"


def other_weights(shim: TorchShim) -> dict:
    """For every weight another value, with entries of a shim that does not exist."""
    random = numpy.random.default_rng(1)
    others = {(shim.id, key.name): random.normal(size=tuple(p.shape)).astype("float32") for key, p in shim.parameters()}
    return {**others, (shim.id + 1000, "second.bias"): numpy.ones(2, dtype="float32")}


def state_of(shim: TorchShim) -> dict[str, torch.Tensor]:
    return {name: values.clone() for name, values in shim.module.state_dict().items()}


def assert_same_state(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_other_weights_are_used_and_saved_within_the_context_only():
    shim = make_shim()
    own, before, others = state_of(shim), shim.predict(X), other_weights(shim)
    with shim.use_params(others):
        inside, saved = shim.predict(X), shim.to_bytes()
        for key, parameter in shim.parameters():
            numpy.testing.assert_array_equal(parameter.detach().numpy(), others[shim.id, key.name])
    assert (inside - before).abs().max() > 0.1
    assert_same_state(state_of(shim), own)
    assert torch.equal(shim.predict(X), before)
    assert torch.equal(TorchShim(Net, component="head").from_bytes(saved).predict(X), inside)


def test_own_weights_come_back_after_an_exception():
    shim = make_shim()
    own, before = state_of(shim), shim.predict(X)
    with pytest.raises(RuntimeError, match="broken"), shim.use_params(other_weights(shim)):
        raise RuntimeError("broken")
    assert_same_state(state_of(shim), own)
    assert torch.equal(shim.predict(X), before)


def test_bfloat16_copy_notices_other_weights_coming_and_going():
    shim, exact = make_shim("bfloat16"), make_shim()
    before, others = shim.predict(X), other_weights(shim)
    with shim.use_params(others):
        inside = shim.predict(X)
    with exact.use_params(other_weights(exact)):
        torch.testing.assert_close(inside, exact.predict(X), atol=3e-2, rtol=2e-2)
    # Averages are changed in place between two evaluations: the same arrays come with other values.
    for values in others.values():
        values *= -1
    with shim.use_params(others):
        assert (shim.predict(X) - inside).abs().max() > 0.1
    assert torch.equal(shim.predict(X), before)


def test_keys_of_other_shims_change_nothing():
    shim = make_shim("bfloat16")
    own, before, low = state_of(shim), shim.predict(X), shim._low_precision
    with shim.use_params({(shim.id + 1000, "second.bias"): numpy.ones(2, dtype="float32")}):
        assert_same_state(state_of(shim), own)
        assert torch.equal(shim.predict(X), before)
    assert shim._low_precision is low
    with TorchShim(Net, component="head").use_params({(1, "second.bias"): numpy.ones(2, dtype="float32")}):
        pass


def test_averages_of_a_thinc_optimizer():
    """Thinc's decay is 2 / 11 at the first step and 3 / 12 at the second, from zeros on."""
    shim, optimizer = make_shim(), Adam(0.1, use_averages=True)
    step(shim, optimizer)
    first = state_of(shim)
    step(shim, optimizer)
    second = state_of(shim)
    with shim.use_params(optimizer.averages):
        inside = state_of(shim)
    for name in first:
        torch.testing.assert_close(inside[name], 3 / 12 * 9 / 11 * first[name] + 9 / 12 * second[name])
    assert_same_state(state_of(shim), second)
    # Training goes on with the weights, not with the averages.
    exact, other = make_shim(), Adam(0.1, use_averages=False)
    for _ in range(3):
        step(exact, other)
    step(shim, optimizer)
    assert_same_state(state_of(shim), state_of(exact))
