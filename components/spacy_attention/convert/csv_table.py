"""CSV with a header: one column holds the text, one its class."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from ..errors import Errors
from .encoding import read_source
from .fields import FieldLog
from .json_text import unexpected
from .types import Items, Problem, Record

TEXT_COLUMNS = ("text", "sentence", "message")
LABEL_COLUMNS = ("label", "intent", "class", "category")
DELIMITERS = (",", ";", "\t")
DESCRIPTION = (
    f"a table with a header, a column {' | '.join(TEXT_COLUMNS)} and a column {' | '.join(LABEL_COLUMNS)}, "
    "separated by comma, semicolon or tab"
)

_HEADER_LIMIT = 65536  # characters
_FIELD_LIMIT = 2**31 - 1  # characters; csv's own limit of 131,072 is too small for a document


def looks_like_csv(head: str) -> bool:
    """Whether a file is a table with the columns wanted, judged by its header.

    head (str): the first characters of the file.
    RETURNS (bool): True if text and class are found with one of the delimiters.
    """
    return _delimiter(head) is not None


def read_csv(path: Path) -> Items:
    """Read a table; line ends inside quoted texts are kept as they are, classes are stripped.

    path (Path): the file.
    RETURNS (Items): one record per row, without entities.
    RAISES (ValueError): E405 for broken quoting, E406 for a header or a row of another shape.
    """
    source = read_source(path)
    yield from source.problems
    delimiter = _delimiter(source.text)
    if delimiter is None:
        if not source.text.strip():
            return
        raise unexpected(path, 1, DESCRIPTION, source.text.strip().splitlines()[0])
    rows = _rows(path, source.text, delimiter)
    _, header = next(rows)
    names = [name.strip().casefold() for name in header]
    text_at, label_at = _column(names, TEXT_COLUMNS), _column(names, LABEL_COLUMNS)
    if names.count(names[text_at]) > 1 or names.count(names[label_at]) > 1:
        raise unexpected(path, 1, "one column for the text and one for the class", header)
    known = {header[text_at], header[label_at]}
    yield from FieldLog(path).unknown(header, known, 1)
    for line, row in rows:
        if len(row) != len(header):
            raise unexpected(path, line, f"{len(header)} fields", row)
        yield _record(path, line, row[text_at], row[label_at])


def _delimiter(text: str) -> str | None:
    """The delimiter with which the header has both columns."""
    for delimiter in DELIMITERS:
        names = {name.strip().casefold() for name in _header(text[:_HEADER_LIMIT], delimiter)}
        if names & set(TEXT_COLUMNS) and names & set(LABEL_COLUMNS):
            return delimiter
    return None


def _header(head: str, delimiter: str) -> list[str]:
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
    try:
        return next((row for row in reader if row), [])
    except csv.Error:
        return []


def _column(names: list[str], wanted: tuple[str, ...]) -> int:
    return next(names.index(name) for name in wanted if name in names)


def _rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the line where each starts."""
    limit = csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(Errors.E405.format(path=path, line=line, syntax="CSV", reason=error)) from error
    finally:
        csv.field_size_limit(limit)


def _record(path: Path, line: int, text: str, label: str) -> Record:
    stripped = label.strip()
    record = Record(text, line=line, label=stripped or None)
    if not stripped:
        record.problems.append(Problem(str(path), line, None, None, None, None, "class", "empty", "kept"))
    elif stripped != label:
        record.problems.append(Problem(str(path), line, None, None, None, None, label, "whitespace", "trimmed"))
    return record
