"""What passes between the readers of source formats and the one place that makes `Doc` objects."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal[
    "misaligned",
    "overlap",
    "duplicate",
    "out_of_range",
    "empty",
    "whitespace",
    "discontinuous",
    "unknown_field",
    "bad_encoding",
    "invalid_tag",
    "conflict",
]
Action = Literal["kept", "trimmed", "expanded", "dropped", "refused"]
OnMisaligned = Literal["expand", "trim", "drop", "error"]


@dataclass(frozen=True)
class SourceSpan:
    """A labelled stretch of a text as the source gives it, not yet checked.

    start (int): first character.
    end (int): end-exclusive last character.
    label (str): entity label.
    """

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class Problem:
    """One line of the account.

    file (str): source file as named by the caller.
    line (int | None): line in the source, from 1; None where the format has no lines.
    doc (int | None): index in the output; None for what belongs to no document.
    start (int | None): first character in the document's text.
    end (int | None): end-exclusive last character.
    label (str | None): entity label; None says that the problem is not about an entity.
    text (str): the stretch of text, the field or the value it is about.
    kind (str): what is wrong.
    action (str): what was done.
    """

    file: str
    line: int | None
    doc: int | None
    start: int | None
    end: int | None
    label: str | None
    text: str
    kind: Kind
    action: Action

    @property
    def loses_span(self) -> bool:
        """RETURNS (bool): whether an entity of the source is missing from the output because of it."""
        return self.label is not None and self.action in ("dropped", "refused")


@dataclass
class Record:
    """One text of a source file with what the file says about it.

    text (str): the text as the source has it.
    line (int | None): where it starts in the source, from 1.
    spans (list[SourceSpan] | None): entities; None where the source says nothing about entities.
    n_spans (int): entities counted in the source; more than `spans` only where a problem says so.
    label (str | None): the text's class, in formats that list all classes of a text.
    cats (dict[str, float] | None): classes and their values, in formats that answer for single classes.
    problems (list[Problem]): what the reader had to list; `doc` is still None.
    """

    text: str
    line: int | None = None
    spans: list[SourceSpan] | None = None
    n_spans: int = 0
    label: str | None = None
    cats: dict[str, float] | None = None
    problems: list[Problem] = field(default_factory=list)


# What a reader yields, in the order of the file: records, and problems that belong to no record.
Items = Iterator[Record | Problem]
