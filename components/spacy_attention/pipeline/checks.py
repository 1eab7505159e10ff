"""Checks of training data that say which text is wrong, and what to do."""

from collections.abc import Callable, Iterable
from itertools import pairwise

from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples

from ..errors import Errors


def check_get_examples(get_examples: Callable[[], Iterable[Example]], name: str) -> None:
    """Refuse training data without a single text.

    get_examples (Callable): as given to `initialize`. name (str): of the component.
    RAISES (ValueError): E307 when it gives nothing; spaCy's own error when it gives something else than examples.
    """
    if callable(get_examples) and next(iter(get_examples()), None) is None:
        raise ValueError(Errors.E307.format(name=name))
    validate_get_examples(get_examples, name)


def check_flat(doc: Doc, key: str, name: str) -> None:
    """Refuse gold entities that stand only in `doc.spans` and overlap, from which a tag chain would learn nothing.

    doc (Doc): a reference without `doc.ents`. key (str): of `doc.spans`. name (str): of the component.
    RAISES (ValueError): E308 with the first two that overlap.
    """
    spans = sorted(doc.spans[key], key=lambda span: (span.start, span.end)) if key in doc.spans else []
    for first, second in pairwise(spans):
        if second.start < first.end:
            raise ValueError(
                Errors.E308.format(
                    name=name,
                    key=key,
                    first=f"'{first.text}' ({first.label_})",
                    second=f"'{second.text}' ({second.label_})",
                    text=repr(doc.text[:80]),
                )
            )


def check_share(field: str, found: float, name: str) -> None:
    """field (str): setting of a component. found (float): its value. name (str): of the component.

    RAISES (ValueError): E309 unless it lies in [0, 1].
    """
    if not 0.0 <= found <= 1.0:
        raise ValueError(Errors.E309.format(field=field, name=name, found=found))
