"""What an optimizer remembers of each weight, under names that mean the same in another process."""

from collections.abc import Iterator
from typing import Any

import torch
from thinc.api import Optimizer, get_torch_default_device, torch2xp, xp2torch
from torch import Tensor

from ..errors import Errors
from ..types import ParameterKey
from .optimizer import AdamW
from .weights import TORCH

# What the base class of all optimizers keeps, in attributes of these names.
THINC_KINDS = {"mom1", "mom2", "averages", "nr_update"}


def read_moments(optimizer: Optimizer, names: dict[Any, str]) -> dict[str, Tensor]:
    """Take down everything that an optimizer remembers.

    optimizer (Optimizer): ours or Thinc's.
    names (dict): from `weight_names`.
    RETURNS (dict): tensors by `kind:name`.
    RAISES (ValueError): E626 for weights that stand in no component: without them a training could not go on as it was.
    """
    entries = list(_entries(optimizer))
    if unknown := {key[:2] for _, key, _ in entries if key not in names}:
        raise ValueError(Errors.E626.format(n=len(unknown), examples=sorted(name for _, name in unknown)[:3]))
    return {f"{kind}:{names[key]}": value.detach().cpu().contiguous().clone() for kind, key, value in entries}


def write_moments(optimizer: Optimizer, names: dict[Any, str], moments: dict[str, Tensor]) -> None:
    """Give a new optimizer the memory of another.

    optimizer (Optimizer): of the same kind.
    names (dict): from `weight_names`, of the pipeline that it will train.
    moments (dict): from `read_moments`.
    RAISES (ValueError): E633 for a weight that the pipeline does not have.
    """
    by_name: dict[str, dict[str, Tensor]] = {}
    for name, value in moments.items():
        kind, _, weight = name.partition(":")
        by_name.setdefault(weight, {})[kind] = value
    if lost := sorted(by_name.keys() - set(names.values())):
        raise ValueError(Errors.E633.format(n=len(lost), examples=lost[:3]))
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
            getattr(optimizer, kind)[key] = torch2xp(kinds[kind].to(get_torch_default_device()))


def _entries(optimizer: Optimizer) -> Iterator[tuple[str, Any, Tensor]]:
    if isinstance(optimizer, AdamW):
        for key, state in optimizer.moments().items():
            yield from ((kind, key, value) for kind, value in state.items())
    for kind in ("mom1", "mom2", "averages"):
        yield from ((kind, key, xp2torch(array)) for key, array in (getattr(optimizer, kind) or {}).items())
    yield from (("nr_update", key, torch.tensor(n)) for key, n in optimizer.nr_update.items())
