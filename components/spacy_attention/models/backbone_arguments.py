"""What the arguments of the backbone may be: by themselves, and for the checkpoint that was read."""

from ..errors import Errors
from ..layers.hf_shim import CheckpointShim
from ..layers.precision import PRECISIONS


def check_arguments(*, precision: str, window: int, stride: int, budget: int, layer: int | str, frozen_layers: int) -> None:
    """RAISES (ValueError): E106 naming the argument that is out of its range."""
    if precision not in PRECISIONS:
        raise ValueError(Errors.E106.format(field="precision", expected=f"one of {PRECISIONS}", found=repr(precision)))
    if window < 3:
        raise ValueError(Errors.E106.format(field="window", expected="at least 3 pieces", found=window))
    if not 1 <= stride <= window:
        raise ValueError(Errors.E106.format(field="stride", expected=f"between 1 and the window, {window}", found=stride))
    if layer != "mix" and not isinstance(layer, int):
        raise ValueError(Errors.E106.format(field="layer", expected="a number or `mix`", found=repr(layer)))
    if frozen_layers < 0:
        raise ValueError(Errors.E106.format(field="frozen_layers", expected="at least 0", found=frozen_layers))
    if budget < 1:
        raise ValueError(Errors.E106.format(field="budget", expected="at least 1 piece", found=budget))


def check_fits(shim: CheckpointShim, name: str, window: int) -> None:
    """RAISES (ValueError): E106 for an argument that is right in itself, but not for this checkpoint."""
    n_layers, shared = shim.n_layers, getattr(shim.transformer.config, "num_hidden_groups", None)
    if window > shim.longest:
        raise ValueError(Errors.E106.format(field="window", expected=f"at most {shim.longest} pieces for '{name}'", found=window))
    if shim.layer != "mix" and not -n_layers - 1 <= int(shim.layer) <= n_layers:
        expected = f"`mix` or between {-n_layers - 1} and {n_layers} for '{name}'"
        raise ValueError(Errors.E106.format(field="layer", expected=expected, found=shim.layer))
    if shared is not None and shim.frozen_layers:
        expected = f"0 for '{name}', whose layers share their weights"
        raise ValueError(Errors.E106.format(field="frozen_layers", expected=expected, found=shim.frozen_layers))
    if shim.frozen_layers > n_layers:
        raise ValueError(
            Errors.E106.format(field="frozen_layers", expected=f"at most {n_layers} for '{name}'", found=shim.frozen_layers)
        )
    if shim.gradient_checkpointing and not shim.transformer.supports_gradient_checkpointing:
        expected = f"false for '{name}', whose code has no support for it"
        raise ValueError(Errors.E106.format(field="gradient_checkpointing", expected=expected, found=True))
