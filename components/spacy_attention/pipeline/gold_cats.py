"""What the cats of examples say of each class, and how much each class is to count."""

from collections.abc import Container, Iterable, Mapping, Sequence

import numpy
from numpy.typing import NDArray
from spacy.training import Example

from ..errors import Errors

Floats = NDArray[numpy.float32]
BALANCED = "balanced"


def gold_cats(
    examples: Sequence[Example], labels: Sequence[str], *, name: str, exclusive: bool, ignored: Container[str] = ()
) -> Floats:
    """Read the annotation of examples.

    examples (Sequence[Example]): with gold cats. labels (Sequence[str]): of the component. name (str): of the component.
    exclusive (bool): whether one class at most is right.
    ignored (Container[str]): labels of other components.
    RETURNS (Floats): (examples, labels); NaN where a text says nothing.
    RAISES (ValueError): E303 for an unknown label, E313 for a value that is no annotation, E305 for two true labels when exclusive.
    """
    columns = {label: i for i, label in enumerate(labels)}
    gold = numpy.full((len(examples), len(labels)), numpy.nan, dtype="float32")
    for row, eg in zip(gold, examples, strict=True):
        text = repr(eg.reference.text[:80])
        for label, value in eg.reference.cats.items():
            if label in columns:
                _check_value(label, value, name=name, exclusive=exclusive, text=text)
                row[columns[label]] = value
            elif label not in ignored:
                raise ValueError(Errors.E303.format(label=label, name=name, where=text, labels=list(labels)))
        if exclusive and (row == 1.0).sum() > 1:
            true = [label for label, i in columns.items() if row[i] == 1.0]
            raise ValueError(Errors.E305.format(labels=true, name=name, text=text))
    return gold


def _check_value(label: str, value: float, *, name: str, exclusive: bool, text: str) -> None:
    if value not in (0.0, 1.0) and (exclusive or not 0.0 <= value <= 1.0):
        expected = "0 or 1, since the component is exclusive" if exclusive else "a number in [0, 1]"
        raise ValueError(Errors.E313.format(label=label, name=name, expected=expected, found=value, text=text))


def check_class_weights(given: str | Mapping[str, float] | None, name: str) -> None:
    """given (str | Mapping | None): setting `class_weights`. name (str): of the component. RAISES (ValueError): E314."""
    is_table = isinstance(given, Mapping) and all(weight >= 0 for weight in given.values())
    if not (given is None or given == BALANCED or is_table):
        raise ValueError(Errors.E314.format(name=name, found=repr(given)))


def class_weights(
    given: str | Mapping[str, float] | None, gold: Iterable[Floats], labels: Sequence[str], *, name: str, exclusive: bool
) -> list[list[float]] | None:
    """Work out how much a class counts in the loss.

    `balanced` is the number of texts over the number of classes times the number of texts of the class (King and Zeng 2001, section
    4.2): then every class has the same sum of weights, and the mean weight of a text is 1. Where classes do not exclude each other,
    each has two sides, right and wrong, that are balanced in the same way.

    given (str | Mapping | None): `balanced`, or a weight of at least 0 by label, the others being 1.
    gold (Iterable[Floats]): (examples, labels) each, from `gold_cats`; read for `balanced` only.
    labels (Sequence[str]): of the component. name (str): of the component. exclusive (bool): of the component.
    RETURNS (list | None): of each label, when it is wrong and when it is right; None where all are 1.
    RAISES (ValueError): E315 for the weight of an unknown label.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        unknown = sorted(given.keys() - set(labels))
        if unknown:
            raise ValueError(Errors.E315.format(name=name, unknown=unknown, labels=list(labels)))
        return [[1.0] * len(labels), [float(given.get(label, 1.0)) for label in labels]]
    counts = numpy.zeros((2, len(labels)))
    for part in gold:
        counts += (part < 0.5).sum(0), (part >= 0.5).sum(0)
    if exclusive:
        seen = numpy.maximum((counts[1] > 0).sum(), 1)
        right = numpy.where(counts[1] > 0, counts[1].sum() / (seen * numpy.maximum(counts[1], 1)), 1.0)
        return [[1.0] * len(labels), right.tolist()]
    both = numpy.where(counts > 0, counts.sum(0) / (2 * numpy.maximum(counts, 1)), 1.0)
    return both.tolist()
