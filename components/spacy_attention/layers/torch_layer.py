"""A Thinc layer around a torch module that takes packed token vectors."""

from collections.abc import Callable
from typing import Any

from thinc.api import Model, torch2xp, xp2torch
from thinc.types import Ragged
from torch import nn

from ..types import Backprop
from .shim import TorchShim


def torch_layer(
    name: str,
    build: Callable[..., nn.Module],
    *,
    component: str,
    dropout: float = 0.0,
    precision: str = "float32",
    below_top: Callable[[str], int] = lambda name: 0,
) -> Model[Ragged, Any]:
    """Wrap a module with `forward(rows, lengths)`.

    name (str): of the layer.
    build (Callable): makes the module once its sizes are known; `model.shims[0].create(**sizes)` calls it.
    component (str): `encoder` or `head`, for the optimizer.
    dropout (float): rate outside of a training config, which sets its own through `dropout_rate`; 0 outside of updates.
    precision (str): see `resolve_precision`.
    below_top (Callable): see `TorchShim`.
    RETURNS (Model): input Ragged of (tokens, nI) float32; output the module's tensor, or tuple of tensors, as float32 arrays.
    """
    shim = TorchShim(build, component=component, precision=precision, below_top=below_top)
    return Model(name, forward, dims={"nI": None, "nO": None}, attrs={"dropout_rate": dropout}, shims=[shim])


def forward(model: Model, X: Ragged, is_train: bool) -> tuple[Any, Backprop]:
    """X (Ragged): (tokens, nI). RETURNS (tuple): output arrays, and a callback from their gradients to that of X."""
    shim: TorchShim = model.shims[0]
    rows = model.ops.reshape2f(X.dataXd, len(X.dataXd), model.get_dim("nI"))
    lengths = xp2torch(model.ops.asarray(X.lengths, dtype="int64"), device=shim.device)
    if not is_train:
        return _to_arrays(shim.predict(xp2torch(rows, device=shim.device), lengths)), _no_backprop
    rows_torch = xp2torch(rows, requires_grad=True, device=shim.device)
    outputs, backprop_torch = shim.begin_update(rows_torch, lengths, dropout=model.attrs["dropout_rate"])

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
