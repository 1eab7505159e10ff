"""Rasa NLU training data, YAML 3.x: one section per intent, entities marked inside the messages."""

import re
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ..errors import Errors
from .encoding import join_pairs, read_source
from .json_text import unexpected
from .rasa_markup import parse_markup
from .types import Items, Problem, Record

DESCRIPTION = "Rasa NLU YAML with a section `nlu:` of items `intent:` and `examples:`"

_HEAD = re.compile(r"^nlu\s*:", re.MULTILINE)
_IGNORED = {"version"}


def looks_like_rasa(head: str) -> bool:
    """Whether a file is Rasa NLU YAML, judged by its beginning.

    head (str): the first characters of the file.
    RETURNS (bool): True if there is a top-level key `nlu`.
    """
    return _HEAD.search(head) is not None


def read_rasa(path: Path) -> Items:
    """Read Rasa NLU YAML; the class of a message is its intent.

    path (Path): the file.
    RETURNS (Items): one record per message; sections other than intents as problems.
    RAISES (ValueError): E405 for broken YAML, E406 for another structure.
    """
    source = read_source(path)
    yield from source.problems
    root = _compose(path, source.text)
    if root is None:
        return
    for key, value in _pairs(path, root).values():
        if key.value == "nlu":
            for item in _items(path, value):
                yield from _read_item(path, item)
        elif key.value not in _IGNORED:
            yield _unknown(path, key, key.value)


def _compose(path: Path, text: str) -> Node | None:
    # Nodes instead of values: they keep line numbers, and the text of what YAML takes for a number or a date.
    try:
        return YAML(typ="rt", pure=True).compose(text)
    except (YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else "?"
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        raise ValueError(Errors.E405.format(path=path, line=line, syntax="YAML", reason=reason)) from error


def _line(node: Node) -> int:
    return node.start_mark.line + 1


def _pairs(path: Path, node: Node) -> dict[str, tuple[ScalarNode, Node]]:
    if not isinstance(node, MappingNode):
        raise unexpected(path, _line(node), "keys with values", node.value)
    pairs = {}
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            raise unexpected(path, _line(key), "a plain key", key.value)
        if key.value in pairs:
            raise unexpected(path, _line(key), "each key once", f"{key.value} twice")
        pairs[key.value] = (key, value)
    return pairs


def _items(path: Path, node: Node) -> list[Node]:
    if isinstance(node, SequenceNode):
        return node.value
    if isinstance(node, ScalarNode) and not node.value:
        return []
    raise unexpected(path, _line(node), "a list", node.value)


def _unknown(path: Path, node: Node, text: str) -> Problem:
    return Problem(str(path), _line(node), None, None, None, None, text, "unknown_field", "dropped")


def _read_item(path: Path, item: Node) -> Items:
    pairs = _pairs(path, item)
    if "intent" not in pairs:
        key, value = next(iter(pairs.values()), (item, item))
        text = f"{key.value}: {value.value}" if isinstance(value, ScalarNode) else str(key.value)
        yield _unknown(path, key, text)
        return
    (intent_key, intent), examples = pairs["intent"], pairs.get("examples", (None, None))[1]
    if not isinstance(intent, ScalarNode) or not intent.value:
        raise unexpected(path, _line(intent_key), "the name of an intent", intent.value)
    if examples is None:
        raise unexpected(path, _line(item), f"`examples:` of intent {intent.value}", "none")
    for name, (key, _) in pairs.items():
        if name not in ("intent", "examples"):
            yield _unknown(path, key, name)
    for line, text, problems in _examples(path, examples):
        yield _record(path, line, text, intent.value, problems)


def _examples(path: Path, node: Node) -> Iterator[tuple[int, str, list[Problem]]]:
    """The messages of an intent: line, text with markup, and fields that are not kept."""
    if isinstance(node, ScalarNode):
        yield from ((line, text, []) for line, text in _block(path, node))
        return
    for item in _items(path, node):
        if isinstance(item, ScalarNode):
            yield _line(item), _scalar(item), []
            continue
        pairs = _pairs(path, item)
        text = pairs.get("text", (None, None))[1]
        if not isinstance(text, ScalarNode):
            raise unexpected(path, _line(item), "a message with `text:`", list(pairs))
        unknown = [_unknown(path, key, name) for name, (key, _) in pairs.items() if name != "text"]
        yield _line(text), _scalar(text), unknown


def _block(path: Path, node: ScalarNode) -> Iterator[tuple[int, str]]:
    """Lines of `examples: |`, each `- message`."""
    if node.style == ">":
        raise unexpected(path, _line(node), "`examples: |` (one message per line)", "`examples: >`")
    first = _line(node) + 1 if node.style == "|" else _line(node)
    for i, row in enumerate(node.value.split("\n")):
        line = first + i if node.style == "|" else first
        item = row.lstrip()
        if not item:
            continue
        if item != "-" and not item.startswith("- "):
            raise unexpected(path, line, "a message that starts with `- `", row)
        yield line, item[2:]


def _scalar(node: ScalarNode) -> str:
    if node.style in ("|", ">"):
        return node.value.removesuffix("\n")  # belongs to YAML, not to the message
    return join_pairs(node.value)  # as "\ud83d\ude00" stands for one character


def _record(path: Path, line: int, source: str, intent: str, problems: list[Problem]) -> Record:
    message = parse_markup(source)
    listed = [
        Problem(str(path), line, None, note.start, note.end, None, note.text, note.kind, note.action) for note in message.notes
    ]
    return Record(
        message.text,
        line=line,
        spans=message.spans,
        n_spans=len(message.spans),
        label=intent,
        problems=problems + listed,
    )
