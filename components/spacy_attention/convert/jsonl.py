"""JSON lines: `{"text": ..., "label": ... | "cats": {...}, "entities": [[start, end, label], ...]}`."""

import json
from pathlib import Path
from typing import Any

from .encoding import read_source
from .fields import FieldLog
from .json_text import parse_json, unexpected
from .types import Items, Problem, Record, SourceSpan

DESCRIPTION = (
    'one JSON object per line: {"text": ..., "label": LABEL or "cats": {LABEL: 0 or 1}, "entities": [[start, end, LABEL]]}'
)

_KNOWN = {"text", "label", "cats", "entities"}
_KNOWN_IN_ENTITY = {"start", "end", "label"}


def looks_like_jsonl(head: str) -> bool:
    """Whether a file holds JSON lines with texts, judged by its first line.

    head (str): the first characters of the file.
    RETURNS (bool): True if the first line is an object with `text` (also a broken or cut off one).
    """
    first = head.lstrip().split("\n", 1)[0]
    if not first.startswith("{"):
        return False
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return '"text"' in first
    return isinstance(value, dict) and "text" in value


def read_jsonl(path: Path) -> Items:
    """Read JSON lines; without `entities` nothing is known about them, an empty list says there are none.

    path (Path): the file.
    RETURNS (Items): one record per line that is not blank.
    RAISES (ValueError): E405 for broken JSON, E406 for another structure.
    """
    source = read_source(path)
    yield from source.problems
    fields = FieldLog(path)
    for i, line in enumerate(source.text.split("\n"), start=1):
        if line.strip():
            yield _record(path, parse_json(path, line, i), i, fields)


def _record(path: Path, row: Any, line: int, fields: FieldLog) -> Record:
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise unexpected(path, line, 'an object with a string "text"', row)
    record = Record(row["text"], line=line)
    record.problems += fields.unknown(row, _KNOWN, line)
    _add_classes(path, record, row)
    _add_entities(path, record, row.get("entities"), fields)
    return record


def _add_classes(path: Path, record: Record, row: dict[str, Any]) -> None:
    label, cats = row.get("label"), row.get("cats")
    if label is not None and (not isinstance(label, str) or not label):
        raise unexpected(path, record.line, 'a string as "label"', label)
    if cats is None:
        record.label = label
        return
    if not isinstance(cats, dict) or not all(_is_share(value) for value in cats.values()):
        raise unexpected(path, record.line, '"cats" with values from 0 to 1', cats)
    record.cats = {name: float(value) for name, value in cats.items()}
    if label is not None and record.cats.get(label) != 1.0:
        problem = Problem(str(path), record.line, None, None, None, None, f"label={label}", "conflict", "dropped")
        record.problems.append(problem)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def _add_entities(path: Path, record: Record, entities: Any, fields: FieldLog) -> None:
    if entities is None:
        return
    if not isinstance(entities, list):
        raise unexpected(path, record.line, 'a list as "entities"', entities)
    record.spans = []
    record.n_spans = len(entities)
    for entity in entities:
        if isinstance(entity, dict):
            names = [f"entities.{name}" for name in entity if name not in _KNOWN_IN_ENTITY]
            record.problems += fields.unknown(names, (), record.line)
            entity = [entity.get("start"), entity.get("end"), entity.get("label")]
        if _is_span(entity):
            record.spans.append(SourceSpan(*entity))
        else:
            record.problems.append(_refused(path, record, entity))


def _is_span(entity: Any) -> bool:
    if not isinstance(entity, list) or len(entity) != 3:
        return False
    # bool is an int in Python, but no offset.
    return type(entity[0]) is int and type(entity[1]) is int and isinstance(entity[2], str) and entity[2] != ""


def _refused(path: Path, record: Record, entity: Any) -> Problem:
    label = entity[2] if isinstance(entity, list) and len(entity) > 2 else ""
    label = label if isinstance(label, str) else ""
    return Problem(str(path), record.line, None, None, None, label, repr(entity)[:80], "invalid_tag", "refused")
