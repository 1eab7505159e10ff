"""`spacy-attention.thaw.v1`: layers of the backbone thaw while the training goes on (Howard and Ruder 2018, section 3.3)."""

from collections.abc import Callable, Generator
from typing import Any

from spacy.language import Language

from ..errors import Errors
from .backbones import backbones_of

BeforeUpdate = Callable[[Language, dict[str, Any]], None]


def create_thaw(frozen_layers: dict[str, int | str] | Generator) -> BeforeUpdate:
    """Make a callback for `[training.before_update]`.

    frozen_layers (dict or schedule): what is frozen, as in the backbone's argument of that name, by the step from which on it is; before
        the first one that argument holds. Or a schedule of numbers, which are rounded.
    RETURNS (Callable): called with the pipeline and `{"step": int, "epoch": int}` before each update.
    RAISES (ValueError): E603 for a table without steps; when called, E604 for a pipeline without backbone, and E106 for more layers than
        there are.
    """
    return _follow_table(frozen_layers) if isinstance(frozen_layers, dict) else _follow_schedule(frozen_layers)


def _follow_table(table: dict[str, int | str]) -> BeforeUpdate:
    wrong = [step for step in table if not step.isdecimal()]
    if wrong or not table:
        raise ValueError(Errors.E603.format(found=wrong or table))
    by_step = sorted((int(step), frozen) for step, frozen in table.items())

    def thaw(nlp: Language, info: dict[str, Any]) -> None:
        reached = [frozen for step, frozen in by_step if step <= info["step"]]
        for backbone in backbones_of(nlp):
            # Also what is for later: a mistake should not show after an hour.
            for frozen in table.values():
                backbone.check_frozen(frozen)
            if reached:
                backbone.freeze(reached[-1])

    return thaw


def _follow_schedule(schedule: Generator) -> BeforeUpdate:
    def thaw(nlp: Language, info: dict[str, Any]) -> None:
        frozen = round(next(schedule))
        for backbone in backbones_of(nlp):
            backbone.freeze(frozen)

    return thaw
