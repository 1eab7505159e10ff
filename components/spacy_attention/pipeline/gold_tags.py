"""Which tags each token may have: what the annotation of an example leaves possible, and what whitespace rules out."""

from collections.abc import Mapping, Sequence

import numpy
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example

from ..nn import tags

Allowed = NDArray[numpy.bool_]


def is_annotated(doc: Doc) -> bool:
    """doc (Doc): a reference. RETURNS (bool): whether anything is said of its entities, be it that there are none."""
    return bool(doc.to_array("ENT_IOB").any())


def gold_tags(example: Example, labels: Sequence[str]) -> Allowed:
    """Read the annotation of an example.

    example (Example): with gold entities; tokens about which it says nothing may have any tag.
    labels (Sequence[str]): of the component.
    RETURNS (Allowed): (predicted tokens, tags) bool, True = possible.
    RAISES (KeyError): the tag of a label that is not among them.
    """
    if not is_annotated(example.reference):
        return numpy.ones((len(example.predicted), tags.n_tags(len(labels))), dtype=bool)
    if _same_tokens(example.predicted, example.reference):
        return _from_reference(example.reference, {label: i for i, label in enumerate(labels)})
    columns = {tag: i for i, tag in enumerate(tags.tag_names(labels))}
    return tags.allowed_tags(example.get_aligned_ner(), columns)


def whitespace_bounds(docs: Sequence[Doc], n_labels: int) -> Allowed:
    """The tags that no entity may have on a token of whitespace: it neither starts nor ends one.

    docs (Sequence[Doc]): of the batch. n_labels (int): of the component.
    RETURNS (Allowed): (tokens, tags) bool, True = ruled out.
    """
    spaces = numpy.concatenate([*(doc.to_array("IS_SPACE").reshape(-1) for doc in docs), numpy.zeros(0)]).astype(bool)
    bounds = numpy.ones(tags.n_tags(n_labels), dtype=bool)
    bounds[0] = False
    bounds[1 + n_labels : 1 + 2 * n_labels] = False
    return spaces[:, None] & bounds


def _same_tokens(predicted: Doc, reference: Doc) -> bool:
    return numpy.array_equal(predicted.to_array("ORTH"), reference.to_array("ORTH"))


def _from_reference(doc: Doc, numbers: Mapping[str, int]) -> Allowed:
    """As the general way through spaCy's alignment, for the usual case of equal tokens, in which nothing needs aligning."""
    n_labels = len(numbers)
    allowed = numpy.zeros((len(doc), tags.n_tags(n_labels)), dtype=bool)
    iob = doc.to_array("ENT_IOB")
    allowed[iob == 2, 0] = True
    allowed[iob == 0] = True
    for ent in doc.ents:
        column = 1 + numbers[ent.label_] if ent.label_ in numbers else None
        if column is None:
            raise KeyError(f"B-{ent.label_}")
        if ent.end - ent.start == 1:
            allowed[ent.start, column + 3 * n_labels] = True
            continue
        allowed[ent.start, column] = True
        allowed[ent.start + 1 : ent.end - 1, column + n_labels] = True
        allowed[ent.end - 1, column + 2 * n_labels] = True
    return allowed
