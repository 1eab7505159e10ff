import itertools
from collections.abc import Callable

import numpy
import pytest
import torch
from thinc.api import Linear, Model, fix_random_seed, registry
from torch import nn

from spacy_attention.layers.shim import TorchShim
from spacy_attention.training.optimizer import AdamW, create_adamw
from spacy_attention.types import ParameterKey, TorchOptimizer


class Pipeline:
    """A torch module behind our shim and a Thinc layer, with the gradients of a step set by hand."""

    def __init__(self) -> None:
        fix_random_seed(0)
        self.shim = TorchShim(lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), component="head")
        self.shim.create()
        self.thinc: Model = Linear(2, 3)
        self.thinc.initialize()

    def values(self) -> dict[str, numpy.ndarray]:
        torch_values = {name: p.detach().numpy().copy() for name, p in self.shim.module.named_parameters()}
        return torch_values | {name: self.thinc.get_param(name).copy() for name in ("W", "b")}

    def collect(self, optimizer, gradients: dict[str, numpy.ndarray]) -> None:
        for name, parameter in self.shim.module.named_parameters():
            parameter.grad = torch.from_numpy(gradients[name].copy())
        for name in ("W", "b"):
            self.thinc.inc_grad(name, gradients[name])
        self.shim.finish_update(optimizer)
        self.thinc.finish_update(optimizer)


def draw_gradients(pipeline: Pipeline, steps: int) -> list[dict[str, numpy.ndarray]]:
    """Some steps are above the limit of the norm and some below."""
    random = numpy.random.default_rng(0)
    scales = itertools.cycle([2.0, 0.05])
    return [
        {name: (scale * random.normal(size=x.shape)).astype("float32") for name, x in pipeline.values().items()}
        for scale, _ in zip(scales, range(steps), strict=False)
    ]


def reference(pipeline: Pipeline, gradients: list[dict], *, clip: float = 1.0, decay: float = 0.01, rate: float = 0.05):
    """The same steps with torch.optim.AdamW over everything."""
    parameters = {name: nn.Parameter(torch.from_numpy(x.copy())) for name, x in pipeline.values().items()}
    groups = [
        {"params": [p for p in parameters.values() if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in parameters.values() if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=rate)
    for step in gradients:
        for name, parameter in parameters.items():
            parameter.grad = torch.from_numpy(step[name].copy())
        if clip:
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), clip)
        optimizer.step()
    return {name: p.detach().numpy() for name, p in parameters.items()}


def assert_same(found: dict[str, numpy.ndarray], expected: dict[str, numpy.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name in found:
        numpy.testing.assert_allclose(found[name], expected[name], atol=1e-6, rtol=0, err_msg=name)


@pytest.mark.parametrize(("clip", "decay"), [(1.0, 0.01), (0.0, 0.01), (0.3, 0.0), (1.0, 0.5)])
def test_equals_torch_after_ten_steps(clip, decay):
    pipeline = Pipeline()
    before, gradients = pipeline.values(), draw_gradients(pipeline, 10)
    expected = reference(pipeline, gradients, clip=clip, decay=decay)
    optimizer = create_adamw(0.05, grad_clip=clip, weight_decay=decay)
    for step in gradients:
        pipeline.collect(optimizer, step)
        optimizer.step_schedules()
    assert_same(pipeline.values(), expected)
    assert all(abs(expected[name] - before[name]).max() > 0.02 for name in expected)


def test_every_gradient_once_in_a_loop_that_never_steps_schedules():
    pipeline = Pipeline()
    start, gradients = pipeline.values(), draw_gradients(pipeline, 4)
    after = [start] + [reference(pipeline, gradients[:n]) for n in range(1, 5)]
    optimizer = create_adamw(0.05)
    for n, step in enumerate(gradients):
        # What the batch before brought is applied when the first weight comes again.
        pipeline.collect(optimizer, step)
        assert_same(pipeline.values(), after[n])
    optimizer.step()
    assert_same(pipeline.values(), after[4])
    optimizer.step()
    optimizer.step_schedules()
    assert_same(pipeline.values(), after[4])


def test_gradients_are_taken():
    pipeline = Pipeline()
    optimizer = create_adamw(0.05)
    pipeline.collect(optimizer, draw_gradients(pipeline, 1)[0])
    assert all(p.grad is None for p in pipeline.shim.module.parameters())
    assert not any(pipeline.thinc.get_grad(name).any() for name in ("W", "b"))
    optimizer.step_schedules()
    assert all(p.grad is None for p in pipeline.shim.module.parameters())


@pytest.mark.parametrize(("limit", "share"), [(1.0, 0.2), (4.0, 0.8), (6.0, 1.0), (0.0, 1.0)])
def test_one_clip_over_the_whole_pipeline(limit, share):
    """Two weights of norm 3 and 4 are one gradient of norm 5, not two to be cut to the limit each; a smaller norm stays as it is."""
    optimizer = create_adamw(1.0, grad_clip=limit, weight_decay=0.0)
    a, b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(2))
    a.grad, b.grad = torch.tensor([3.0]), torch.tensor([0.0, 4.0])
    keys = [ParameterKey(1, "a", "backbone", 0), ParameterKey(2, "b", "head", 0)]
    for key, weight in zip(keys, (a, b), strict=True):
        optimizer.collect_parameter(key, weight)
    optimizer.step_schedules()
    # After the first step a mean is a tenth of the gradient that came through.
    seen = [10 * optimizer.moments()[key]["exp_avg"] for key in keys]
    torch.testing.assert_close(seen[0], share * torch.tensor([3.0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen[1], share * torch.tensor([0.0, 4.0]), atol=1e-5, rtol=0)


def one_step(optimizer: AdamW, keys: list[ParameterKey], *, shape: tuple[int, ...] = (2, 2)) -> list[float]:
    """How far each weight moved in a first step, which for Adam is its rate."""
    weights = [nn.Parameter(torch.zeros(shape)) for _ in keys]
    for key, weight in zip(keys, weights, strict=True):
        weight.grad = torch.ones(shape)
        optimizer.collect_parameter(key, weight)
    optimizer.step_schedules()
    return [-weight.detach().flatten()[0].item() for weight in weights]


@pytest.mark.parametrize("layer_decay", [0.0, -0.5, 1.1])
def test_layer_decay_out_of_its_range(layer_decay):
    with pytest.raises(ValueError, match=rf"E605.*layer_decay.*{layer_decay}"):
        create_adamw(0.1, layer_decay=layer_decay)


@pytest.mark.parametrize("grad_clip", [0.0, 1.0])
@pytest.mark.parametrize("wrong", ["inf", "nan"])
def test_a_gradient_that_is_not_finite_changes_nothing(grad_clip, wrong):
    optimizer = create_adamw(0.1, grad_clip=grad_clip)
    weights = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    for i, weight in enumerate(weights):
        weight.grad = torch.tensor([1.0, float(wrong) if i else 1.0])
        optimizer.collect_parameter(ParameterKey(1, str(i), "head", 0), weight)
    with pytest.raises(ValueError, match=rf"E632.*{wrong}.*learn_rate"):
        optimizer.step_schedules()
    assert all(torch.equal(weight, torch.ones(2)) for weight in weights)


def test_layer_decay_over_the_backbone_only():
    keys = [ParameterKey(1, f"layer.{i}", "backbone", i) for i in range(4)]
    keys += [ParameterKey(2, "block", "encoder", 3), ParameterKey(3, "out", "head", 3)]
    moved = one_step(create_adamw(0.1, layer_decay=0.5), keys)
    assert moved == pytest.approx([0.1, 0.05, 0.025, 0.0125, 0.1, 0.1], rel=1e-4)


def test_own_rates():
    keys = [ParameterKey(i, "x", name, 0) for i, name in enumerate(("backbone", "encoder", "head"))]
    assert one_step(create_adamw(0.1), keys) == pytest.approx([0.1] * 3, rel=1e-4)
    rates = dict(encoder_rate=0.2, head_rate=0.3)
    assert one_step(create_adamw(0.1, **rates), keys) == pytest.approx([0.1, 0.2, 0.3], rel=1e-4)
    assert one_step(create_adamw(0.1, head_rate=0.3), keys) == pytest.approx([0.1, 0.1, 0.3], rel=1e-4)


def test_thinc_arrays_have_the_rate_of_heads():
    layer = Linear(1, 1)
    layer.initialize()
    layer.set_param("b", numpy.zeros(1, dtype="float32"))
    layer.inc_grad("b", numpy.ones(1, dtype="float32"))
    optimizer = create_adamw(0.1, head_rate=0.3)
    layer.finish_update(optimizer)
    optimizer.step_schedules()
    assert layer.get_param("b")[0] == pytest.approx(-0.3, rel=1e-4)


def test_no_decay_on_vectors():
    optimizer = create_adamw(0.1, weight_decay=0.5)
    weights = {shape: nn.Parameter(torch.ones(shape)) for shape in ((3,), (3, 1), (1, 3, 1))}
    for shape, weight in weights.items():
        weight.grad = torch.zeros(shape)
        optimizer.collect_parameter(ParameterKey(1, str(shape), "backbone", 0), weight)
    optimizer.step_schedules()
    assert weights[(3,)].tolist() == [1.0] * 3
    for shape in ((3, 1), (1, 3, 1)):
        assert weights[shape].flatten()[0].item() == pytest.approx(1 - 0.1 * 0.5)


def test_schedules_advance():
    config = {
        "optimizer": {
            "@optimizers": "spacy-attention.AdamW.v1",
            "learn_rate": {"@schedules": "warmup_linear.v1", "initial_rate": 0.1, "warmup_steps": 2, "total_steps": 6},
            "head_rate": {"@schedules": "constant.v1", "rate": 0.3},
            "weight_decay": 0,
            "grad_clip": 0,
        }
    }
    optimizer = registry.resolve(config)["optimizer"]
    assert isinstance(optimizer, AdamW)
    assert isinstance(optimizer, TorchOptimizer)
    backbone, head = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
    moved, before = [], (0.0, 0.0)
    for _ in range(6):
        # With one gradient at all steps, Adam moves by its rate.
        backbone.grad, head.grad = torch.ones(2), torch.ones(2)
        optimizer.collect_parameter(ParameterKey(1, "a", "backbone", 0), backbone)
        optimizer.collect_parameter(ParameterKey(2, "a", "head", 0), head)
        optimizer.step_schedules()
        now = (backbone[0].item(), head[0].item())
        moved.append((before[0] - now[0], before[1] - now[1]))
        before = now
    rates = [0.0, 0.05, 0.1, 0.075, 0.05, 0.025]
    assert [m[0] for m in moved] == pytest.approx(rates, abs=1e-5)
    assert [m[1] for m in moved] == pytest.approx([0.3] * 6, abs=1e-5)


@pytest.mark.parametrize("rate", [1, 0.5, [0.1, 0.2]])
def test_rates_of_any_kind_are_accepted(rate):
    optimizer = create_adamw(rate, head_rate=rate)
    moved = one_step(optimizer, [ParameterKey(1, "x", "head", 0)])
    assert moved == pytest.approx([rate[0] if isinstance(rate, list) else rate], rel=1e-4)


def replace_torch(pipeline: Pipeline) -> None:
    for name, parameter in list(pipeline.shim.module.named_parameters()):
        part, _, leaf = name.rpartition(".")
        setattr(pipeline.shim.module.get_submodule(part), leaf, nn.Parameter(parameter.detach().clone()))


def replace_thinc(pipeline: Pipeline) -> None:
    for name in ("W", "b"):
        pipeline.thinc.set_param(name, pipeline.thinc.get_param(name).copy())


@pytest.mark.parametrize("replace", [replace_torch, replace_thinc])
def test_weights_that_were_replaced_keep_their_moments(replace: Callable[[Pipeline], None]):
    """Loading weights, or `model.to_gpu`, puts new arrays in the place of several old ones at once."""
    pipeline = Pipeline()
    gradients = draw_gradients(pipeline, 6)
    expected = reference(pipeline, gradients)
    optimizer = create_adamw(0.05)
    for i, step in enumerate(gradients):
        if i in (2, 4):
            replace(pipeline)
        pipeline.collect(optimizer, step)
        optimizer.step_schedules()
    assert_same(pipeline.values(), expected)
    # The old ones are let go.
    held = [p for group in optimizer._torch.param_groups for p in group["params"]]
    assert len(held) == len(pipeline.values()) == len(optimizer._torch.state)


def test_component_that_skips_a_step():
    """A weight without a gradient neither moves nor decays, nor counts the step."""
    optimizer = create_adamw(0.1, weight_decay=0.5)
    a, b = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    for step in range(3):
        a.grad = torch.ones(2, 2)
        optimizer.collect_parameter(ParameterKey(1, "a", "head", 0), a)
        if step != 1:
            b.grad = torch.ones(2, 2)
            optimizer.collect_parameter(ParameterKey(1, "b", "head", 0), b)
        before = b.detach().clone()
        optimizer.step_schedules()
        assert torch.equal(b, before) is (step == 1)
    assert optimizer._torch.state[a]["step"] == 3
    assert optimizer._torch.state[b]["step"] == 2


def test_a_weight_that_was_frozen_starts_with_fresh_moments():
    """And while it is frozen nothing moves it: no gradient that was taken before, no momentum, no decay."""
    ends = []
    for frozen_before in (True, False):
        torch.manual_seed(0)
        table, other = nn.Embedding(6, 3, sparse=True), nn.Parameter(torch.zeros(2))
        optimizer = create_adamw(0.05, weight_decay=0.1)

        def collect(ids, optimizer=optimizer, table=table, other=other):
            (table(torch.tensor(ids)).square().sum() * 3 + other.sum()).backward()
            if table.weight.grad is not None:
                optimizer.collect_parameter(ParameterKey(1, "table", "backbone", 0), table.weight)
            optimizer.collect_parameter(ParameterKey(2, "other", "head", 0), other)

        start = table.weight.detach().clone()
        if frozen_before:
            collect([0, 1])
            optimizer.step_schedules()
            assert not torch.equal(table.weight, start)
            collect([0, 1])
            before = table.weight.detach().clone()
            table.weight.requires_grad_(False)
            optimizer.step_schedules()
            collect([0, 1])
            optimizer.step_schedules()
            assert torch.equal(table.weight, before)
            table.weight.data.copy_(start)
            table.weight.requires_grad_(True)
            torch.nn.init.zeros_(other)
        collect([0, 2])
        optimizer.step_schedules()
        assert optimizer._torch.state[table.weight]["step"] == 1
        ends.append(table.weight.detach())
    torch.testing.assert_close(ends[0], ends[1])


def test_nothing_collected():
    optimizer = create_adamw(0.1)
    optimizer.step()
    optimizer.step_schedules()


def test_a_step_counts_as_a_change_of_the_weights():
    optimizer, weight = create_adamw(0.1), nn.Parameter(torch.zeros(2))
    version = weight._version
    weight.grad = torch.ones(2)
    optimizer.collect_parameter(ParameterKey(1, "a", "head", 0), weight)
    optimizer.step_schedules()
    assert weight._version > version


def test_accumulated_gradients_are_one_step():
    whole, parts = Pipeline(), Pipeline()
    (gradients,) = draw_gradients(whole, 1)
    for pipeline, n in ((whole, 1), (parts, 2)):
        optimizer = create_adamw(0.05)
        for _ in range(n):
            for name, parameter in pipeline.shim.module.named_parameters():
                part = torch.from_numpy(gradients[name] / n)
                parameter.grad = part if parameter.grad is None else parameter.grad + part
            for name in ("W", "b"):
                pipeline.thinc.inc_grad(name, gradients[name] / n)
        pipeline.shim.finish_update(optimizer)
        pipeline.thinc.finish_update(optimizer)
        optimizer.step_schedules()
    assert_same(parts.values(), whole.values())


def test_sparse_gradients_of_a_table_equal_dense_ones():
    """Rows move on by their momentum after the batch that touched them, also those that no later batch touches."""
    ends = []
    for sparse in (True, False):
        torch.manual_seed(0)
        table, other = nn.Embedding(6, 3, sparse=sparse), nn.Parameter(torch.zeros(2))
        optimizer = create_adamw(0.05, weight_decay=0.1)
        for ids in ([0, 1, 1], [4], [0, 4], [2]):
            (table(torch.tensor(ids)).square().sum() * 3 + other.sum()).backward()
            assert table.weight.grad.is_sparse is sparse
            optimizer.collect_parameter(ParameterKey(1, "table", "backbone", 0), table.weight)
            optimizer.collect_parameter(ParameterKey(2, "other", "head", 0), other)
            optimizer.step_schedules()
            assert table.weight.grad is None
        ends.append((table.weight.detach(), other.detach()))
    torch.testing.assert_close(ends[0], ends[1], atol=1e-6, rtol=0)


def test_a_sparse_gradient_goes_to_thinc_as_a_dense_one():
    moved = []
    for sparse in (True, False):
        torch.manual_seed(0)
        shim = TorchShim(lambda sparse=sparse: nn.Embedding(4, 2, sparse=sparse), component="backbone")
        shim.create()
        shim.module(torch.tensor([1, 1, 3])).sum().backward()
        shim.finish_update(registry.optimizers.get("Adam.v1")(0.1))
        moved.append(shim.module.weight.detach())
    torch.testing.assert_close(moved[0], moved[1])
