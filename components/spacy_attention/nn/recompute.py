"""Gradient checkpointing computes parts of the forward pass again, where everything that was set up around it is gone."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn

from .float32_attention import Float32Attention


def recompute_contexts(module: nn.Module) -> tuple[AbstractContextManager, AbstractContextManager]:
    """Have the second time compute what the first one did: with dropout, and with attention in float32 under autocast on a CPU.

    `torch.utils.checkpoint` itself restores autocast and the random generators.

    module (nn.Module): whose parts are computed again; in training mode now, and by then perhaps no more.
    RETURNS (tuple): contexts for the first time and for the second, as `torch.utils.checkpoint` wants them.
    """
    return nullcontext(), _as_before(module, in_float32=torch.is_autocast_enabled("cpu"))


@contextmanager
def _as_before(module: nn.Module, *, in_float32: bool) -> Iterator[None]:
    was_training = module.training
    module.train()
    try:
        with Float32Attention() if in_float32 else nullcontext():
            yield
    finally:
        module.train(was_training)
