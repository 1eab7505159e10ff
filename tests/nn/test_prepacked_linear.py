import pytest
import torch
from torch import nn
from torch.nn.functional import gelu, linear

from spacy_attention.layers.precision import has_native_bfloat16
from spacy_attention.nn import prepacked_linear
from spacy_attention.nn.prepacked_linear import PrepackedLinear, can_prepack, prepack_linears

# Not by `can_prepack`: where that wrongly says no, these tests must fail and not be skipped.
pytestmark = pytest.mark.skipif(not has_native_bfloat16(torch.device("cpu")), reason="a processor without native bfloat16")


def make_linear(n_in=32, n_out=48, bias=True):
    torch.manual_seed(0)
    return nn.Linear(n_in, n_out, bias=bias).bfloat16()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 32), (2, 3, 32), (32,), (0, 32), (2, 0, 32)])
def test_equals_the_linear_layer(shape, bias):
    layer, X = make_linear(bias=bias), torch.randn(*shape).bfloat16()
    with torch.inference_mode():
        Y = PrepackedLinear(layer)(X)
        assert Y.dtype == torch.bfloat16
        torch.testing.assert_close(Y, layer(X), atol=1e-2, rtol=0)


def test_input_that_is_not_contiguous():
    layer, X = make_linear(), torch.randn(3, 4, 32).bfloat16().transpose(0, 1)
    with torch.inference_mode():
        torch.testing.assert_close(PrepackedLinear(layer)(X), layer(X), atol=1e-2, rtol=0)


def test_gelu_in_the_same_step_is_rounded_once():
    layer, X = make_linear(), torch.randn(200, 32).bfloat16()
    with torch.inference_mode():
        exact = gelu(linear(X.float(), layer.weight.float(), layer.bias.float()))
        once, twice = PrepackedLinear(layer, "gelu")(X), gelu(layer(X))
    torch.testing.assert_close(once.float(), exact, atol=1e-2, rtol=1e-2)
    assert (once - exact).abs().mean() < (twice - exact).abs().mean()


def test_weight_can_still_be_read():
    layer = make_linear()
    packed = PrepackedLinear(layer)
    assert torch.equal(packed.weight, layer.weight)
    assert (packed.in_features, packed.out_features) == (32, 48)


class Intermediate(nn.Module):
    """As in the BERT of transformers."""

    def __init__(self, activation):
        super().__init__()
        self.dense = nn.Linear(32, 64)
        self.intermediate_act_fn = activation

    def forward(self, X):
        return self.intermediate_act_fn(self.dense(X))


@pytest.mark.parametrize(
    ("activation", "fused"), [(nn.GELU(), True), (nn.GELU(approximate="tanh"), False), (nn.ReLU(), False)], ids=str
)
def test_only_the_exact_gelu_goes_into_the_product(activation, fused):
    torch.manual_seed(0)
    module, X = Intermediate(activation).bfloat16(), torch.randn(7, 32).bfloat16()
    with torch.inference_mode():
        expected = module(X)
        prepack_linears(module)
        torch.testing.assert_close(module(X), expected, atol=1e-2, rtol=1e-2)
    assert module.dense.activation == ("gelu" if fused else "none")
    assert isinstance(module.intermediate_act_fn, nn.Identity) == fused


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_subclasses_and_empty_layers_stay():
    class Other(nn.Linear):
        def forward(self, X):
            return super().forward(X) + 1

    module = nn.Sequential(Other(8, 8), nn.Sequential(nn.Linear(8, 4)), nn.Linear(4, 0)).bfloat16()
    prepack_linears(module)
    assert [type(part) for part in (module[0], module[1][0], module[2])] == [Other, PrepackedLinear, nn.Linear]


def test_this_build_of_torch_has_the_operations():
    assert can_prepack()


def test_trying_it_out_draws_no_random_numbers():
    state = torch.random.get_rng_state()
    can_prepack.__wrapped__()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_torch_without_the_operations(monkeypatch):
    class Missing:
        @property
        def mkldnn(self):
            raise AttributeError("'_OpNamespace' object has no attribute")

    monkeypatch.setattr(prepacked_linear.torch, "ops", Missing())
    assert not can_prepack.__wrapped__()
