"""`spacy-attention.TransformerBackbone.v1`: a Hugging Face checkpoint as a shared backbone."""

from collections.abc import Callable
from typing import Any

from spacy.tokens import Doc
from thinc.api import Model

from ..checkpoints import DEFAULT_CHECKPOINT
from ..layers.backbone import BackboneBatch, backbone_layer
from ..layers.hf_shim import CheckpointShim
from .backbone_arguments import cache_settings, check_arguments, check_fits, lora_settings
from .standalone_backbone import replace_listener, replace_listener_cfg
from .stock_arguments import check_grad_scaler, check_span_getter, choose_precision, tokenizer_settings


def build_transformer_backbone(
    name: str = DEFAULT_CHECKPOINT,
    *,
    precision: str = "auto",
    window: int = 256,
    stride: int = 224,
    budget: int = 4096,
    truncate: bool = False,
    layer: int | str = -1,
    frozen_layers: int | str = 0,
    gradient_checkpointing: bool = False,
    lora: dict[str, Any] | None = None,
    cache: dict[str, Any] | None = None,
    output_attentions: bool = False,
    tokenizer_config: dict[str, Any] = {},  # noqa: B006 (confection fills arguments; never changed)
    transformer_config: dict[str, Any] = {},  # noqa: B006
    get_spans: Callable[..., Any] | None = None,
    mixed_precision: bool = False,
    grad_scaler_config: dict[str, Any] | None = None,
) -> Model[list[Doc], BackboneBatch]:
    """A transformer that reads whole documents through overlapping windows of word pieces.

    name (str): folder of a checkpoint, or its name; looked up at `initialize` only.
    precision (str): `auto`, `float32` or `bfloat16`, of the forward pass; what comes out is float32.
    window (int): pieces per window, special ones included; at most what the checkpoint was trained for.
    stride (int): pieces from the start of one window to that of the next.
    budget (int): pieces per forward pass, padding included; bounds the peak memory.
    truncate (bool): cut every document after one window instead of reading on; what that costs is counted in the document's report.
    layer (int | str): which hidden state comes out: -1 the last, 0 the embeddings, n that of the n-th layer (negative ones count from
        the last), or `mix`, a learned mean of all.
    frozen_layers (int | str): layers from the bottom that do not learn, the embeddings with them; `embeddings` for these alone, the
        number of layers for the whole checkpoint, 0 for nothing.
    gradient_checkpointing (bool): in training keep the input of each layer only, and compute the rest again: less memory, more time.
    lora (dict | None): adapters that learn in the place of the weights: `rank`, `alpha`, `dropout` and `targets` of `LoraSettings`.
    cache (dict | None): while the whole checkpoint is frozen, updates keep its rows of every document: `megabytes` and `folder` of
        `CacheSettings`. They are then those of prediction, without dropout.
    output_attentions (bool): in prediction also give the attention weights of the checkpoint's layers; runs it a second time.
    tokenizer_config (dict): settings for the tokenizer, used at `initialize`.
    transformer_config (dict): settings that override the checkpoint's configuration, used at `initialize`: for instance
        `{"hidden_dropout_prob": 0.0}`.
    get_spans, mixed_precision, grad_scaler_config: of a stock transformer's config, see `stock_arguments`. The first and the last
        change nothing here; `mixed_precision` makes `auto` mean `bfloat16`.
    RETURNS (Model): documents in, `BackboneBatch` out.
    RAISES (ValueError): E106 for an argument out of its range, E112 and E113 for a stock one that cannot be followed.
    """
    check_arguments(precision=precision, window=window, stride=stride, budget=budget, layer=layer, frozen_layers=frozen_layers)
    check_span_getter(get_spans)
    check_grad_scaler(grad_scaler_config)
    shim = CheckpointShim(
        precision=choose_precision(precision, mixed_precision),
        tokenizer_config=tokenizer_settings(tokenizer_config),
        transformer_config=dict(transformer_config),
        layer=layer,
        frozen_layers=frozen_layers,
        gradient_checkpointing=gradient_checkpointing,
        lora=lora_settings(lora),
        cache=cache_settings(cache),
    )
    attrs = {
        "name": name,
        "window": window,
        "stride": stride,
        "budget": budget,
        "truncate": truncate,
        "output_attentions": output_attentions,
        "replace_listener": replace_listener,
        "replace_listener_cfg": replace_listener_cfg,
    }
    return backbone_layer(shim, attrs, init)


def init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Read the checkpoint, unless the model has its weights already.

    model (Model): from `build_transformer_backbone`.
    RAISES (ValueError): E101 to E104 for the checkpoint, E106 for a window it cannot take.
    """
    shim: CheckpointShim = model.shims[0]
    if shim.ready:
        return
    shim.load_checkpoint(model.attrs["name"])
    check_fits(shim, model.attrs["name"], model.attrs["window"])
    model.set_dim("nO", shim.transformer.config.hidden_size)
