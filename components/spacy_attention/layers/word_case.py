"""How words are written: what an uncased checkpoint no longer sees, and names depend on."""

import numpy
from numpy.typing import NDArray
from spacy.tokens import Doc

KINDS = 5  # no case, lower, title, upper, the first word that has case
WINDOW = 3  # the word before, the word itself, the word after
N_FEATURES = KINDS * WINDOW

Floats = NDArray[numpy.float32]


def case_features(docs: list[Doc]) -> Floats:
    """One-hot features of the case of each token and of its two neighbours.

    The first word with case is a kind of its own: there a capital says little. In a text without any further capital, case says
    nothing at all, and all its tokens count as having none.

    docs (list[Doc]): of the batch.
    RETURNS (Floats): (tokens, 15) float32, documents one after the other; zeros beyond the ends of a document.
    """
    blocks = [_of_document(doc) for doc in docs]
    return numpy.concatenate([*blocks, numpy.zeros((0, N_FEATURES), dtype="float32")])


def _of_document(doc: Doc) -> Floats:
    kinds = numpy.zeros((len(doc) + 2, KINDS), dtype="float32")
    if len(doc):
        kinds[numpy.arange(1, len(doc) + 1), word_kinds(doc)] = 1.0
    return numpy.concatenate([kinds[:-2], kinds[1:-1], kinds[2:]], axis=1)


def word_kinds(doc: Doc) -> NDArray[numpy.int64]:
    """doc (Doc): with at least one token. RETURNS (NDArray): (tokens,) int64, below `KINDS`."""
    lower, title, upper = doc.to_array(["IS_LOWER", "IS_TITLE", "IS_UPPER"]).astype(bool).T
    kinds = numpy.select([lower, title, upper], [1, 2, 3], default=0)
    cased = numpy.flatnonzero(kinds)
    if not (kinds[cased[1:]] > 1).any():
        return numpy.zeros_like(kinds)
    kinds[cased[0]] = 4
    return kinds
