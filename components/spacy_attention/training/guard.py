"""Looks for the ways in which a training goes wrong without an error, and says why."""

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.training import Example
from thinc.api import Model, Optimizer, PyTorchShim

from ..errors import Errors, Warnings

REASON = (
    "Usually a rate is too high: try half of training.optimizer.learn_rate and head_rate (2e-4 and 1e-3 are usual), and see that "
    "grad_clip is not 0."
)
# Updates after which a head without any gradient is named; batches without annotation for it may come first.
WATCHED = 50


def check_losses(losses: Mapping[str, float], step: int) -> None:
    """losses (Mapping): of each component. step (int): for the message. RAISES (ValueError): E624 for one that is not finite."""
    for name, loss in losses.items():
        if not math.isfinite(loss):
            raise ValueError(Errors.E624.format(step=step, component=name, loss=loss, reason=REASON))


def warn_of_unknown_labels(nlp: Language, dev: Iterable[Example]) -> None:
    """Warn of labels that no component can ever predict: W601.

    nlp (Language): initialized.
    dev (Iterable[Example]): what will be evaluated.
    """
    cats: Counter[str] = Counter()
    entities: Counter[str] = Counter()
    for eg in dev:
        cats.update(label for label, value in eg.reference.cats.items() if value)
        entities.update(ent.label_ for ent in eg.reference.ents)
    for field, counts in (("cats", cats), ("ents", entities)):
        labels = {n: set(getattr(p, "labels", ())) for n, p in nlp.pipeline if f"doc.{field}" in nlp.get_pipe_meta(n).assigns}
        learning = [name for name in labels if labels[name] and isinstance(nlp.get_pipe(name), TrainablePipe)]
        # What one component does not know another one may, and be it by rules.
        missing = {label: n for label, n in counts.items() if label not in set().union(*labels.values())}
        if missing and learning:
            warnings.warn(Warnings.W601.format(names=learning, labels=missing), stacklevel=2)


def check_averages(nlp: Language, optimizer: Optimizer, frozen: Iterable[str]) -> None:
    """See that averages reach all weights.

    nlp (Language), optimizer (Optimizer): of the training. frozen (Iterable[str]): components that do not learn.
    RAISES (ValueError): E634 for torch weights in Thinc's own shim, which looks for averages under other names than it gives.
    """
    for name, pipe in nlp.pipeline if optimizer.averages is not None else ():
        model = getattr(pipe, "model", None)
        if name not in frozen and isinstance(model, Model):
            if any(isinstance(shim, PyTorchShim) for node in model.walk() for shim in node.shims):
                raise ValueError(Errors.E634.format(name=name))


def warn_of_chance(scores: Mapping[str, Any], rate: float, step: int) -> None:
    """Warn of scores that guessing would reach: W602.

    scores (Mapping): of an evaluation after the warm-up.
    rate (float): of the backbone at this step.
    step (int): of the evaluation.
    """
    classes = len(scores.get("cats_f_per_type") or ())
    found = {}
    if classes > 1 and scores.get("cats_macro_f") is not None and scores["cats_macro_f"] <= 1 / classes:
        found["cats_macro_f"] = scores["cats_macro_f"]
    if scores.get("ents_f") == 0:
        found["ents_f"] = 0.0
    if found:
        warnings.warn(Warnings.W602.format(step=step, scores=found, rate=rate), stacklevel=2)


class GradientWatch:
    """Waits for the first gradient of each component that has labels of its own.

    names (Iterable[str]): components in training.
    """

    def __init__(self, names: Iterable[str]):
        self.waiting = set(names)

    def look(self, nlp: Language, step: int) -> None:
        """After an update and before its gradients are taken. nlp (Language): the pipeline. step (int): from 0. Warns: W603."""
        self.waiting -= {name for name in self.waiting if _has_gradient(nlp.get_pipe(name).model)}  # type: ignore[attr-defined]
        if self.waiting and step == WATCHED:
            warnings.warn(Warnings.W603.format(names=sorted(self.waiting), steps=step + 1), stacklevel=2)


def _has_gradient(model: Model) -> bool:
    for node in model.walk():
        if any(node.has_grad(name) and node.get_grad(name).any() for name in node.param_names):
            return True
        for shim in node.shims:
            # What is not a shim of ours does not show its gradients; nothing is said of it.
            if not hasattr(shim, "parameters") or any(p.grad is not None and p.grad.abs().sum() > 0 for _, p in shim.parameters()):
                return True
    return False
