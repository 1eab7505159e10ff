"""Remembers which unknown fields of a file were listed."""

from collections.abc import Collection, Iterable
from pathlib import Path

from .types import Problem


class FieldLog:
    """Lists each field that a reader does not know, once per file: where it was first seen.

    path (Path): the file.
    """

    def __init__(self, path: Path) -> None:
        self._file = str(path)
        self._seen: set[str] = set()

    def unknown(self, names: Iterable[str], known: Collection[str], line: int | None) -> list[Problem]:
        """Find fields that are neither known nor listed before.

        names (Iterable[str]): the fields of one object.
        known (Collection[str]): those the reader reads.
        line (int | None): where the object stands.
        RETURNS (list[Problem]): one per new field, with its name as text.
        """
        new = [name for name in names if name not in known and name not in self._seen]
        self._seen.update(new)
        return [Problem(self._file, line, None, None, None, None, name, "unknown_field", "dropped") for name in new]
