"""What an optimizer remembers of each weight, under names that mean the same in another process."""

from collections.abc import Iterator
from typing import Any

import torch
from spacy.language import Language
from thinc.api import Model, Optimizer, torch2xp, xp2torch
from torch import Tensor, nn

from ..errors import Errors
from ..types import ParameterKey
from .optimizer import AdamW

# Stands in the name of every weight of our shims.
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
        model = getattr(pipe, "model", None)
        for i, node in enumerate(model.walk() if isinstance(model, Model) else ()):
            where = f"{pipe_name}/{i}"
            names |= {(node.id, name): f"{where}/{name}" for name in node.param_names}
            for shim in node.shims:
                names |= _names_in(shim, where)
    return names


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


def _names_in(shim: Any, where: str) -> dict[Any, str]:
    """Names of the weights of a shim: of ours under both kinds of keys, of Thinc's own for torch under the one that it has."""
    if hasattr(shim, "parameters"):
        return {form: f"{where}{TORCH}{key.name}" for key, _ in shim.parameters() for form in (key, key[:2])}
    module = getattr(shim, "_model", None)
    names = (name for name, _ in module.named_parameters()) if isinstance(module, nn.Module) else ()
    return {(shim.id, name): f"{where}/thinc-torch/{name}" for name in names}


def _entries(optimizer: Optimizer) -> Iterator[tuple[str, Any, Tensor]]:
    if isinstance(optimizer, AdamW):
        for key, state in optimizer.moments().items():
            yield from ((kind, key, value) for kind, value in state.items())
    for kind in ("mom1", "mom2", "averages"):
        yield from ((kind, key, xp2torch(array)) for key, array in (getattr(optimizer, kind) or {}).items())
    yield from (("nr_update", key, torch.tensor(n)) for key, n in optimizer.nr_update.items())
