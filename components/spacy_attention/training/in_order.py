"""`spacy-attention.in_order.v1`: several callbacks where spaCy takes one."""

from collections.abc import Callable

from spacy.language import Language

Callback = Callable[[Language], Language]


def create_in_order(*callbacks: Callback) -> Callback:
    """Make one callback of several, each of which takes a pipeline and gives it, or another one, back.

    callbacks (Callable): blocks `[training.before_to_disk.*.NAME]` of the config.
    RETURNS (Callable): hands the result of each to the next one.
    """

    def in_order(nlp: Language) -> Language:
        for callback in callbacks:
            nlp = callback(nlp)
        return nlp

    return in_order
