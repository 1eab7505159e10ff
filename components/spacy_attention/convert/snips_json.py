"""SNIPS custom-intent JSON: `{"Intent": [{"data": [{"text": "play "}, {"text": "jazz", "entity": "x"}]}]}`.

The whole text of an item is cut into chunks; those with an entity are its spans.
"""

import re
from pathlib import Path
from typing import Any

from .encoding import read_source
from .fields import FieldLog
from .json_text import parse_json, unexpected
from .types import Items, Record, SourceSpan

DESCRIPTION = 'a JSON object {"Intent": [{"data": [{"text": ..., "entity": ...}]}]}'

_HEAD = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\[\s*(?:\]|\{\s*"data"\s*:)')
_DATA_KEY = re.compile(r'(?<!\\)"data"\s*:')


def looks_like_snips(head: str) -> bool:
    """Whether a file is SNIPS JSON, judged by its beginning.

    head (str): the first characters of the file.
    RETURNS (bool): True if a key is followed by a list of objects with `data`.
    """
    return _HEAD.match(head) is not None


def read_snips(path: Path) -> Items:
    """Read SNIPS JSON; texts are the chunks joined as they are, the class is the key.

    path (Path): the file.
    RETURNS (Items): one record per item of each intent's list.
    RAISES (ValueError): E405 for broken JSON, E406 for another structure.
    """
    source = read_source(path)
    yield from source.problems
    fields = FieldLog(path)
    intents = _parse(path, source.text)
    lines = _item_lines(source.text, sum(len(items) for items in intents.values()))
    n = 0
    for intent, items in intents.items():
        for item in items:
            yield _record(path, intent, item, lines[n], fields)
            n += 1


def _parse(path: Path, text: str) -> dict[str, list[Any]]:
    intents = parse_json(path, text)
    if not isinstance(intents, dict) or not all(isinstance(items, list) for items in intents.values()):
        raise unexpected(path, 1, DESCRIPTION, intents)
    return intents


def _item_lines(text: str, n_items: int) -> list[int | None]:
    # json gives no positions; a quoted "data" before a colon can only be a key, and each item has one.
    lines: list[int | None] = []
    line, end = 1, 0
    for match in _DATA_KEY.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        lines.append(line)
    return lines if len(lines) == n_items else [None] * n_items


def _record(path: Path, intent: str, item: Any, line: int | None, fields: FieldLog) -> Record:
    if not isinstance(item, dict) or not isinstance(item.get("data"), list):
        raise unexpected(path, line, 'an object with a list "data"', item)
    spans: list[SourceSpan] = []
    record = Record("", line=line, spans=spans, label=intent)
    record.problems += fields.unknown(item, {"data"}, line)
    for chunk in item["data"]:
        if not isinstance(chunk, dict) or not isinstance(chunk.get("text"), str):
            raise unexpected(path, line, 'a chunk with a string "text"', chunk)
        record.problems += fields.unknown(chunk, {"text", "entity"}, line)
        _add_chunk(path, record, spans, chunk)
    return record


def _add_chunk(path: Path, record: Record, spans: list[SourceSpan], chunk: dict[str, Any]) -> None:
    start = len(record.text)
    record.text += chunk["text"]
    label = chunk.get("entity")
    if label is None:
        return
    if not isinstance(label, str):
        raise unexpected(path, record.line, 'a string as "entity"', label)
    record.n_spans += 1
    spans.append(SourceSpan(start, len(record.text), label))
