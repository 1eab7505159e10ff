"""`spacy-attention.calibrate.v1`: probabilities that agree with the development corpus, in the pipeline that is saved."""

import copy
from collections.abc import Callable, Container
from typing import Any

from spacy.language import Language
from spacy.training import Example
from spacy.util import minibatch

from ..types import Calibratable
from .batches import Corpus


def create_calibrate(corpus: Corpus) -> Callable[[Language], Language]:
    """Make a callback for `[training.before_to_disk]`.

    corpus (Callable): gives examples that the training has not seen: `${corpora.dev}`.
    RETURNS (Callable): see `calibrate`.
    """
    return lambda nlp: calibrate(nlp, corpus, without=nlp.config.interpolate()["training"].get("frozen_components") or ())


def calibrate(nlp: Language, corpus: Corpus, *, without: Container[str] = ()) -> Language:
    """Fit temperatures and thresholds of all heads, in one pass over the corpus.

    nlp (Language): in training; it stays as it is.
    corpus (Callable): gives examples from a pipeline.
    without (Container[str]): names of heads that stay as they are; in training those that are frozen.
    RETURNS (Language): shares all with `nlp` but its heads, which share the weights.
    """
    heads: dict[str, Any] = {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, Calibratable) and name not in without}
    if not heads:
        return nlp
    evidence: dict[str, list[Any]] = {name: [] for name in heads}
    # Copies, since a reader may give the same ones again. Documents of like length need least time together.
    examples = sorted((Example(eg.predicted.copy(), eg.reference) for eg in corpus(nlp)), key=lambda eg: len(eg.predicted))
    for batch in minibatch(examples, nlp.batch_size):
        for name, pipe in nlp.pipeline:
            if name in heads:
                evidence[name].append(heads[name].evidence(batch))
            # Heads as well: a later component may read what they predict.
            _run(pipe, batch)
        for eg in batch:
            # With it go the vectors of its tokens, which of a whole corpus are many.
            eg.predicted = nlp.make_doc("")
    calibrated = copy.copy(nlp)
    calibrated._components = [
        (name, heads[name].calibrated(evidence[name]) if name in heads else pipe) for name, pipe in nlp._components
    ]
    return calibrated


def _run(pipe: Callable, batch: list[Example]) -> None:
    docs = [eg.predicted for eg in batch]
    done = pipe.pipe(docs, batch_size=len(docs)) if hasattr(pipe, "pipe") else map(pipe, docs)
    for eg, doc in zip(batch, done, strict=True):
        eg.predicted = doc
