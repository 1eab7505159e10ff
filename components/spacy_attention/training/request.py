"""What was asked of a training when it began: nothing else may be asked of the rest of it."""

import json
from pathlib import Path
from typing import Any

from ..errors import Errors
from .folders import replace_json, to_json

FILE = "request.json"


def write_request(output: Path, request: dict[str, Any], *, finished: bool) -> None:
    """output (Path): folder of the training. request (dict): config and options. finished (bool): whether the training has ended."""
    replace_json(output / FILE, {"finished": finished, "request": request})


def read_request(output: Path, request: dict[str, Any]) -> bool:
    """See that the same is asked for as at the beginning.

    output (Path): folder of the training.
    request (dict): what is asked for now.
    RETURNS (bool): whether the training has ended already.
    RAISES (ValueError): E622 naming what differs, E623 where no training began.
    """
    path = output / FILE
    if not path.exists():
        raise ValueError(Errors.E623.format(path=output))
    # Not by srsly, which rounds. What is asked for now as JSON has it as well: without tuples, for one.
    begun = json.loads(path.read_text(encoding="utf8"))
    different = _difference(begun["request"], json.loads(to_json(request)), "")
    if different is not None:
        field, expected, found = different
        raise ValueError(Errors.E622.format(path=output, field=field, expected=expected, found=found))
    return begun["finished"]


def _difference(one: Any, other: Any, name: str) -> tuple[str, Any, Any] | None:
    """RETURNS (tuple | None): dotted name and both values of the first field that differs."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return None if one == other else (name, one, other)
    for key in {**one, **other}:
        found = _difference(one.get(key), other.get(key), f"{name}.{key}".lstrip("."))
        if found is not None:
            return found
    return None
