"""The gradients of a step: one norm over all of them, and dense ones for the optimizer.

Those of an embedding table on a CPU are sparse, for a batch touches few of its rows: writing zeros to all others, and reading them for the
norm, would take as long as a tenth of a step of MiniLM, whose table is half of its weights.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """gradients (Sequence[Tensor]): of a step; sparse ones coalesced. RETURNS (Tensor): scalar, the norm of all of them together."""
    values = [gradient.values() if gradient.is_sparse else gradient for gradient in gradients]
    return torch.nn.utils.get_total_norm(values, foreach=True)


class Buffers:
    """Per table a dense gradient that is made once, zero but during a step."""

    def __init__(self) -> None:
        self._buffers: dict[nn.Parameter, Tensor] = {}

    @contextmanager
    def attach(self, parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> Iterator[None]:
        """Within this context the parameters have these gradients, dense; after it those that they had before.

        parameters (Sequence[Parameter]): of a step. gradients (Sequence[Tensor]): of each; sparse ones coalesced.
        """
        before = [parameter.grad for parameter in parameters]
        pairs = list(zip(parameters, gradients, strict=True))
        for parameter, gradient in pairs:
            parameter.grad = self._fill(parameter, gradient) if gradient.is_sparse else gradient
        try:
            yield
        finally:
            for (parameter, gradient), grad in zip(pairs, before, strict=True):
                if gradient.is_sparse:
                    self._buffers[parameter].index_fill_(0, gradient.indices()[0], 0.0)
                parameter.grad = grad

    def forget(self, parameter: nn.Parameter) -> None:
        """parameter (Parameter): is no longer trained."""
        self._buffers.pop(parameter, None)

    def _fill(self, parameter: nn.Parameter, gradient: Tensor) -> Tensor:
        if parameter not in self._buffers:
            self._buffers[parameter] = torch.zeros_like(parameter, requires_grad=False)
        return self._buffers[parameter].index_copy_(0, gradient.indices()[0], gradient.values())
