"""Evaluation during a training: as spaCy's, in batches of like length, and without keeping what the predictions were made from."""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import numpy
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.loop import create_evaluation_callback

from .batches import Corpus

# Vectors that the backbone writes into a document; of a large dev corpus they would take more memory than the training.
VECTORS = ("._.", "trf_data", None, None)


def create_evaluation(nlp: Language, corpus: Corpus, weights: dict[str, float | None]) -> Callable[[], tuple[float, dict[str, Any]]]:
    """Make what spaCy's loop calls to evaluate.

    nlp (Language): the pipeline in training.
    corpus (Callable): gives the examples, anew each time.
    weights (dict): score -> its share in the one that chooses the best model.
    RETURNS (Callable): gives the weighted score and all scores.
    """
    return create_evaluation_callback(_Evaluated(nlp), lambda _: corpus(nlp), weights)  # type: ignore[arg-type]


class _Evaluated:
    """What spaCy's callback asks of a pipeline."""

    def __init__(self, nlp: Language):
        self.nlp = nlp

    @property
    def pipe_names(self) -> list[str]:
        """For a message of spaCy's."""
        return self.nlp.pipe_names

    def evaluate(self, examples: Iterable[Example]) -> dict[str, Any]:
        """As `Language.evaluate`. examples (Iterable[Example]): with gold. RETURNS (dict): scores."""
        found = [Example(eg.predicted.copy(), eg.reference) for eg in examples]
        found.sort(key=lambda eg: len(eg.predicted))
        begun = perf_counter()
        for eg in found:
            # Only so that the speed is that of the whole pipeline.
            self.nlp.make_doc(eg.reference.text)
        for eg, doc in zip(found, self.nlp.pipe([eg.predicted for eg in found]), strict=True):
            forget_vectors(doc)
            eg.predicted = doc
        seconds = perf_counter() - begun
        scores = Scorer(nlp=self.nlp).score(found)
        return {**_plain(scores), "speed": sum(len(eg.predicted) for eg in found) / seconds}


def forget_vectors(doc: Doc) -> None:
    """Let go of the vectors of a document, when its predictions are made. doc (Doc): changed in place."""
    doc.user_data.pop(VECTORS, None)  # type: ignore[call-overload]
    doc.tensor = numpy.zeros((0, 0), dtype="float32")


def _plain(scores: Any) -> Any:
    """Numbers of Python in the place of NumPy's, which loggers may not know."""
    if isinstance(scores, dict):
        return {name: _plain(score) for name, score in scores.items()}
    return float(scores) if isinstance(scores, numpy.floating) else scores
