"""Entities in a Rasa message: `[text](LABEL)` or `[text]{"entity": "LABEL"}`; `\\[` and `\\]` are text."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from .types import Action, Kind, SourceSpan

# An escaped bracket, a pair of brackets around text and escaped brackets, or a bracket alone.
_BRACKETS = re.compile(r"\\[\[\]]|\[(?P<inner>(?:\\[\[\]]|(?!\\[\[\]])[^\[\]])*)\]|[\[\]]")
_LABEL = re.compile(r"\((?P<label>[^():\n]+)(?::(?P<value>[^)\n]*))?\)")
_ESCAPED = re.compile(r"\\([\[\]])")


@dataclass(frozen=True)
class Note:
    """Something to list about a stretch of the plain text; fields as in `Problem`."""

    start: int
    end: int
    text: str
    kind: Kind
    action: Action


@dataclass
class Message:
    """A message without its markup.

    text (str): plain text.
    spans (list[SourceSpan]): entities, offsets in the plain text.
    notes (list[Note]): fields that are not kept, and brackets that are no markup.
    """

    text: str = ""
    spans: list[SourceSpan] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def parse_markup(source: str) -> Message:
    """Take the markup out of a message.

    source (str): the message as it stands in the file.
    RETURNS (Message): plain text and entities; brackets that are no markup stay in the text and are noted.
    """
    message = Message()
    position = 0
    while match := _BRACKETS.search(source, position):
        message.text += source[position : match.start()]
        position = _take(source, match, message)
    message.text += source[position:]
    return message


def _take(source: str, match: re.Match[str], message: Message) -> int:
    """Add what the brackets hold to the message; return where to go on."""
    start = len(message.text)
    found, inner = match.group(), match.group("inner")
    if found.startswith("\\"):
        message.text += found[1]
        return match.end()
    annotations, end = _annotations(source, match.end()) if inner is not None else ([], match.end())
    if annotations and inner is not None:
        message.text += _ESCAPED.sub(r"\1", inner)
        for annotation in annotations:
            _add_span(message, start, annotation)
        return end
    message.text += _ESCAPED.sub(r"\1", found)
    message.notes.append(Note(start, len(message.text), found, "invalid_tag", "kept"))
    return match.end()


def _add_span(message: Message, start: int, annotation: dict[str, Any]) -> None:
    end = len(message.text)
    message.spans.append(SourceSpan(start, end, annotation["entity"]))
    for key, value in annotation.items():
        if key != "entity":
            message.notes.append(Note(start, end, f"{key}={value}", "unknown_field", "dropped"))


def _annotations(source: str, position: int) -> tuple[list[dict[str, Any]], int]:
    """What follows a pair of brackets: its annotations (none if it is plain text), and where they end."""
    if match := _LABEL.match(source, position):
        label, value = match.group("label").strip(), match.group("value")
        if label and not (value or "").startswith("//"):  # a web address is no label
            return [{"entity": label} | ({} if value is None else {"value": value})], match.end()
    if source[position : position + 1] not in ("{", "["):
        return [], position
    try:
        values, end = json.JSONDecoder().raw_decode(source, position)
    except (ValueError, RecursionError):
        return [], position
    values = values if isinstance(values, list) else [values]
    if all(isinstance(value, dict) and isinstance(value.get("entity"), str) for value in values):
        return values, end
    return [], position
