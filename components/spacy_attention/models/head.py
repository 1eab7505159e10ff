"""What the two head architectures share: token vectors, packed, into one torch layer."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from spacy.tokens import Doc
from thinc.api import Model, xp2torch
from thinc.types import Floats2d
from torch import nn

from ..errors import Errors
from ..layers.packing import to_ragged
from ..layers.precision import PRECISIONS
from ..layers.torch_layer import LayerInput, torch_layer
from ..types import Backprop, TokenVectors
from .tokens import packed_tokens, refuse_document_row
from .width import known_width

FeatureFunction = Callable[[list[Doc]], NDArray[numpy.float32]]


def head_layer(name: str, build: Callable[..., nn.Module], *, dropout: float, precision: str) -> Model[LayerInput, Any]:
    """Make the torch layer of a head.

    name (str): of the layer. build (Callable), dropout (float), precision (str): see `torch_layer`.
    RETURNS (Model): for `head_model`.
    RAISES (ValueError): E301 for an unknown precision.
    """
    check_choice("precision", precision, PRECISIONS)
    return torch_layer(name, build, component="head", dropout=dropout, precision=precision)


def check_choice(field: str, found: str, expected: Iterable[str]) -> None:
    """field (str): argument of a head. found (str): its value. RAISES (ValueError): E301 if that is none of those expected."""
    if found not in expected:
        raise ValueError(Errors.E301.format(field=field, expected=tuple(expected), found=repr(found)))


def head_model(
    tok2vec: Model[list[Doc], TokenVectors],
    layer: Model[LayerInput, Any],
    *,
    features: FeatureFunction | None = None,
    n_features: int = 0,
    document_row: bool = False,
) -> Model[list[Doc], Any]:
    """Put a layer on a tok2vec block.

    tok2vec (Model): documents in, token vectors out.
    layer (Model): from `head_layer`; built by `create_head` once the number of outputs is known.
    features (Callable | None): gives further columns for the token vectors, (tokens, n_features) float32; not learned.
    n_features (int): how many.
    document_row (bool): whether the layer takes rows of documents.
    RETURNS (Model): documents in, the layer's output out. Refs `tok2vec` and `layer`.
    RAISES (ValueError): E312 for a tok2vec with rows of documents that the layer does not take.
    """
    if not document_row:
        refuse_document_row(tok2vec)
    model: Model[list[Doc], Any] = Model(
        layer.name + "-model", forward, init=init, layers=[tok2vec, to_ragged(), layer], dims={"nO": None}
    )
    model.attrs["features"] = features
    model.attrs["n_features"] = n_features
    model.set_ref("tok2vec", tok2vec)
    model.set_ref("layer", layer)
    return model


def init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Take the input width from the tok2vec block. model (Model): from `head_model`. X: documents to run it on."""
    model.get_ref("layer").set_dim("nI", known_width(model.get_ref("tok2vec"), X) + model.attrs["n_features"])


def create_head(model: Model, n_outputs: int, **sizes: int) -> None:
    """Build the torch module of an initialized head.

    model (Model): from `head_model`.
    n_outputs (int): becomes the dimension nO.
    sizes: the module's own arguments, without the input width.
    """
    layer = model.get_ref("layer")
    if not layer.shims[0].ready:
        layer.shims[0].create(width=layer.get_dim("nI"), **sizes)
        layer.set_dim("nO", n_outputs)
        model.set_dim("nO", n_outputs)


def forward(model: Model, docs: list[Doc], is_train: bool) -> tuple[Any, Backprop]:
    """docs (list[Doc]): of the batch. RETURNS (tuple): the layer's output, and a callback from its gradient to the documents."""
    tok2vec, pack, layer = model.layers
    features: FeatureFunction | None = model.attrs["features"]
    width = layer.get_dim("nI") - model.attrs["n_features"]
    packed, _, backprop_tokens = packed_tokens(tok2vec, pack, docs, width, is_train)
    inputs = packed if features is None else (packed, model.ops.asarray2f(features(docs)))
    Y, backprop_layer = layer(inputs, is_train)
    return Y, lambda dY: backprop_tokens(backprop_layer(dY))


def token_weights(model: Model, docs: list[Doc]) -> list[Floats2d]:
    """How much each token counts for each class, where the layer has weights.

    model (Model): from `head_model`. docs (list[Doc]): of the pipeline, so that they have token vectors.
    RETURNS (list[Floats2d]): per document (tokens, nO), or (tokens, 1) where they are the same for all classes; float32, on the host.
    """
    if not docs:
        return []
    tok2vec, pack, layer = model.layers
    packed, _, _ = packed_tokens(tok2vec, pack, docs, layer.get_dim("nI"), is_train=False)
    shim = layer.shims[0]
    rows, lengths = (xp2torch(model.ops.asarray(x), device=shim.device) for x in (packed.dataXd, packed.lengths))
    with torch.inference_mode():
        weights = shim.module.token_weights(rows, lengths.long()).float().cpu().numpy()
    # Copies, since a view would keep the weights of the whole batch for as long as one of its documents lives.
    return [part.copy() for part in numpy.split(weights, numpy.cumsum([len(doc) for doc in docs])[:-1])]
