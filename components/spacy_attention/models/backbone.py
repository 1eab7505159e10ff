"""`spacy-attention.TransformerBackbone.v1`: a Hugging Face checkpoint as a shared backbone, or inside one component."""

from typing import Any

from spacy.tokens import Doc
from thinc.api import Model, chain
from thinc.types import Ragged

from ..checkpoints import DEFAULT_CHECKPOINT
from ..errors import Errors
from ..layers.backbone import BackboneBatch, backbone_layer
from ..layers.hf_shim import CheckpointShim
from ..layers.listener import get_link
from ..layers.precision import PRECISIONS
from ..layers.token_vectors import pool_pieces

STANDALONE = "spacy-attention.StandaloneBackbone.v1"


def build_transformer_backbone(
    name: str = DEFAULT_CHECKPOINT,
    *,
    precision: str = "auto",
    window: int = 256,
    stride: int = 192,
    budget: int = 4096,
    tokenizer_config: dict[str, Any] = {},  # noqa: B006 (confection fills arguments; never changed)
    transformer_config: dict[str, Any] = {},  # noqa: B006
) -> Model[list[Doc], BackboneBatch]:
    """A transformer that reads whole documents through overlapping windows of word pieces.

    name (str): folder of a checkpoint, or its name; looked up at `initialize` only.
    precision (str): `auto`, `float32` or `bfloat16`, of the forward pass; what comes out is float32.
    window (int): pieces per window, special ones included; at most what the checkpoint was trained for.
    stride (int): pieces from the start of one window to that of the next.
    budget (int): pieces per forward pass, padding included; bounds the peak memory.
    tokenizer_config (dict): settings for the tokenizer, used at `initialize`.
    transformer_config (dict): settings that override the checkpoint's configuration, used at `initialize`: for instance
        `{"hidden_dropout_prob": 0.0}`.
    RETURNS (Model): documents in, `BackboneBatch` out.
    RAISES (ValueError): E106 for an argument out of its range.
    """
    check_arguments(precision=precision, window=window, stride=stride, budget=budget)
    shim = CheckpointShim(
        precision=precision, tokenizer_config=dict(tokenizer_config), transformer_config=dict(transformer_config)
    )
    attrs = {
        "name": name,
        "window": window,
        "stride": stride,
        "budget": budget,
        "replace_listener": replace_listener,
        "replace_listener_cfg": replace_listener_cfg,
    }
    return backbone_layer(shim, attrs, init)


def build_standalone_backbone(backbone: Model[list[Doc], BackboneBatch]) -> Model[list[Doc], Ragged]:
    """The backbone as the `tok2vec` block of a single component; what replacing a listener leaves behind.

    backbone (Model): from `build_transformer_backbone`.
    RETURNS (Model): documents in; Ragged of (tokens, nO) float32 out.
    """
    return chain(backbone, tokens_from_pieces())


def tokens_from_pieces() -> Model[BackboneBatch, Ragged]:
    """RETURNS (Model): a layer from the states of word pieces to the mean over each token's pieces."""

    def forward(model: Model, batch: BackboneBatch, is_train: bool):
        vectors, backprop_rows = pool_pieces(model.ops, batch.doc_data, batch.rows.shape[1])
        return vectors, lambda d_vectors: backprop_rows(d_vectors.dataXd)

    return Model("tokens-from-pieces", forward)


def check_arguments(*, precision: str, window: int, stride: int, budget: int) -> None:
    """RAISES (ValueError): E106 naming the argument that is out of its range."""
    if precision not in PRECISIONS:
        raise ValueError(Errors.E106.format(field="precision", expected=f"one of {PRECISIONS}", found=repr(precision)))
    if window < 3:
        raise ValueError(Errors.E106.format(field="window", expected="at least 3 pieces", found=window))
    if not 1 <= stride <= window:
        raise ValueError(Errors.E106.format(field="stride", expected=f"between 1 and the window, {window}", found=stride))
    if budget < 1:
        raise ValueError(Errors.E106.format(field="budget", expected="at least 1 piece", found=budget))


def init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Read the checkpoint, unless the model has its weights already.

    model (Model): from `build_transformer_backbone`.
    RAISES (ValueError): E101 to E104 for the checkpoint, E106 for a window it cannot take.
    """
    shim: CheckpointShim = model.shims[0]
    if shim.ready:
        return
    shim.load_checkpoint(model.attrs["name"])
    positions = getattr(shim.transformer.config, "max_position_embeddings", None) or float("inf")
    # RoBERTa's table has two rows more than a text may have pieces; its tokenizer knows.
    longest = min(positions, shim.tokenizer.model_max_length)
    if longest < model.attrs["window"]:
        raise ValueError(
            Errors.E106.format(
                field="window", expected=f"at most {longest} pieces for '{model.attrs['name']}'", found=model.attrs["window"]
            )
        )
    model.set_dim("nO", shim.transformer.config.hidden_size)


def replace_listener(model: Model, listener: Model, component: Any) -> Model:
    """spaCy's hook for making a component standalone.

    model (Model): a copy of the backbone. listener (Model): the layer it takes the place of. component: the backbone component.
    RETURNS (Model): a layer with the listener's output.
    """
    if get_link(listener) is not None:
        return build_standalone_backbone(model)
    raise NotImplementedError(Errors.E110.format(listener=listener.name))


def replace_listener_cfg(backbone: dict[str, Any], listener: dict[str, Any]) -> dict[str, Any]:
    """backbone, listener (dict): config blocks. RETURNS (dict): the block that builds what `replace_listener` gives."""
    return {"@architectures": STANDALONE, "backbone": backbone}
