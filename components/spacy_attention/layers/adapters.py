"""Low-rank adapters (LoRA, Hu et al. 2022, section 4.1) in a transformer, through the library `peft`.

Only training needs the library: what is saved has the adapters merged into the weights, and is loaded without.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import srsly
import torch
from safetensors.torch import save
from torch import nn

from ..errors import Errors

ATTENTION_NAME = re.compile(r"att(?:entio)?n", re.IGNORECASE)
# Of the keys in an adapter file: the class that peft itself puts around a model.
PREFIX = "base_model.model."


class LoraSettings(NamedTuple):
    """What an adapter is like.

    rank (int): width of its two matrices' inner side, at least 1.
    alpha (int): at least 1; their product is multiplied by alpha / rank.
    dropout (float): in [0, 1), on its input.
    targets (list | str | None): which layers have one: ends of their names, or a pattern for whole names, or `all-linear`; None for what
        peft chooses for the model type, and where it has no choice, all linear layers of attention.
    """

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.0
    targets: list[str] | str | None = None


class BaseWeights(NamedTuple):
    """What an adapter belongs to.

    name (str | None): of the checkpoint; None for a pipeline that was loaded.
    sha256 (str | None): of the weights as safetensors, the checkpoint's or the pipeline's; None for a checkpoint in another format.
    """

    name: str | None
    sha256: str | None


def add_adapters(transformer: nn.Module, settings: LoraSettings) -> None:
    """Put adapters around layers. They change nothing yet, for one of the two matrices is zero; all other weights are frozen.

    transformer (nn.Module): a Hugging Face model, changed in place.
    settings (LoraSettings): of the adapters.
    RAISES (ValueError): E106 for targets that it does not have. (ImportError): E120 without peft.
    """
    try:
        import peft
    except ImportError as err:
        raise ImportError(Errors.E120) from err
    targets = _default_targets(transformer) if settings.targets is None else settings.targets
    config = peft.LoraConfig(r=settings.rank, lora_alpha=settings.alpha, lora_dropout=settings.dropout, target_modules=targets)
    try:
        peft.inject_adapter_in_model(config, transformer)
    except ValueError as err:
        expected = f"names of layers that can have adapters ({err})"
        raise ValueError(Errors.E106.format(field="lora.targets", expected=expected, found=settings.targets)) from err


def is_adapter(name: str) -> bool:
    """name (str): of a weight. RETURNS (bool): whether it is part of an adapter."""
    return ".lora_" in name


def has_adapters(module: nn.Module) -> bool:
    """module (nn.Module): any. RETURNS (bool): whether `add_adapters` changed it."""
    return any(is_adapter(name) for name, _ in module.named_parameters())


def merge_adapters(module: nn.Module) -> nn.Module:
    """module (nn.Module): changed in place. RETURNS (nn.Module): it, as it was built, with the adapters in the weights."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    with torch.no_grad():
        for name, layer in list(module.named_modules()):
            if isinstance(layer, BaseTunerLayer):
                layer.merge()
                module.set_submodule(name, layer.get_base_layer())
    return module


def write_adapters(transformer: Any, folder: Path, base: BaseWeights) -> None:
    """Write `adapter_config.json` and `adapter_model.safetensors` as peft does, and what they belong to as `base.json`.

    transformer: that `add_adapters` changed.
    folder (Path): made if it is not there.
    base (BaseWeights): goes into `base.json`, the name also where peft has it.
    """
    from peft.utils import get_peft_model_state_dict

    folder.mkdir(parents=True, exist_ok=True)
    state = get_peft_model_state_dict(transformer, save_embedding_layers=False)
    weights = {PREFIX + name: x.detach().cpu().contiguous() for name, x in state.items()}
    # Not by `save_file`, which lets nobody else read the file.
    (folder / "adapter_model.safetensors").write_bytes(save(weights))
    (config,) = transformer.peft_config.values()
    config.base_model_name_or_path = base.name
    config.save_pretrained(folder)
    srsly.write_json(folder / "base.json", base._asdict())


def _default_targets(transformer: Any) -> list[str] | None:
    """None where peft has a choice of its own."""
    from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN

    if transformer.config.model_type in KNOWN:
        return None
    return [name for name, part in transformer.named_modules() if isinstance(part, nn.Linear) and ATTENTION_NAME.search(name)]
