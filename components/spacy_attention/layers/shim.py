"""Our border between Thinc and a torch module: precision, modes, gradients, optimizer, safetensors."""

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import srsly
import torch
from safetensors.torch import load, save
from thinc.api import Optimizer, get_torch_default_device, torch2xp, xp2torch
from thinc.shims.shim import Shim
from thinc.types import FloatsXd
from torch import Tensor, nn

from ..errors import Errors
from ..nn.float32_attention import Float32Attention
from ..nn.prepacked_linear import can_prepack, prepack_linears
from ..types import ParameterKey, TorchOptimizer
from .precision import resolve_precision


class TorchShim(Shim):
    """Holds a torch module that is built when its sizes are known, at `initialize` or at load.

    build (Callable): makes the module from the keyword arguments in `cfg`.
    component (str): `backbone`, `encoder` or `head`; goes into the parameter keys.
    precision (str): see `resolve_precision`.
    below_top (Callable): layers between a parameter, given by name, and the top of the module.
    """

    def __init__(
        self,
        build: Callable[..., nn.Module],
        *,
        component: str,
        precision: str = "float32",
        below_top: Callable[[str], int] = lambda name: 0,
    ):
        super().__init__(None)
        self.build = build
        self.component = component
        self.precision = precision
        self.below_top = below_top
        self._low_precision: tuple[tuple[int, ...], nn.Module] | None = None

    @property
    def ready(self) -> bool:
        """Whether the module exists."""
        return self._model is not None

    @property
    def module(self) -> nn.Module:
        """The torch module. RAISES (ValueError): E105 before `create` or `from_bytes`."""
        if self._model is None:
            raise ValueError(Errors.E105.format(name=self.component))
        return self._model

    @property
    def device(self) -> torch.device:
        """Where the module's weights lie."""
        return next(self.module.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """What the forward pass computes in."""
        return resolve_precision(self.precision, self.device)

    @property
    def update_dtype(self) -> torch.dtype:
        """What an update computes in. That of a head is small and float32 on a CPU: in bfloat16 oneDNN would make code for its number of
        rows, which is another one in every batch, and that takes longer than the products."""
        return torch.float32 if self.component == "head" and self.device.type == "cpu" else self.dtype

    @property
    def version(self) -> tuple[int, ...]:
        """Another one whenever a weight has changed."""
        return tuple(version for p in self.module.parameters() for version in (p.data_ptr(), p._version))

    def create(self, **sizes) -> None:
        """Build the module, in evaluation mode, on the device of the active Thinc ops. sizes: arguments of `build`."""
        self.cfg = sizes
        self._model = self.build(**sizes).to(get_torch_default_device()).eval()

    def predict(self, *inputs: Any) -> Any:
        """Run the module without gradients and dropout, in the precision of the shim.

        inputs: what the module's forward takes. They stay float32: only the module knows what it must not round, and a copy of
            all token vectors of a long document is large. It casts where it multiplies.
        RETURNS: what it returns, every floating tensor as float32.
        """
        dtype = self.dtype
        module = self.module if dtype is torch.float32 else self._lower(dtype)
        with torch.inference_mode():
            return _to_float32(module(*inputs))

    def begin_update(self, *inputs: Any, dropout: float | None = None) -> tuple[Any, Callable[..., None]]:
        """Run the module in training mode: float32 weights, under bfloat16 autocast where `update_dtype` says so.

        inputs: what the module's forward takes; those that need a gradient must say so.
        dropout (float | None): rate for every dropout of the module; None leaves them as they are.
        RETURNS (tuple): the output, floating tensors as float32, and a callback that takes the gradient of each output tensor
            and adds to the gradients of weights and inputs.
        """
        lower = self.update_dtype is torch.bfloat16
        autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=lower)
        attention = Float32Attention() if lower and self.device.type == "cpu" else contextlib.nullcontext()
        with _training(self.module, dropout), autocast, attention:
            outputs = _to_float32(self.module(*inputs))

        def backprop(*d_outputs: Tensor) -> None:
            flat = outputs if isinstance(outputs, tuple) else (outputs,)
            pairs = [(y, dy) for y, dy in zip(flat, d_outputs, strict=True) if y.requires_grad]
            if pairs:
                torch.autograd.backward([y for y, _ in pairs], [dy for _, dy in pairs])

        return outputs, backprop

    def parameters(self) -> Iterable[tuple[ParameterKey, nn.Parameter]]:
        """YIELDS (tuple): the key and the parameter of every weight."""
        for name, parameter in self.module.named_parameters():
            yield ParameterKey(self.id, name, self.component, self.below_top(name)), parameter

    def finish_update(self, optimizer: Optimizer) -> None:
        """Hand the gradients to the optimizer: whole parameters to ours, one array after the other to Thinc's."""
        if self._model is None:
            return
        for key, parameter in self.parameters():
            if parameter.grad is None:
                continue
            if isinstance(optimizer, TorchOptimizer):
                optimizer.collect_parameter(key, parameter)
                continue
            weights, gradient = torch2xp(parameter.data), torch2xp(parameter.grad.to_dense())
            weights, _ = optimizer((self.id, key.name), cast(FloatsXd, weights), cast(FloatsXd, gradient))
            _put(parameter, xp2torch(weights, device=parameter.device))
            parameter.grad = None

    @contextlib.contextmanager
    def use_params(self, params: dict[Any, FloatsXd]) -> Iterator[None]:
        """Within this context the module computes with, and is saved with, other weights; after it again with its own.

        params (dict): arrays by id of a shim and name of a weight, as an optimizer's `averages`; keys of others are passed over.
        """
        weights = self.parameters() if self.ready else ()
        exchanged = [(parameter, (self.id, key.name)) for key, parameter in weights if (self.id, key.name) in params]
        before = [parameter.data for parameter, _ in exchanged]
        try:
            for parameter, key in exchanged:
                _put(parameter, xp2torch(params[key], device=parameter.device))
            yield
        finally:
            for (parameter, _), values in zip(exchanged, before, strict=True):
                _put(parameter, values)

    def copy(self) -> "TorchShim":
        """RETURNS (TorchShim): a deep copy with an id of its own, so that an optimizer keeps the two apart."""
        copied = copy.copy(self)
        Shim.__init__(copied, copy.deepcopy(self._model), copy.deepcopy(self.cfg))
        copied._low_precision = None
        return copied

    def __deepcopy__(self, memo: dict) -> "TorchShim":
        return self.copy()

    def to_device(self, device_type: str, device_id: int) -> None:
        """device_type (str): `cpu` or `gpu`. device_id (int): number of the GPU."""
        if device_type not in ("cpu", "gpu"):
            raise ValueError(Errors.E109.format(device=device_type))
        if self._model is not None:
            self._model.to("cpu" if device_type == "cpu" else f"cuda:{device_id}")

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): sizes and weights; the weights as safetensors."""
        return srsly.msgpack_dumps({"cfg": self.cfg, "weights": self._weights_to_bytes()})

    def from_bytes(self, data: bytes) -> "TorchShim":
        """Build the module from the saved sizes and fill it.

        data (bytes): from `to_bytes`.
        RAISES (ValueError): E108 naming weights that are missing, unexpected or of another shape.
        """
        message = srsly.msgpack_loads(data)
        if message["weights"] is not None:
            self.create(**message["cfg"])
            load_strictly(self.module, message["weights"], what=self.component)
        return self

    def _weights_to_bytes(self) -> bytes | None:
        if self._model is None:
            return None
        return save({name: x.detach().cpu().contiguous().clone() for name, x in self._plain().state_dict().items()})

    def _plain(self) -> nn.Module:
        """The module as `build` makes it, which is what is saved and what the copy in a lower precision is made of."""
        return self.module

    def _lower(self, dtype: torch.dtype) -> nn.Module:
        """A copy of the module in a lower precision, made again whenever a weight has changed."""
        version = self.version
        if self._low_precision is None or self._low_precision[0] != version:
            lower = copy.deepcopy(self._plain()).to(dtype).eval()
            if self.device.type == "cpu" and can_prepack():
                prepack_linears(lower)
            self._low_precision = (version, lower)
        return self._low_precision[1]


def load_strictly(module: nn.Module, weights: bytes, *, what: str) -> None:
    """Fill a module, refusing weights that do not fit it to the last one.

    module (nn.Module): to be filled.
    weights (bytes): safetensors.
    what (str): named in the message.
    RAISES (ValueError): E108.
    """
    found, expected = load(weights), module.state_dict()
    missing, unexpected = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    shapes = [name for name in sorted(expected.keys() & found.keys()) if expected[name].shape != found[name].shape]
    if missing or unexpected or shapes:
        raise ValueError(
            Errors.E108.format(what=what, missing=missing or "none", unexpected=unexpected or "none", shapes=shapes or "none")
        )
    module.load_state_dict(found)


def _put(parameter: nn.Parameter, values: Tensor) -> None:
    """Give a parameter other values, so that the low-precision copy sees that there was a change: torch does not count this one."""
    parameter.data = values
    torch.autograd.graph.increment_version(parameter)


@contextlib.contextmanager
def _training(module: nn.Module, dropout: float | None):
    was_training = module.training
    if dropout is not None:
        for part in module.modules():
            if isinstance(part, nn.Dropout):
                part.p = dropout
    module.train()
    try:
        yield
    finally:
        module.train(was_training)


def _to_float32(value: Any) -> Any:
    """What a module returns, floating tensors as float32."""
    if isinstance(value, tuple):
        return tuple(map(_to_float32, value))
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
