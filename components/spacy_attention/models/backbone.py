"""`spacy-attention.TransformerBackbone.v1`: a Hugging Face checkpoint as a shared backbone, or inside one component."""

from collections.abc import Callable
from typing import Any

from spacy.tokens import Doc
from spacy_transformers.data_classes import TransformerData
from spacy_transformers.layers.trfs2arrays import trfs2arrays
from thinc.api import Model, chain
from thinc.types import Floats2d, Ragged

from ..checkpoints import DEFAULT_CHECKPOINT
from ..errors import Errors
from ..layers.backbone import BackboneBatch, backbone_layer
from ..layers.hf_shim import CheckpointShim
from ..layers.listener import get_link
from ..layers.precision import PRECISIONS
from ..layers.token_vectors import pool_batch
from ..types import TokenVectors
from .stock_arguments import check_grad_scaler, check_span_getter, choose_precision, tokenizer_settings

STANDALONE = "spacy-attention.StandaloneBackbone.v1"
STOCK_LISTENER = "spacy-transformers.TransformerListener"


def build_transformer_backbone(
    name: str = DEFAULT_CHECKPOINT,
    *,
    precision: str = "auto",
    window: int = 256,
    stride: int = 192,
    budget: int = 4096,
    truncate: bool = False,
    layer: int | str = -1,
    frozen_layers: int = 0,
    gradient_checkpointing: bool = False,
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
    frozen_layers (int): layers from the bottom that do not learn, the embeddings with them; 0 freezes nothing.
    gradient_checkpointing (bool): in training keep the input of each layer only, and compute the rest again: less memory, more time.
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
    )
    attrs = {
        "name": name,
        "window": window,
        "stride": stride,
        "budget": budget,
        "truncate": truncate,
        "replace_listener": replace_listener,
        "replace_listener_cfg": replace_listener_cfg,
    }
    return backbone_layer(shim, attrs, init)


def build_standalone_backbone(
    backbone: Model[list[Doc], BackboneBatch],
    *,
    pooling: Model[Ragged, Floats2d] | None = None,
    grad_factor: float = 1.0,
) -> Model[list[Doc], TokenVectors]:
    """The backbone as the `tok2vec` block of a single component; what replacing a listener leaves behind.

    backbone (Model): from `build_transformer_backbone`.
    pooling (Model | None): from the pieces of a token to its vector, as in a stock listener; None for the mean, as in ours.
    grad_factor (float): by which gradients are multiplied on their way to the backbone.
    RETURNS (Model): documents in; with `pooling` a list of (tokens, nO) float32 per document out, as stock components expect it,
        else a Ragged of (tokens, nO) float32.
    """
    if pooling is None:
        return chain(backbone, tokens_from_pieces(grad_factor))
    # Nested as it comes out of `replace_listeners`, where the first part alone takes the listener's place.
    return chain(data_of_docs(backbone), trfs2arrays(pooling, grad_factor))


def tokens_from_pieces(grad_factor: float = 1.0) -> Model[BackboneBatch, Ragged]:
    """grad_factor (float): of the gradient. RETURNS (Model): a layer from the states of word pieces to each token's mean."""

    def forward(model: Model, batch: BackboneBatch, is_train: bool):
        vectors, backprop_rows = pool_batch(model.ops, batch)
        return vectors, lambda d_vectors: backprop_rows(d_vectors.dataXd * grad_factor)

    return Model("tokens-from-pieces", forward)


def data_of_docs(backbone: Model[list[Doc], BackboneBatch]) -> Model[list[Doc], list[TransformerData]]:
    """backbone (Model): from `build_transformer_backbone`. RETURNS (Model): gives what a stock listener would hand on."""

    def forward(model: Model, docs: list[Doc], is_train: bool):
        batch, backprop_batch = model.layers[0](docs, is_train)

        def backprop(d_data: list[TransformerData]) -> list[Doc]:
            backprop_batch(batch.unsplit_by_doc([list(data.tensors) for data in d_data]))
            # Thinc's `concatenate`, as in the stock classifier's ensemble, adds up what its branches give back; in place.
            return list(docs)

        return batch.doc_data, backprop

    return Model("backbone-data", forward, init=init_data, layers=[backbone], dims={"nO": None})


def init_data(model: Model, X: Any = None, Y: Any = None) -> None:
    """Read the checkpoint, and take its width. model (Model): from `data_of_docs`."""
    model.layers[0].initialize()
    model.set_dim("nO", model.layers[0].get_dim("nO"))


def check_arguments(*, precision: str, window: int, stride: int, budget: int, layer: int | str, frozen_layers: int) -> None:
    """RAISES (ValueError): E106 naming the argument that is out of its range."""
    if precision not in PRECISIONS:
        raise ValueError(Errors.E106.format(field="precision", expected=f"one of {PRECISIONS}", found=repr(precision)))
    if window < 3:
        raise ValueError(Errors.E106.format(field="window", expected="at least 3 pieces", found=window))
    if not 1 <= stride <= window:
        raise ValueError(Errors.E106.format(field="stride", expected=f"between 1 and the window, {window}", found=stride))
    if layer != "mix" and not isinstance(layer, int):
        raise ValueError(Errors.E106.format(field="layer", expected="a number or `mix`", found=repr(layer)))
    if frozen_layers < 0:
        raise ValueError(Errors.E106.format(field="frozen_layers", expected="at least 0", found=frozen_layers))
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
    check_fits(shim, model.attrs["name"], model.attrs["window"])
    model.set_dim("nO", shim.transformer.config.hidden_size)


def check_fits(shim: CheckpointShim, name: str, window: int) -> None:
    """RAISES (ValueError): E106 for an argument that is right in itself, but not for this checkpoint."""
    n_layers, shared = shim.n_layers, getattr(shim.transformer.config, "num_hidden_groups", None)
    if window > shim.longest:
        raise ValueError(Errors.E106.format(field="window", expected=f"at most {shim.longest} pieces for '{name}'", found=window))
    if shim.layer != "mix" and not -n_layers - 1 <= int(shim.layer) <= n_layers:
        expected = f"`mix` or between {-n_layers - 1} and {n_layers} for '{name}'"
        raise ValueError(Errors.E106.format(field="layer", expected=expected, found=shim.layer))
    if shared is not None and shim.frozen_layers:
        expected = f"0 for '{name}', whose layers share their weights"
        raise ValueError(Errors.E106.format(field="frozen_layers", expected=expected, found=shim.frozen_layers))
    if shim.frozen_layers > n_layers:
        raise ValueError(
            Errors.E106.format(field="frozen_layers", expected=f"at most {n_layers} for '{name}'", found=shim.frozen_layers)
        )
    if shim.gradient_checkpointing and not shim.transformer.supports_gradient_checkpointing:
        expected = f"false for '{name}', whose code has no support for it"
        raise ValueError(Errors.E106.format(field="gradient_checkpointing", expected=expected, found=True))


def replace_listener(model: Model, listener: Model, component: Any) -> Model:
    """spaCy's hook for making a component standalone.

    model (Model): a copy of the backbone. listener (Model): the layer it takes the place of. component: the backbone component.
    RETURNS (Model): a layer with the listener's output. Behind a stock listener its own pooling stays in place.
    """
    if get_link(listener) is not None:
        return build_standalone_backbone(model, grad_factor=listener.attrs["grad_factor"])
    replacement = data_of_docs(model)
    if model.has_dim("nO"):
        replacement.set_dim("nO", model.get_dim("nO"))
    return replacement


def replace_listener_cfg(backbone: dict[str, Any], tok2vec: dict[str, Any]) -> dict[str, Any]:
    """The config of what `replace_listener` gives.

    backbone (dict): config block of the backbone.
    tok2vec (dict): block of the component, which is the listener, or an encoder on top of it.
    RETURNS (dict): the block that takes the listener's place.
    """
    listener = tok2vec
    while "tok2vec" in listener:
        listener = listener["tok2vec"]
    pooling = listener["pooling"] if listener["@architectures"].startswith(STOCK_LISTENER) else None
    return {
        "@architectures": STANDALONE,
        "backbone": backbone,
        "pooling": pooling,
        "grad_factor": listener.get("grad_factor", 1.0),
    }
