"""The shim of a Hugging Face checkpoint: weights, configuration and tokenizer travel together."""

import re
import tempfile
from pathlib import Path
from typing import Any, cast

import srsly
from thinc.api import get_torch_default_device
from transformers import PreTrainedTokenizerFast

from ..errors import Errors
from ..nn.dropout import replace_dropouts
from ..nn.hidden_states import choose_states
from ..nn.transformer import WindowedTransformer, first_position
from .float32_attention import checkpoint_contexts
from .loading import encoder_part, read_checkpoint, rebuild
from .shim import TorchShim, load_strictly

EMBEDDING_NAME = re.compile(r"embed|\b(?:wte|wpe)\b")
LAYER_NAME = re.compile(r"\.(?:layers?|h|blocks?|layer_groups)\.(\d+)\.")


class CheckpointShim(TorchShim):
    """A `TorchShim` whose module comes from a checkpoint at `initialize`, and from its own bytes ever after.

    precision (str): see `resolve_precision`.
    tokenizer_config (dict): settings for the tokenizer when the checkpoint is read.
    transformer_config (dict): settings that override the checkpoint's configuration when it is read.
    layer (int | str): see `choose_states`.
    frozen_layers (int): layers from the bottom that do not learn, the embeddings with them; 0 freezes nothing.
    gradient_checkpointing (bool): compute the activations of a layer again in the backward pass, instead of keeping them.
    """

    def __init__(
        self,
        *,
        precision: str,
        tokenizer_config: dict[str, Any],
        transformer_config: dict[str, Any],
        layer: int | str = -1,
        frozen_layers: int = 0,
        gradient_checkpointing: bool = False,
    ):
        super().__init__(WindowedTransformer, component="backbone", precision=precision, below_top=self._below_top)
        self._tokenizer: PreTrainedTokenizerFast | None = None
        self._config: Any = None  # of the whole checkpoint, decoder included
        self.tokenizer_config = tokenizer_config
        self.transformer_config = transformer_config
        self.layer = layer
        self.frozen_layers = frozen_layers
        self.gradient_checkpointing = gradient_checkpointing

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

    def load_checkpoint(self, name: str) -> None:
        """Read configuration, weights and tokenizer.

        name (str): see `find_checkpoint`.
        RAISES (ValueError): see `read_checkpoint`.
        """
        self._take(*read_checkpoint(name, self.tokenizer_config, self.transformer_config))

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
        return copied

    def _take(self, transformer: Any, tokenizer: PreTrainedTokenizerFast) -> None:
        if (tokenizer.pad_token_id or 0) >= transformer.get_input_embeddings().num_embeddings:
            tokenizer.pad_token = None  # padding is masked, so it can be any piece, but it must be one
        self._config = transformer.config
        self._tokenizer = tokenizer
        part = encoder_part(transformer).float()
        replace_dropouts(part)
        if self.gradient_checkpointing:
            part.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": checkpoint_contexts})
        # On a GPU zeros cost nothing, but the rows of a sparse gradient would have to be waited for.
        part.get_input_embeddings().sparse = get_torch_default_device().type == "cpu"
        states = choose_states(self.layer, getattr(part.config, "num_hidden_layers", 0))
        self._model = WindowedTransformer(part, states).to(get_torch_default_device()).eval()
        if self.frozen_layers:
            for name, parameter in self._model.named_parameters():
                parameter.requires_grad_(self._below_top(name) < self.n_layers - self.frozen_layers)

    def _below_top(self, name: str) -> int:
        found = LAYER_NAME.search(name)
        if found:
            return self.n_layers - 1 - int(found.group(1))
        return self.n_layers if EMBEDDING_NAME.search(name) else 0


def _tokenizer_files(tokenizer: PreTrainedTokenizerFast) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
