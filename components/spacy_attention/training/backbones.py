"""Finds the backbones of a pipeline, for callbacks."""

from spacy.language import Language
from thinc.api import Model

from ..errors import Errors
from ..types import Backbone


def backbones_of(nlp: Language) -> list[Backbone]:
    """Look into every component, since one that was made standalone has a backbone of its own.

    nlp (Language): any.
    RETURNS (list): in pipeline order, at least one.
    RAISES (ValueError): E604 for a pipeline without any.
    """
    models = [getattr(pipe, "model", None) for _, pipe in nlp.pipeline]
    nodes = [node for model in models if isinstance(model, Model) for node in model.walk()]
    backbones = [shim for node in nodes for shim in node.shims if isinstance(shim, Backbone)]
    if not backbones:
        raise ValueError(Errors.E604.format(found=nlp.pipe_names))
    return backbones
