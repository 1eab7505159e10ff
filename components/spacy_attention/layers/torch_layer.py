"""A Thinc layer around a torch module that takes packed token vectors."""

from collections.abc import Callable
from typing import Any, TypeAlias

from thinc.api import Model, torch2xp, xp2torch
from thinc.types import Floats2d, Ragged
from torch import nn

from ..types import Backprop
from .shim import TorchShim

LayerInput: TypeAlias = Ragged | tuple[Ragged, Floats2d]


def torch_layer(
    name: str,
    build: Callable[..., nn.Module],
    *,
    component: str,
    dropout: float = 0.0,
    precision: str = "float32",
    below_top: Callable[[str], int] = lambda name: 0,
) -> Model[LayerInput, Any]:
    """Wrap a module with `forward(rows, lengths)`, or `forward(rows, lengths, columns)` for an input of two parts.

    name (str): of the layer.
    build (Callable): makes the module once its sizes are known; `model.shims[0].create(**sizes)` calls it.
    component (str): `encoder` or `head`, for the optimizer.
    dropout (float): rate outside of a training config, which sets its own through `dropout_rate`; 0 outside of updates.
    precision (str): see `resolve_precision`.
    below_top (Callable): see `TorchShim`.
    RETURNS (Model): input Ragged of (tokens, nI) float32, or a tuple of such a Ragged and further columns, (tokens, n) float32, which
        nI counts and which get no gradient; output the module's tensor, or tuple of tensors, as float32 arrays.
    """
    shim = TorchShim(build, component=component, precision=precision, below_top=below_top)
    return Model(name, forward, dims={"nI": None, "nO": None}, attrs={"dropout_rate": dropout}, shims=[shim])


def forward(model: Model, inputs: LayerInput, is_train: bool) -> tuple[Any, Backprop]:
    """inputs: see `torch_layer`. RETURNS (tuple): output arrays, and a callback from their gradients to that of the token vectors."""
    shim: TorchShim = model.shims[0]
    X, *further = inputs if isinstance(inputs, tuple) else (inputs,)
    columns = [xp2torch(x, device=shim.device) for x in further]
    rows = model.ops.reshape2f(X.dataXd, len(X.dataXd), model.get_dim("nI") - sum(x.shape[1] for x in columns))
    lengths = xp2torch(model.ops.asarray(X.lengths, dtype="int64"), device=shim.device)
    if not is_train:
        return _to_arrays(shim.predict(xp2torch(rows, device=shim.device), lengths, *columns)), _no_backprop
    rows_torch = xp2torch(rows, requires_grad=True, device=shim.device)
    outputs, backprop_torch = shim.begin_update(rows_torch, lengths, *columns, dropout=model.attrs["dropout_rate"])

    def backprop(d_outputs: Any) -> Ragged:
        # A batch without tokens may come back as (0, 0) from layers that only know lists of arrays.
        pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (d_outputs, outputs)), strict=True)
        backprop_torch(*(xp2torch(model.ops.asarray(d), device=shim.device).reshape(y.shape) for d, y in pairs))
        d_rows = model.ops.alloc_f(rows.shape) if rows_torch.grad is None else torch2xp(rows_torch.grad)
        return Ragged(d_rows, X.lengths)

    return _to_arrays(outputs), backprop


def _to_arrays(outputs: Any) -> Any:
    if isinstance(outputs, tuple):
        return tuple(torch2xp(y) for y in outputs)
    return torch2xp(outputs)


def _no_backprop(d_outputs: Any) -> Any:
    raise NotImplementedError
