"""`spacy-attention.AttentionEncoder.v1`: transformer blocks over spaCy tokens, on a backbone or from scratch."""

from typing import Any

from spacy.tokens import Doc
from spacy_transformers.layers import TransformerListener
from thinc.api import Model
from thinc.types import Ragged

from ..errors import Errors
from ..layers.listener import get_link
from ..layers.packing import to_ragged
from ..layers.precision import PRECISIONS
from ..layers.torch_layer import torch_layer
from ..nn.attention import KERNELS
from ..nn.encoder import ACTIVATIONS, EncoderSizes, below_top, build_encoder
from ..nn.positions import POSITIONS
from ..types import Backprop, TokenVectors
from .tokens import packed_tokens, refuse_document_row
from .width import known_width

CHOICES = {
    "positions": tuple(POSITIONS),
    "attention": tuple(KERNELS),
    "activation": tuple(ACTIVATIONS),
    "norm": ("pre", "post"),
    "mask": ("bidirectional", "causal"),
    "precision": PRECISIONS,
}


def build_attention_encoder(
    tok2vec: Model[list[Doc], TokenVectors],
    *,
    depth: int = 1,
    heads: int = 6,
    width: int | None = None,
    ff_width: int | None = None,
    dropout: float = 0.1,
    activation: str = "gelu",
    norm: str = "pre",
    positions: str = "none",
    attention: str = "full",
    mask: str = "bidirectional",
    precision: str = "auto",
) -> Model[list[Doc], TokenVectors]:
    """Self-attention over the tokens of whole documents (Vaswani et al. 2017).

    On a backbone, with `norm = pre`, no positions and the backbone's width, it starts as the identity: the output projections of
    both branches are zero and there is no final norm. Otherwise it starts as usual, and pre-norm ends in a norm.

    tok2vec (Model): where the token vectors come from.
    depth (int): blocks, at least 1.
    heads (int): attention heads; must divide the width.
    width (int | None): of the output; None for that of tok2vec.
    ff_width (int | None): inside the feed-forward; None for four times the width.
    dropout (float): in [0, 1); a training config sets its own.
    activation (str): `gelu` or `relu`.
    norm (str): `pre` or `post`.
    positions (str): `none` or `sinusoidal`.
    attention (str): `full`.
    mask (str): `bidirectional` or `causal`.
    precision (str): as of the backbone.
    RETURNS (Model): documents in; token vectors out, packed or as a list just as tok2vec gives them.
    RAISES (ValueError): E205 for an unknown choice, E206 for a size below its minimum, E312 for a tok2vec with rows of documents; at
        init E203 for heads that do not divide the width.
    """
    chosen = dict(positions=positions, attention=attention, activation=activation, norm=norm, mask=mask, precision=precision)
    _check(chosen, depth=depth, heads=heads)
    refuse_document_row(tok2vec)
    layer = torch_layer(
        "attention-encoder",
        build_encoder,
        component="encoder",
        dropout=dropout,
        precision=precision,
        below_top=lambda name: below_top(name, depth),
    )
    sizes = {key: value for key, value in chosen.items() if key != "precision"}
    attrs = {"sizes": {**sizes, "depth": depth, "heads": heads, "width": width, "ff_width": ff_width}}
    dims = {"nO": width}
    return Model("encoder", forward, init=init, layers=[tok2vec, to_ragged(), layer], dims=dims, attrs=attrs)


def _check(chosen: dict[str, str], **sizes: int) -> None:
    for field, found in chosen.items():
        if found not in CHOICES[field]:
            raise ValueError(Errors.E205.format(field=field, expected=CHOICES[field], found=repr(found)))
    for field, size in sizes.items():
        if size < 1:
            raise ValueError(Errors.E206.format(field=field, least=1, found=size))


def init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Find the width, and build the module with a start that fits what it stands on.

    model (Model): from `build_attention_encoder`. X: documents, for a tok2vec that infers its width from them.
    """
    tok2vec, _, layer = model.layers
    input_width = known_width(tok2vec, X)
    if layer.shims[0].ready:
        return
    given = model.attrs["sizes"]
    width = given["width"] or input_width
    on_backbone = stands_on_backbone(tok2vec) and width == input_width
    sizes = EncoderSizes(
        input_width=input_width,
        **{**given, "width": width, "ff_width": given["ff_width"] or 4 * width},
        identity=on_backbone and given["norm"] == "pre" and given["positions"] == "none",
    )
    layer.shims[0].create(**sizes._asdict())
    for node, dim, size in ((layer, "nI", input_width), (layer, "nO", width), (model, "nO", width)):
        node.set_dim(dim, size)


def stands_on_backbone(tok2vec: Model) -> bool:
    """tok2vec (Model): any. RETURNS (bool): whether its vectors come from a pretrained transformer."""
    nodes = list(tok2vec.walk())
    return any(
        get_link(node) is not None or isinstance(node, TransformerListener) or node.name == "attention-backbone" for node in nodes
    )


def forward(model: Model, docs: list[Doc], is_train: bool) -> tuple[TokenVectors, Backprop]:
    """docs (list[Doc]): of the batch. RETURNS (tuple): token vectors in tok2vec's own container, and the way back."""
    tok2vec, pack, layer = model.layers
    packed, as_list, backprop_tokens = packed_tokens(tok2vec, pack, docs, layer.get_dim("nI"), is_train)
    rows, backprop_layer = layer(packed, is_train)

    def backprop(dY: TokenVectors) -> Any:
        d_rows = model.ops.flatten([d for d in dY if len(d)]) if isinstance(dY, list) else dY.dataXd
        return backprop_tokens(backprop_layer(d_rows))

    return (model.ops.unflatten(rows, packed.lengths) if as_list else Ragged(rows, packed.lengths)), backprop
