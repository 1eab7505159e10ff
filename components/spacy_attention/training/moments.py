"""What an optimizer remembers of each weight, under names that mean the same in another process."""

from collections.abc import Iterator
from typing import Any

import torch
from spacy.language import Language
from thinc.api import Optimizer, torch2xp, xp2torch
from torch import Tensor

from ..types import ParameterKey
from .optimizer import AdamW

# Stands in the name of every torch weight.
TORCH = "/torch/"
# What the base class of all optimizers keeps, in attributes of these names.
THINC_KINDS = {"mom1", "mom2", "averages", "nr_update"}


def weight_names(nlp: Language) -> dict[Any, str]:
    """Name every weight by its place in the pipeline; optimizers know it by numbers that are new in each process.

    nlp (Language): initialized.
    RETURNS (dict): the keys under which optimizers may know a weight, and its name.
    """
    names: dict[Any, str] = {}
    for pipe_name, pipe in nlp.components:
        for i, node in enumerate(pipe.model.walk()) if hasattr(pipe, "model") and pipe.model not in (True, False, None) else ():
            names |= {(node.id, name): f"{pipe_name}/{i}/{name}" for name in node.param_names}
            for shim in node.shims:
                for key in _torch_keys(shim):
                    names[key] = names[key[:2]] = f"{pipe_name}/{i}{TORCH}{key.name}"
    return names


def read_moments(optimizer: Optimizer, names: dict[Any, str]) -> dict[str, Tensor]:
    """RETURNS (dict): tensors by `kind:name`. optimizer (Optimizer): ours or Thinc's. names (dict): from `weight_names`."""
    found = {f"{kind}:{names[key]}": value.detach().cpu() for kind, key, value in _entries(optimizer) if key in names}
    return {name: value.contiguous().clone() for name, value in found.items()}


def write_moments(optimizer: Optimizer, names: dict[Any, str], moments: dict[str, Tensor]) -> None:
    """Give a new optimizer the memory of another.

    optimizer (Optimizer): of the same kind.
    names (dict): from `weight_names`, of the pipeline that it will train.
    moments (dict): from `read_moments`.
    """
    by_name: dict[str, dict[str, Tensor]] = {}
    for name, value in moments.items():
        kind, _, weight = name.partition(":")
        by_name.setdefault(weight, {})[kind] = value
    if isinstance(optimizer, AdamW):
        own = {key: name for key, name in names.items() if isinstance(key, ParameterKey) or TORCH not in name}
        optimizer.restore({key: _of_torch(by_name[name]) for key, name in own.items() if name in by_name})
    for key, name in names.items():
        # Of a torch weight two keys have the name; this is the one that Thinc and `use_params` know.
        if not isinstance(key, ParameterKey):
            _restore_in_thinc(optimizer, key, by_name.get(name, {}))


def _of_torch(kinds: dict[str, Tensor]) -> dict[str, Tensor]:
    return {kind: value for kind, value in kinds.items() if kind not in THINC_KINDS}


def _restore_in_thinc(optimizer: Optimizer, key: Any, kinds: dict[str, Tensor]) -> None:
    for kind in THINC_KINDS & kinds.keys():
        if kind == "nr_update":
            optimizer.nr_update[key] = int(kinds[kind])
        else:
            getattr(optimizer, kind)[key] = torch2xp(kinds[kind])


def _torch_keys(shim: Any) -> Iterator[Any]:
    """Keys of the weights of a shim of ours, and of a stock one by the names that torch gives them."""
    if hasattr(shim, "parameters"):
        yield from (key for key, _ in shim.parameters())


def _entries(optimizer: Optimizer) -> Iterator[tuple[str, Any, Tensor]]:
    if isinstance(optimizer, AdamW):
        for key, state in optimizer.moments().items():
            yield from ((kind, key, value) for kind, value in state.items())
    for kind in ("mom1", "mom2", "averages"):
        yield from ((kind, key, xp2torch(array)) for key, array in (getattr(optimizer, kind) or {}).items())
    yield from (("nr_update", key, torch.tensor(n)) for key, n in optimizer.nr_update.items())
