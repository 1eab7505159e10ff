"""The state of every random generator that training draws from, as plain values that JSON can hold."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch


def get_random_state() -> dict[str, Any]:
    """RETURNS (dict): states of Python, NumPy and torch, of the latter on the CPU, and on each GPU where one is in use."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = numpy.random.get_state(legacy=True)
    return {
        "python": [version, list(internal), gauss],
        "numpy": [name, numpy.asarray(keys).tolist(), position, has_gauss, cached],
        "torch": torch.get_rng_state().tolist(),
        "cuda": [state.tolist() for state in torch.cuda.get_rng_state_all()] if torch.cuda.is_initialized() else [],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """state (dict): from `get_random_state`."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = state["numpy"]
    numpy.random.set_state((name, numpy.array(keys, dtype="uint32"), *rest))
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    # A machine may have fewer GPUs than the one before; those that are in use come first.
    for device, values in zip(range(torch.cuda.device_count()), state["cuda"], strict=False):
        torch.cuda.set_rng_state(torch.tensor(values, dtype=torch.uint8), device)


class OwnRandom:
    """Python's `random` as its user left it the last time, whatever others draw from it meanwhile.

    state: from `random.getstate()`; the one to begin with.
    """

    def __init__(self, state: Any):
        self.state = state

    @contextmanager
    def use(self) -> Iterator[None]:
        """Within this context `random` goes on from the own state; after it from that of the others."""
        others = random.getstate()
        random.setstate(self.state)
        try:
            yield
        finally:
            self.state = random.getstate()
            random.setstate(others)
