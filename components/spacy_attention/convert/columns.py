"""Columns as CoNLL has them: one token per line, its tag in the last column, a blank line after each sentence."""

from pathlib import Path

from .column_table import Row, parse_table
from .detokenize import find_spaces, join_tokens
from .encoding import read_source
from .fields import FieldLog
from .json_text import unexpected
from .tags import DroppedTag, Entities, find_entities, find_scheme, keep_first
from .types import Action, Items, Kind, Problem, Record, SourceSpan

DESCRIPTION = (
    "one token per line with its tag (IOB, BILUO or IOBES) in the last of 2 to 12 columns, separated by tabs or spaces, "
    "and a blank line after each sentence"
)


def looks_like_columns(head: str) -> bool:
    """Whether a file holds tokens and tags in columns, judged by all lines of its beginning.

    head (str): the first characters of the file.
    RETURNS (bool): True if there are two tokens or more, and each has a tag.
    """
    return _is_sound(head) or _is_sound(head[: head.rfind("\n") + 1])  # the last line may be cut off


def read_columns(path: Path) -> Items:
    """Read columns; see `find_spaces` for how texts are restored.

    path (Path): the file.
    RETURNS (Items): one record per sentence; tags of which the first of a token is kept, and those that do not fit the
        scheme, as its problems.
    RAISES (ValueError): E406 for a row without tag or with another number of columns, numbered tokens, and tags that
        stand in another column than the last.
    """
    source = read_source(path)
    yield from source.problems
    table = parse_table(source.text)
    if fault := table.fault():
        row, expected = fault
        raise unexpected(path, row.line, expected, row.cells)
    if not table.sentences:
        return
    yield from FieldLog(path).unknown(table.unread_columns(), (), table.rows[0].line)
    tagged = [keep_first(table.tags(rows)) for rows in table.sentences]
    scheme = find_scheme([tags for tags, _ in tagged])
    for rows, (tags, dropped) in zip(table.sentences, tagged, strict=True):
        yield _record(path, rows, table.spaces(rows), find_entities(tags, scheme), dropped)


def _is_sound(text: str) -> bool:
    table = parse_table(text)
    return len(table.rows) > 1 and table.fault() is None


def _record(path: Path, rows: list[Row], spaces: list[bool] | None, found: Entities, dropped: list[DroppedTag]) -> Record:
    tokens = [row.token for row in rows]
    text, starts = join_tokens(tokens, find_spaces(tokens) if spaces is None else spaces)
    ends = [start + len(token) for start, token in zip(starts, tokens, strict=True)]
    spans = [SourceSpan(starts[first], ends[last - 1], label) for first, last, label in found.spans]

    def problem(i: int, label: str | None, tag: str, kind: Kind, action: Action) -> Problem:
        return Problem(str(path), rows[i].line, None, starts[i], ends[i], label, tag, kind, action)

    problems = [problem(tag.token, tag.label if tag.begins else None, tag.tag, "overlap", "dropped") for tag in dropped]
    problems += [problem(i, label, tag, "invalid_tag", "kept") for i, label, tag in found.odd]
    n_spans = len(spans) + sum(tag.begins for tag in dropped)
    return Record(text, line=rows[0].line, spans=spans, n_spans=n_spans, problems=problems)
