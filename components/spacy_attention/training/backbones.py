"""Finds the backbones of a pipeline, for callbacks and counts."""

from spacy.language import Language
from thinc.api import Model

from ..errors import Errors
from ..types import Backbone


def find_backbones(nlp: Language) -> list[Backbone]:
    """Look into every component, since one that was made standalone has a backbone of its own.

    nlp (Language): any.
    RETURNS (list): in pipeline order.
    """
    models = [getattr(pipe, "model", None) for _, pipe in nlp.pipeline]
    nodes = [node for model in models if isinstance(model, Model) for node in model.walk()]
    return [shim for node in nodes for shim in node.shims if isinstance(shim, Backbone)]


def backbones_of(nlp: Language) -> list[Backbone]:
    """nlp (Language): any. RETURNS (list): as `find_backbones`, at least one. RAISES (ValueError): E604 for a pipeline without any."""
    backbones = find_backbones(nlp)
    if not backbones:
        raise ValueError(Errors.E604.format(found=nlp.pipe_names))
    return backbones


def count_pieces(nlp: Language) -> int:
    """nlp (Language): any. RETURNS (int): word pieces that its backbones have read in updates, as often as they read them."""
    return sum(backbone.n_pieces for backbone in find_backbones(nlp))
