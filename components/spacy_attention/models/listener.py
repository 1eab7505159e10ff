"""`spacy-attention.Listener.v1`: the `tok2vec` block of a component that reads from a shared one."""

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Ragged

from ..layers.listener import NEAREST, listener_layer


def build_listener(upstream: str = NEAREST, grad_factor: float = 1.0, document_row: bool = False) -> Model[list[Doc], Ragged]:
    """Read token vectors from an `attention_encoder` or `attention_backbone` earlier in the pipeline.

    upstream (str): `nearest` for the last such component before this one, or the name of one.
    grad_factor (float): weight of this component's gradient upstream, at least 0: how much it has to say in what is shared. Its own
        layers learn as before.
    document_row (bool): whether a row for the document itself comes before those of its tokens: the state of the checkpoint's first
        special piece. A classifier with `pooling = cls` asks for it by itself, and nothing else can read it.
    RETURNS (Model): documents in; Ragged of (tokens, nO) float32 out, the whole batch at once. Width comes from upstream.
    """
    return listener_layer(upstream, grad_factor, document_row=document_row)
