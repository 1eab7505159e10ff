"""Every weight of a pipeline by its place there; optimizers know it by numbers that are new in each process."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from spacy.language import Language
from thinc.api import Model, to_numpy, torch2xp
from torch import nn

from ..types import ParameterKey
from .optimizer import AdamW

# Stands in the name of every weight of our shims.
TORCH = "/torch/"


class Weight(NamedTuple):
    """A weight.

    name (str): the same in every process that has the pipeline.
    keys (tuple): under which optimizers may know it.
    read (Callable): gives its values, as bytes.
    collect_zeros (Callable): gives an optimizer of ours, the first argument, a gradient of zeros, sparse if the second one says so.
    """

    name: str
    keys: tuple[Any, ...]
    read: Callable[[], bytes]
    collect_zeros: Callable[[AdamW, bool], None]


def find_weights(nlp: Language) -> Iterator[Weight]:
    """nlp (Language): initialized. YIELDS (Weight): Thinc's arrays, weights of our shims, and those of Thinc's own shim for torch."""
    for pipe_name, pipe in nlp.components:
        model = getattr(pipe, "model", None)
        for i, node in enumerate(model.walk() if isinstance(model, Model) else ()):
            where = f"{pipe_name}/{i}"
            for name in node.param_names:
                if node.has_param(name):
                    read, zeros = partial(_read_array, node, name), partial(_array_zeros, node, name)
                    yield Weight(f"{where}/{name}", ((node.id, name),), read, zeros)
            for shim in node.shims:
                yield from _find_in(shim, where)


def weight_names(nlp: Language) -> dict[Any, str]:
    """nlp (Language): initialized. RETURNS (dict): the keys under which optimizers may know a weight, and its name."""
    return {key: weight.name for weight in find_weights(nlp) for key in weight.keys}


def _find_in(shim: Any, where: str) -> Iterator[Weight]:
    if hasattr(shim, "parameters"):
        for key, parameter in shim.parameters():
            read, zeros = partial(_read_parameter, parameter), partial(_parameter_zeros, key, parameter)
            yield Weight(f"{where}{TORCH}{key.name}", (key, key[:2]), read, zeros)
        return
    module = getattr(shim, "_model", None)
    for name, parameter in module.named_parameters() if isinstance(module, nn.Module) else ():
        key = (shim.id, name)
        read, zeros = partial(_read_parameter, parameter), partial(_foreign_zeros, key, parameter)
        yield Weight(f"{where}/thinc-torch/{name}", (key,), read, zeros)


def _read_array(node: Model, name: str) -> bytes:
    return to_numpy(node.get_param(name)).tobytes()


def _read_parameter(parameter: nn.Parameter) -> bytes:
    return parameter.detach().cpu().numpy().tobytes()


def _array_zeros(node: Model, name: str, optimizer: AdamW, is_sparse: bool) -> None:
    weights = node.get_param(name)
    optimizer((node.id, name), weights, node.ops.xp.zeros_like(weights))


def _parameter_zeros(key: ParameterKey, parameter: nn.Parameter, optimizer: AdamW, is_sparse: bool) -> None:
    parameter.grad = _empty(parameter) if is_sparse else torch.zeros_like(parameter)
    optimizer.collect_parameter(key, parameter)


def _foreign_zeros(key: tuple[int, str], parameter: nn.Parameter, optimizer: AdamW, is_sparse: bool) -> None:
    optimizer(key, torch2xp(parameter.data), torch2xp(torch.zeros_like(parameter.data)))


def _empty(table: nn.Parameter) -> torch.Tensor:
    """A gradient of an embedding table of which no row was looked up."""
    rows = torch.zeros((1, 0), dtype=torch.int64, device=table.device)
    return torch.sparse_coo_tensor(rows, table.new_zeros((0, *table.shape[1:])), table.shape, check_invariants=False)
