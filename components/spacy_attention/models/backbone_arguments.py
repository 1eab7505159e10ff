"""What the arguments of the backbone may be: by themselves, and for the checkpoint that was read."""

from typing import Any

from ..errors import Errors
from ..layers.adapters import LoraSettings
from ..layers.hf_shim import EMBEDDINGS, CheckpointShim
from ..layers.precision import PRECISIONS
from ..layers.vector_cache import CacheSettings


def check_arguments(*, precision: str, window: int, stride: int, budget: int, layer: int | str, frozen_layers: int | str) -> None:
    """RAISES (ValueError): E106 naming the argument that is out of its range."""
    if precision not in PRECISIONS:
        raise ValueError(Errors.E106.format(field="precision", expected=f"one of {PRECISIONS}", found=repr(precision)))
    if window < 3:
        raise ValueError(Errors.E106.format(field="window", expected="at least 3 pieces", found=window))
    if not 1 <= stride <= window:
        raise ValueError(Errors.E106.format(field="stride", expected=f"between 1 and the window, {window}", found=stride))
    if layer != "mix" and not isinstance(layer, int):
        raise ValueError(Errors.E106.format(field="layer", expected="a number or `mix`", found=repr(layer)))
    if frozen_layers != EMBEDDINGS and not (isinstance(frozen_layers, int) and frozen_layers >= 0):
        expected = f"a number, at least 0, or `{EMBEDDINGS}`"
        raise ValueError(Errors.E106.format(field="frozen_layers", expected=expected, found=repr(frozen_layers)))
    if budget < 1:
        raise ValueError(Errors.E106.format(field="budget", expected="at least 1 piece", found=budget))


def lora_settings(block: dict[str, Any] | None) -> LoraSettings | None:
    """block (dict | None): the argument `lora`. RETURNS (LoraSettings | None): it, filled. RAISES (ValueError): E106."""
    if block is None:
        return None
    _check_fields("lora", block, LoraSettings._fields)
    settings = LoraSettings(**block)
    checks = {
        "rank": (isinstance(settings.rank, int) and settings.rank >= 1, "a number, at least 1"),
        "alpha": (isinstance(settings.alpha, int) and settings.alpha >= 1, "a number, at least 1"),
        "dropout": (isinstance(settings.dropout, int | float) and 0 <= settings.dropout < 1, "from 0 to below 1"),
        "targets": (settings.targets is None or isinstance(settings.targets, str | list), "null, a string or a list of strings"),
    }
    _check_values("lora", settings._asdict(), checks)
    return settings


def cache_settings(block: dict[str, Any] | None) -> CacheSettings | None:
    """block (dict | None): the argument `cache`. RETURNS (CacheSettings | None): it, filled. RAISES (ValueError): E106."""
    if block is None:
        return None
    _check_fields("cache", block, CacheSettings._fields)
    settings = CacheSettings(**block)
    checks = {
        "megabytes": (isinstance(settings.megabytes, int) and settings.megabytes >= 1, "a number, at least 1"),
        "folder": (settings.folder is None or isinstance(settings.folder, str), "null or the path of a folder"),
    }
    _check_values("cache", settings._asdict(), checks)
    return settings


def _check_fields(name: str, block: dict[str, Any], fields: tuple[str, ...]) -> None:
    if unknown := sorted(block.keys() - set(fields)):
        raise ValueError(Errors.E106.format(field=name, expected=f"a block of {fields}", found=unknown))


def _check_values(name: str, values: dict[str, Any], checks: dict[str, tuple[bool, str]]) -> None:
    for field, (right, expected) in checks.items():
        if not right:
            raise ValueError(Errors.E106.format(field=f"{name}.{field}", expected=expected, found=repr(values[field])))


def check_fits(shim: CheckpointShim, name: str, window: int) -> None:
    """RAISES (ValueError): E106 for an argument that is right in itself, but not for this checkpoint."""
    n_layers = shim.n_layers
    if window > shim.longest:
        raise ValueError(Errors.E106.format(field="window", expected=f"at most {shim.longest} pieces for '{name}'", found=window))
    if shim.layer != "mix" and not -n_layers - 1 <= int(shim.layer) <= n_layers:
        expected = f"`mix` or between {-n_layers - 1} and {n_layers} for '{name}'"
        raise ValueError(Errors.E106.format(field="layer", expected=expected, found=shim.layer))
    if shim.gradient_checkpointing and not shim.transformer.supports_gradient_checkpointing:
        expected = f"false for '{name}', whose code has no support for it"
        raise ValueError(Errors.E106.format(field="gradient_checkpointing", expected=expected, found=True))
