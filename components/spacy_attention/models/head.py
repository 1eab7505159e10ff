"""What the two head architectures share: token vectors, packed, into one torch layer."""

from typing import Any

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Ragged

from ..layers.packing import to_ragged
from ..types import Backprop, TokenVectors
from .tokens import packed_tokens
from .width import known_width


def head_model(tok2vec: Model[list[Doc], TokenVectors], layer: Model[Ragged, Any]) -> Model[list[Doc], Any]:
    """Put a layer on a tok2vec block.

    tok2vec (Model): documents in, token vectors out.
    layer (Model): from `torch_layer`; built by `create_head` once the number of outputs is known.
    RETURNS (Model): documents in, the layer's output out. Refs `tok2vec` and `layer`.
    """
    model: Model[list[Doc], Any] = Model(
        layer.name + "-model", forward, init=init, layers=[tok2vec, to_ragged(), layer], dims={"nO": None}
    )
    model.set_ref("tok2vec", tok2vec)
    model.set_ref("layer", layer)
    return model


def init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Take the input width from the tok2vec block. model (Model): from `head_model`. X: documents to run it on."""
    model.get_ref("layer").set_dim("nI", known_width(model.get_ref("tok2vec"), X))


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
    packed, _, backprop_tokens = packed_tokens(tok2vec, pack, docs, layer.get_dim("nI"), is_train)
    Y, backprop_layer = layer(packed, is_train)

    def backprop(dY: Any) -> Any:
        return backprop_tokens(backprop_layer(dY))

    return Y, backprop
