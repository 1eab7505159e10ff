"""`spacy-attention.StandaloneBackbone.v1`: the backbone inside one component, which is what replacing a listener leaves behind."""

from typing import Any

from spacy.tokens import Doc
from spacy_transformers.data_classes import TransformerData
from spacy_transformers.layers.trfs2arrays import trfs2arrays
from thinc.api import Model, chain
from thinc.types import Floats2d, Ragged

from ..layers.backbone import BackboneBatch
from ..layers.listener import get_link
from ..layers.token_vectors import pool_batch
from ..types import TokenVectors

STANDALONE = "spacy-attention.StandaloneBackbone.v1"
STOCK_LISTENER = "spacy-transformers.TransformerListener"


def build_standalone_backbone(
    backbone: Model[list[Doc], BackboneBatch],
    *,
    pooling: Model[Ragged, Floats2d] | None = None,
    grad_factor: float = 1.0,
    document_row: bool = False,
) -> Model[list[Doc], TokenVectors]:
    """The backbone as the `tok2vec` block of a single component; what replacing a listener leaves behind.

    backbone (Model): from `build_transformer_backbone`.
    pooling (Model | None): from the pieces of a token to its vector, as in a stock listener; None for the mean, as in ours.
    grad_factor (float): by which gradients are multiplied on their way to the backbone.
    document_row (bool): as of our listener; without `pooling` only.
    RETURNS (Model): documents in; with `pooling` a list of (tokens, nO) float32 per document out, as stock components expect it,
        else a Ragged of (tokens, nO) float32.
    """
    if pooling is None:
        return chain(backbone, tokens_from_pieces(grad_factor, document_row=document_row))
    # Nested as it comes out of `replace_listeners`, where the first part alone takes the listener's place.
    return chain(data_of_docs(backbone), trfs2arrays(pooling, grad_factor))


def tokens_from_pieces(grad_factor: float = 1.0, *, document_row: bool = False) -> Model[BackboneBatch, Ragged]:
    """grad_factor, document_row: as above. RETURNS (Model): a layer from the states of word pieces to each token's mean."""

    def forward(model: Model, batch: BackboneBatch, is_train: bool):
        vectors, backprop_rows = pool_batch(model.ops, batch, document_row=model.attrs["document_row"])
        return vectors, lambda d_vectors: backprop_rows(d_vectors.dataXd * grad_factor)

    return Model("tokens-from-pieces", forward, attrs={"document_row": document_row})


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


def replace_listener(model: Model, listener: Model, component: Any) -> Model:
    """spaCy's hook for making a component standalone.

    model (Model): a copy of the backbone. listener (Model): the layer it takes the place of. component: the backbone component.
    RETURNS (Model): a layer with the listener's output. Behind a stock listener its own pooling stays in place.
    """
    if get_link(listener) is not None:
        own = {name: listener.attrs[name] for name in ("grad_factor", "document_row")}
        return build_standalone_backbone(model, **own)
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
        "document_row": listener.get("document_row", False),
    }
