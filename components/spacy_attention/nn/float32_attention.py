"""Scaled dot-product attention in float32 while everything around it runs in bfloat16, where that is faster: training on a CPU.

PyTorch's fused CPU kernel is fast forwards in bfloat16, but its backward pass there takes several times as long as the same in float32
(measured with torch 2.13 on a CPU with AMX: 50 against 8 ms for 32 windows of 64 pieces, 73 against 40 ms for 16 of 256).
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode


class Float32Attention(TorchFunctionMode):
    """Within this context attention computes in float32, whichever module calls for it; what it returns has the type of its queries."""

    def __torch_function__(
        self, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """See `torch.overrides`. RETURNS (Any): what the function returns."""
        kwargs = kwargs or {}
        if func is not scaled_dot_product_attention:
            return func(*args, **kwargs)
        query = args[0] if args else kwargs["query"]
        with without_autocast():
            output = func(*map(_to_float32, args), **{name: _to_float32(value) for name, value in kwargs.items()})
        return output.to(query.dtype)


def learns_in_bfloat16(X: Tensor) -> bool:
    """X (Tensor): any. RETURNS (bool): whether this is an update on a CPU in bfloat16, in which attention belongs into float32."""
    return X.device.type == "cpu" and torch.is_autocast_enabled("cpu")


def without_autocast() -> AbstractContextManager:
    """RETURNS (AbstractContextManager): within it what is float32 on a CPU stays so."""
    return torch.autocast("cpu", enabled=False)


def _to_float32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
