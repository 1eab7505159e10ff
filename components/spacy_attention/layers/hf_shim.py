"""The shim of a Hugging Face checkpoint: weights, configuration and tokenizer travel together."""

import copy
import hashlib
import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import srsly
import torch
from safetensors import safe_open
from safetensors.torch import save
from thinc.api import get_torch_default_device
from torch import nn
from transformers import PreTrainedTokenizerFast

from ..errors import Errors
from ..nn.dropout import replace_dropouts
from ..nn.hidden_states import choose_states
from ..nn.narrow import narrow_hidden_states
from ..nn.recompute import recompute_contexts
from ..nn.transformer import WindowedTransformer, first_position
from .adapters import BaseWeights, LoraSettings, add_adapters, has_adapters, is_adapter, merge_adapters, write_adapters
from .loading import encoder_part, read_checkpoint, rebuild, weights_checksum
from .shim import TorchShim, load_strictly
from .vector_cache import CacheSettings, VectorCache

EMBEDDING_NAME = re.compile(r"embed|\b(?:wte|wpe)\b")
# What `frozen_layers` calls what lies below all layers.
EMBEDDINGS = "embeddings"
LAYER_NAME = re.compile(r"\.(?:layers?|h|blocks?|layer_groups)\.(\d+)\.")


class CheckpointShim(TorchShim):
    """A `TorchShim` whose module comes from a checkpoint at `initialize`, and from its own bytes ever after.

    precision (str): see `resolve_precision`.
    tokenizer_config (dict): settings for the tokenizer when the checkpoint is read.
    transformer_config (dict): settings that override the checkpoint's configuration when it is read.
    layer (int | str): see `choose_states`.
    frozen_layers (int | str): what does not learn, see `freeze`.
    gradient_checkpointing (bool): compute the activations of a layer again in the backward pass, instead of keeping them.
    lora (LoraSettings | None): adapters that learn in the place of all other weights.
    cache (CacheSettings | None): what an update keeps of the rows while all is frozen.
    """

    def __init__(
        self,
        *,
        precision: str,
        tokenizer_config: dict[str, Any],
        transformer_config: dict[str, Any],
        layer: int | str = -1,
        frozen_layers: int | str = 0,
        gradient_checkpointing: bool = False,
        lora: LoraSettings | None = None,
        cache: CacheSettings | None = None,
    ):
        super().__init__(WindowedTransformer, component="backbone", precision=precision, below_top=self._below_top)
        self._tokenizer: PreTrainedTokenizerFast | None = None
        self._config: Any = None  # of the whole checkpoint, decoder included
        self.tokenizer_config = tokenizer_config
        self.transformer_config = transformer_config
        self.layer = layer
        self.frozen_layers = frozen_layers
        self.gradient_checkpointing = gradient_checkpointing
        self.lora = lora
        self.cache = None if cache is None else VectorCache(cache)
        self._frozen = frozen_layers  # now; a training may change it
        self.n_pieces = 0  # read in updates
        self._base: BaseWeights | None = None  # of the adapters

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The checkpoint's tokenizer. RAISES (ValueError): E105 before `load_checkpoint` or `from_bytes`."""
        if self._tokenizer is None:
            raise ValueError(Errors.E105.format(name=self.component))
        return self._tokenizer

    @property
    def transformer(self) -> Any:
        """The Hugging Face model; of one with encoder and decoder, the encoder."""
        return self.module.transformer

    @property
    def longest(self) -> float:
        """The most pieces that fit into a window, special ones included; infinite where neither model nor tokenizer sets a limit."""
        limit = getattr(self.transformer.config, "max_position_embeddings", None) or float("inf")
        return min(limit - first_position(self.transformer), self.tokenizer.model_max_length)

    @property
    def n_layers(self) -> int:
        """Number of layers of the transformer."""
        return getattr(self.transformer.config, "num_hidden_layers", 0)

    @property
    def is_frozen(self) -> bool:
        """Whether nothing learns."""
        return not any(parameter.requires_grad for parameter in self.module.parameters())

    def freeze(self, frozen: int | str) -> None:
        """Choose what does not learn from the next update on. What is frozen loses its gradient.

        frozen (int | str): how many layers from the bottom, and the embeddings with them; `embeddings` for these alone, 0 for nothing.
        RAISES (ValueError): see `check_frozen`.
        """
        self.check_frozen(frozen)
        self._frozen = frozen
        for name, parameter in self.module.named_parameters():
            parameter.requires_grad_(self._learns(name, frozen))
            if not parameter.requires_grad:
                parameter.grad = None

    def check_frozen(self, frozen: int | str) -> None:
        """frozen (int | str): for `freeze`. RAISES (ValueError): E106 for what these layers do not allow."""
        n_layers, shared = self.n_layers, hasattr(self.transformer.config, "num_hidden_groups")
        if frozen in (0, EMBEDDINGS, n_layers):
            return
        if shared:
            expected = f"0, `{EMBEDDINGS}` or {n_layers} for layers that share their weights"
        else:
            expected = f"`{EMBEDDINGS}` or from 0 to at most {n_layers}, the layers of the checkpoint"
        if shared or not isinstance(frozen, int) or not 0 < frozen < n_layers:
            raise ValueError(Errors.E106.format(field="frozen_layers", expected=expected, found=repr(frozen)))

    def load_checkpoint(self, name: str) -> None:
        """Read configuration, weights and tokenizer.

        name (str): see `find_checkpoint`.
        RAISES (ValueError): see `read_checkpoint`; see `add_adapters`.
        """
        self._take(*read_checkpoint(name, self.tokenizer_config, self.transformer_config))
        if self.lora is not None:
            self._adapt(self.lora, BaseWeights(name, weights_checksum(name)))

    def save_adapter(self, folder: Path) -> None:
        """Write the adapters alone.

        folder (Path): see `write_adapters`.
        RAISES (ValueError): E121 without adapters.
        """
        if self._base is None:
            raise ValueError(Errors.E121)
        write_adapters(self.transformer, folder, self._base)

    def write_unmerged(self, path: Path) -> None:
        """For going on with a training: what `to_bytes` merges cannot be taken apart again.

        path (Path): of a safetensors file, which is not written without adapters.
        """
        if self._base is not None:
            state = {name: x.detach().cpu().contiguous().clone() for name, x in self.module.state_dict().items()}
            path.write_bytes(save(state, metadata={"base": srsly.json_dumps(self._base._asdict())}))

    def read_unmerged(self, path: Path) -> None:
        """path (Path): from `write_unmerged` of a shim with the same settings; without that file nothing changes."""
        if self.lora is None or not path.exists():
            return
        with safe_open(path, framework="pt") as file_:
            base = BaseWeights(**srsly.json_loads(file_.metadata()["base"]))
            state = {name: file_.get_tensor(name) for name in file_.keys()}  # noqa: SIM118
        if not has_adapters(self.module):
            self._adapt(self.lora, base)
        self._base = base
        self.module.load_state_dict(state)

    def prepare_update(self) -> None:
        """Give a pipeline that was loaded its adapters, which are saved merged and which prediction does not need."""
        if self.lora is not None and not has_adapters(self.module):
            self._adapt(self.lora, BaseWeights(None, hashlib.sha256(self._weights_to_bytes() or b"").hexdigest()))

    def begin_update(self, *inputs: Any, dropout: float | None = None) -> tuple[Any, Callable[..., None]]:
        """As `TorchShim.begin_update`. Where all is frozen nothing is kept for a backward pass, as gradient checkpointing still would."""
        self.prepare_update()
        with torch.set_grad_enabled(not self.is_frozen):
            return super().begin_update(*inputs, dropout=dropout)

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): configuration, tokenizer files, and weights as safetensors; empty before `initialize`."""
        if not self.ready:
            return srsly.msgpack_dumps({"weights": None})
        return srsly.msgpack_dumps(
            {
                "config": self._config.to_json_string(use_diff=True),
                "tokenizer": _tokenizer_files(self.tokenizer),
                "weights": self._weights_to_bytes(),
            }
        )

    def from_bytes(self, data: bytes) -> "CheckpointShim":
        """Rebuild from `to_bytes`, without looking any checkpoint up.

        data (bytes): from `to_bytes`.
        RAISES (ValueError): E108 naming weights that do not fit.
        """
        message = srsly.msgpack_loads(data)
        if message["weights"] is None:
            return self
        self._take(*rebuild(message["config"], message["tokenizer"]))
        load_strictly(self.module, message["weights"], what=self.component)
        return self

    def copy(self) -> "CheckpointShim":
        """RETURNS (CheckpointShim): as `TorchShim.copy`, asking its own configuration and not the original's."""
        copied = cast(CheckpointShim, super().copy())
        copied.below_top = copied._below_top
        if self.cache is not None:
            copied.cache = VectorCache(self.cache.settings)
        return copied

    def _take(self, transformer: Any, tokenizer: PreTrainedTokenizerFast) -> None:
        if (tokenizer.pad_token_id or 0) >= transformer.get_input_embeddings().num_embeddings:
            tokenizer.pad_token = None  # padding is masked, so it can be any piece, but it must be one
        self._config = transformer.config
        self._tokenizer = tokenizer
        part = encoder_part(transformer).float()
        replace_dropouts(part)
        narrow_hidden_states(part)
        if self.gradient_checkpointing:
            part.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": partial(recompute_contexts, part)})
        # On a GPU zeros cost nothing, but the rows of a sparse gradient would have to be waited for.
        # An adapter of the table has dense ones.
        part.get_input_embeddings().sparse = get_torch_default_device().type == "cpu" and self.lora is None
        states = choose_states(self.layer, getattr(part.config, "num_hidden_layers", 0))
        self._base = None
        self._model = WindowedTransformer(part, states).to(get_torch_default_device()).eval()
        self.freeze(self.frozen_layers)

    def _adapt(self, settings: LoraSettings, base: BaseWeights) -> None:
        add_adapters(self.transformer, settings)
        self.module.eval()
        self._base = base
        self.freeze(self._frozen)

    def _plain(self) -> nn.Module:
        return merge_adapters(copy.deepcopy(self.module)) if has_adapters(self.module) else self.module

    def _learns(self, name: str, frozen: int | str) -> bool:
        if name.startswith("states."):
            return True  # a learned mix stands above the layers
        if self.lora is not None and not is_adapter(name):
            return False
        levels = 0 if frozen == 0 else 1 if frozen == EMBEDDINGS else int(frozen) + 1
        return self._below_top(name) <= self.n_layers - levels

    def _below_top(self, name: str) -> int:
        found = LAYER_NAME.search(name)
        if found:
            return self.n_layers - 1 - int(found.group(1))
        return self.n_layers if EMBEDDING_NAME.search(name) else 0


def _tokenizer_files(tokenizer: PreTrainedTokenizerFast) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
