"""Parses JSON strictly: broken text, doubled keys and absurd nesting are errors that name file and line."""

import json
from pathlib import Path
from typing import Any

from ..errors import Errors


class _DoubledKeyError(ValueError):
    pass


def parse_json(path: Path, text: str, line: int | None = None) -> Any:
    """Parse one JSON value.

    path (Path): the file, for messages.
    text (str): the value.
    line (int | None): line of the file where the value stands; None if it is the whole file.
    RETURNS (Any): the value.
    RAISES (ValueError): E405 if it is not JSON or an object has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        reason, where = error.msg, line or error.lineno
        raise ValueError(Errors.E405.format(path=path, line=where, syntax="JSON", reason=reason)) from error
    except (ValueError, RecursionError) as error:
        reason = str(error)
        raise ValueError(Errors.E405.format(path=path, line=line or "?", syntax="JSON", reason=reason)) from error


def unexpected(path: Path, line: int | None, expected: str, found: Any) -> ValueError:
    """Make the error for a value of another shape.

    path (Path): the file.
    line (int | None): where the value stands.
    expected (str): what should stand there.
    found (Any): the value.
    RETURNS (ValueError): E406, to be raised.
    """
    shown = repr(found)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return ValueError(Errors.E406.format(path=path, line=line or "?", expected=expected, found=shown))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        doubled = next(key for key in keys if keys.count(key) > 1)
        raise _DoubledKeyError(f"key {doubled!r} stands twice in one object")
    return values
