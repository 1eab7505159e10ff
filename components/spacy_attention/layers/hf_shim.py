"""The shim of a Hugging Face checkpoint: weights, configuration and tokenizer travel together."""

import re
import tempfile
from pathlib import Path
from typing import Any, cast

import srsly
from thinc.api import get_torch_default_device
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging as hf_logging

from ..checkpoints import find_checkpoint, missing_checkpoint_message
from ..errors import Errors
from ..nn.transformer import WindowedTransformer
from .pieces import prepare_tokenizer
from .shim import TorchShim, load_strictly

LAYER_NAME = re.compile(r"\.(?:layers?|h|blocks?|layer_groups)\.(\d+)\.")


class CheckpointShim(TorchShim):
    """A `TorchShim` whose module comes from a checkpoint at `initialize`, and from its own bytes ever after.

    precision (str): see `resolve_precision`.
    tokenizer_config (dict): settings for the tokenizer when the checkpoint is read.
    transformer_config (dict): settings that override the checkpoint's configuration when it is read.
    """

    def __init__(self, *, precision: str, tokenizer_config: dict[str, Any], transformer_config: dict[str, Any]):
        super().__init__(WindowedTransformer, component="backbone", precision=precision, below_top=self._below_top)
        self._tokenizer: PreTrainedTokenizerFast | None = None
        self.tokenizer_config = tokenizer_config
        self.transformer_config = transformer_config

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The checkpoint's tokenizer. RAISES (ValueError): E105 before `load_checkpoint` or `from_bytes`."""
        if self._tokenizer is None:
            raise ValueError(Errors.E105.format(name=self.component))
        return self._tokenizer

    @property
    def transformer(self) -> Any:
        """The Hugging Face model."""
        return self.module.transformer

    def load_checkpoint(self, name: str) -> None:
        """Read configuration, weights and tokenizer.

        name (str): see `find_checkpoint`.
        RAISES (ValueError): E101 to E104, when it cannot be found, read or used.
        """
        source = find_checkpoint(name)
        try:
            config = AutoConfig.from_pretrained(source, trust_remote_code=False, **self.transformer_config)
            tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, use_fast=True, **self.tokenizer_config)
            transformer = _quietly(lambda: AutoModel.from_pretrained(source, config=config, trust_remote_code=False))
        except OSError as err:
            raise ValueError(missing_checkpoint_message(name)) from err
        self._take(transformer, tokenizer, name)

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): configuration, tokenizer files, and weights as safetensors; empty before `initialize`."""
        if not self.ready:
            return srsly.msgpack_dumps({"weights": None})
        return srsly.msgpack_dumps(
            {
                "config": self.transformer.config.to_json_string(use_diff=True),
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
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(message["config"], encoding="utf8")
            for name, content in message["tokenizer"].items():
                Path(folder, name).write_bytes(content)
            config = AutoConfig.from_pretrained(folder)
            tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True)
        self._take(AutoModel.from_config(config), tokenizer, "saved pipeline")
        load_strictly(self.module, message["weights"], what=self.component)
        return self

    def copy(self) -> "CheckpointShim":
        """RETURNS (CheckpointShim): as `TorchShim.copy`, asking its own configuration and not the original's."""
        copied = cast(CheckpointShim, super().copy())
        copied.below_top = copied._below_top
        return copied

    def _take(self, transformer: Any, tokenizer: Any, name: str) -> None:
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise ValueError(Errors.E104.format(name=name))
        self._tokenizer = prepare_tokenizer(tokenizer)
        self._model = WindowedTransformer(transformer.float()).to(get_torch_default_device()).eval()

    def _below_top(self, name: str) -> int:
        layers = getattr(self.transformer.config, "num_hidden_layers", 0)
        found = LAYER_NAME.search(name)
        if found:
            return layers - 1 - int(found.group(1))
        return layers if "embed" in name else 0


def _tokenizer_files(tokenizer: PreTrainedTokenizerFast) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def _quietly(load: Any) -> Any:
    """Without the advice to train a pooler that nothing here uses."""
    level = hf_logging.get_verbosity()
    hf_logging.set_verbosity_error()
    try:
        return load()
    finally:
        hf_logging.set_verbosity(level)
