"""The formats that `convert` reads: one reader each, and how a file is told from the others."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import Errors
from . import columns, csv_table, jsonl, rasa_yaml, snips_json
from .encoding import read_head
from .types import Items


@dataclass(frozen=True)
class Format:
    """A source format.

    read (Callable): from a path to its records and problems.
    looks_like (Callable): from the beginning of a file to whether it is of this format.
    description (str): what a file holds, for messages.
    """

    read: Callable[[Path], Items]
    looks_like: Callable[[str], bool]
    description: str


# Name on the command line -> format. The first that recognises a file reads it, so the strictest stand first.
FORMATS: dict[str, Format] = {
    "snips": Format(snips_json.read_snips, snips_json.looks_like_snips, snips_json.DESCRIPTION),
    "rasa": Format(rasa_yaml.read_rasa, rasa_yaml.looks_like_rasa, rasa_yaml.DESCRIPTION),
    "jsonl": Format(jsonl.read_jsonl, jsonl.looks_like_jsonl, jsonl.DESCRIPTION),
    "csv": Format(csv_table.read_csv, csv_table.looks_like_csv, csv_table.DESCRIPTION),
    "columns": Format(columns.read_columns, columns.looks_like_columns, columns.DESCRIPTION),
}


def find_format(path: Path, name: str = "auto") -> tuple[str, Format]:
    """Find the format of a file.

    path (Path): the file.
    name (str): a key of `FORMATS`, or `auto` to judge by the file's beginning.
    RETURNS (tuple[str, Format]): name and format.
    RAISES (ValueError): E402 if no format fits, E409 if there is none of this name.
    """
    if name != "auto":
        if name not in FORMATS:
            allowed = ", ".join(["auto", *FORMATS])
            raise ValueError(Errors.E409.format(option="--format", allowed=allowed, found=name))
        return name, FORMATS[name]
    head = read_head(path)
    for found, format_ in FORMATS.items():
        if format_.looks_like(head):
            return found, format_
    formats = "; ".join(f"{key} ({format_.description})" for key, format_ in FORMATS.items())
    raise ValueError(Errors.E402.format(path=path, formats=formats))
