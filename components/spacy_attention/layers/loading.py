"""Reads a checkpoint: configuration, weights and tokenizer. What cannot work or would run foreign code is refused by name."""

import re
import tempfile
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from transformers import MODEL_MAPPING, AutoConfig, AutoModel, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerFast
from transformers.utils import SAFE_WEIGHTS_NAME, cached_file
from transformers.utils import logging as hf_logging

from ..checkpoints import checksum, find_checkpoint, missing_checkpoint_message
from ..errors import Errors
from .pieces import prepare_tokenizer, special_ids, special_tokens

T = TypeVar("T")
# Settings that no config block can change: other values are code of strangers, or a tokenizer without offsets.
SAFE = {"trust_remote_code": False}
SAFE_TOKENIZER = {**SAFE, "use_fast": True}


def read_checkpoint(name: str, tokenizer_config: dict[str, Any], transformer_config: dict[str, Any]) -> tuple[Any, Any]:
    """Find a checkpoint and read it.

    name (str): see `find_checkpoint`.
    tokenizer_config (dict): settings for the tokenizer.
    transformer_config (dict): settings that override the checkpoint's configuration.
    RETURNS (tuple): the model and its fast tokenizer, prepared.
    RAISES (ValueError): E101 to E104 when it cannot be found or has no fast tokenizer, E114 for a model type that cannot work, E115
        for weights that cannot be read safely, E116 for a checkpoint with code of its own, E117 for incomplete weights, E118
        for a tokenizer with more pieces than the model.
    """
    source = find_checkpoint(name)
    config = _read_config(source, name, transformer_config)
    tokenizer = _read_tokenizer(source, name, tokenizer_config)
    transformer = _read_weights(source, name, config)
    check_transformer(encoder_part(transformer), name)
    check_vocabulary(transformer, tokenizer, name)
    return transformer, tokenizer


def rebuild(config: str, tokenizer_files: dict[str, bytes]) -> tuple[Any, Any]:
    """Make model and tokenizer again from what `CheckpointShim.to_bytes` wrote; the weights are still random.

    config (str): config.json.
    tokenizer_files (dict): content of each file by its name.
    RETURNS (tuple): as `read_checkpoint`.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(config, encoding="utf8")
        for name, content in tokenizer_files.items():
            Path(folder, name).write_bytes(content)
        read = AutoConfig.from_pretrained(folder, **SAFE)
        tokenizer = AutoTokenizer.from_pretrained(folder, **SAFE_TOKENIZER)
    return AutoModel.from_config(read, **SAFE), prepare_tokenizer(tokenizer)


def weights_checksum(name: str) -> str | None:
    """name (str): see `find_checkpoint`. RETURNS (str | None): sha256 of `model.safetensors`; None for weights in another format."""
    path = cached_file(find_checkpoint(name), SAFE_WEIGHTS_NAME, _raise_exceptions_for_missing_entries=False)
    return None if path is None else checksum(Path(path))


def encoder_part(transformer: Any) -> Any:
    """transformer: any Hugging Face model. RETURNS: its encoder if it also has a decoder that wants a text, else itself."""
    return transformer.get_encoder() if "decoder_input_ids" in signature(transformer.forward).parameters else transformer


def check_transformer(transformer: Any, name: str) -> None:
    """Run a model on two pieces.

    transformer: what `encoder_part` gives.
    name (str): of the checkpoint.
    RAISES (ValueError): E114 if it does not give one vector per piece.
    """
    config = transformer.config
    missing = [x for x in ("input_ids", "attention_mask") if x not in signature(transformer.forward).parameters]
    if missing:
        raise _unfit(name, config.model_type, f"its forward takes no {' and no '.join(missing)}")
    ids = torch.zeros((1, 2), dtype=torch.int64)
    try:
        # No inference mode: some models keep what they computed here, and training could not use that.
        with torch.no_grad():
            hidden = transformer(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    except Exception as err:
        raise _unfit(name, config.model_type, f"it does not run on pieces of text alone ({type(err).__name__}: {err})") from err
    expected = (1, 2, config.hidden_size)
    if hidden.shape != expected:
        raise _unfit(name, config.model_type, f"two pieces give states of shape {tuple(hidden.shape)}, not {expected}")


def check_vocabulary(transformer: Any, tokenizer: PreTrainedTokenizerFast, name: str) -> None:
    """See that the model has a vector for each piece that can come out of a text.

    transformer, tokenizer: of the checkpoint.
    name (str): of the checkpoint.
    RAISES (ValueError): E118 naming pieces without a vector.
    """
    rows, frame = transformer.get_input_embeddings().num_embeddings, special_ids(tokenizer)
    unused = set(special_tokens(tokenizer).ids.tolist()) - {tokenizer.unk_token_id, *frame.before, *frame.after}
    beyond = sorted(token for token, i in tokenizer.get_vocab().items() if i >= rows and i not in unused)
    if beyond:
        listed = ", ".join(beyond[:5]) + (", ..." if len(beyond) > 5 else "")
        raise ValueError(Errors.E118.format(name=name, rows=rows, n=len(beyond), tokens=listed))


def _read_config(source: str, name: str, settings: dict[str, Any]) -> Any:
    try:
        written, _ = PretrainedConfig.get_config_dict(source)
    except OSError as err:
        raise ValueError(missing_checkpoint_message(name)) from err
    _refuse_code(written.get("auto_map"), name)
    try:
        config = AutoConfig.from_pretrained(source, **{**settings, **SAFE})
        classes = MODEL_MAPPING[type(config)]
    except (ValueError, KeyError) as err:
        reason = "the installed version of transformers has no such model, or none without a task of its own"
        raise _unfit(name, written.get("model_type"), reason) from err
    for model in classes if isinstance(classes, tuple) else (classes,):
        if "input_ids" not in signature(model.forward).parameters:
            raise _unfit(name, config.model_type, "its forward takes no input_ids")
    return config


def _read_tokenizer(source: str, name: str, settings: dict[str, Any]) -> PreTrainedTokenizerFast:
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **{**settings, **SAFE_TOKENIZER})
    except (OSError, ValueError, ImportError) as err:
        if "trust_remote_code" in str(err):
            _refuse_code({"AutoTokenizer": "its tokenizer"}, name)
        raise ValueError(Errors.E104.format(name=name)) from err
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(Errors.E104.format(name=name))
    return prepare_tokenizer(tokenizer)


def _read_weights(source: str, name: str, config: Any) -> Any:
    def load() -> tuple[Any, dict[str, Any]]:
        # Weights of another shape are reported below, together with those that are missing.
        how = {**SAFE, "weights_only": True, "ignore_mismatched_sizes": True, "output_loading_info": True}
        return AutoModel.from_pretrained(source, config=config, **how)

    try:
        transformer, report = _quietly(load)
    except (OSError, SafetensorError) as err:
        raise ValueError(Errors.E115.format(name=name, file=_weights_file(source, err))) from err
    # Some versions of transformers give the two shapes with the name.
    misshapen = (key if isinstance(key, str) else key[0] for key in report["mismatched_keys"])
    unread = {*report["missing_keys"], *misshapen}
    used = {id(weight) for weight in encoder_part(transformer).parameters()}
    names: dict[int, list[str]] = {}
    for key, weight in transformer.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(key)
    # Weights with several names are read under any of them. Nothing here reads from a pooler, and many checkpoints have none.
    random = [keys[0] for i, keys in names.items() if i in used and unread.issuperset(keys) and "pooler" not in keys[0]]
    if random:
        listed = ", ".join(random[:5]) + (", ..." if len(random) > 5 else "")
        raise ValueError(Errors.E117.format(name=name, n=len(random), total=len(used), names=listed))
    return transformer


def _weights_file(source: str, err: Exception) -> str:
    """The file that an error of transformers names, else the first of the folder's files of weights."""
    named = re.search(r"'([^']+\.(?:bin|safetensors))'", str(err))
    folder = Path(source)
    found = [str(path) for path in sorted(folder.glob("*.safetensors")) + sorted(folder.glob("*.bin"))]
    return named[1] if named else (found or [source])[0]


def _refuse_code(auto_map: Any, name: str) -> None:
    if auto_map:
        raise ValueError(Errors.E116.format(name=name, code=", ".join(map(str, auto_map))))


def _unfit(name: str, model_type: str | None, reason: str) -> ValueError:
    return ValueError(Errors.E114.format(name=name, model_type=model_type, reason=reason))


def _quietly(load: Callable[[], T]) -> T:
    """Without the advice to train a pooler that nothing here uses."""
    level = hf_logging.get_verbosity()
    hf_logging.set_verbosity_error()
    try:
        return load()
    finally:
        hf_logging.set_verbosity(level)
