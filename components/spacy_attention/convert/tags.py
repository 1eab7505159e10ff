"""Entities from tags of single tokens: `B-LOC I-LOC O` in the schemes IOB1, IOB2, BILUO and IOBES."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

Scheme = Literal["IOB1", "IOB2", "BILUO"]

_TAG = re.compile(r"O|[BIELSU]-\S.*")
_COMMA = re.compile(r",(?=(?:O|[BIELSU]-[^,]+)(?:,|$))")
_BILUO = {"E": "L", "S": "U"}  # IOBES is BILUO with two other letters


@dataclass(frozen=True)
class DroppedTag:
    """A tag that gives way to another one of the same token.

    token (int): index of the token.
    tag (str): the tag.
    begins (bool): whether an entity begins with it.
    """

    token: int
    tag: str
    begins: bool

    @property
    def label(self) -> str:
        """RETURNS (str): the entity label."""
        return _parts(self.tag)[1]


@dataclass
class Entities:
    """The entities of a sentence.

    spans (list[tuple[int, int, str]]): first token, end-exclusive last token, label.
    odd (list[tuple[int, str, str]]): token, label and tag where an entity is continued that is none, or is not ended.
    """

    spans: list[tuple[int, int, str]] = field(default_factory=list)
    odd: list[tuple[int, str, str]] = field(default_factory=list)


def is_tag(cell: str) -> bool:
    """Whether a cell holds a tag, or several joined by commas.

    cell (str): content of a tag column.
    RETURNS (bool): True if each is `O` or a letter of a scheme, `-` and a label.
    """
    return all(_TAG.fullmatch(tag) for tag in _COMMA.split(cell))


def keep_first(cells: Sequence[str]) -> tuple[list[str], list[DroppedTag]]:
    """Keep the first tag of each token; an entity whose beginning was not kept is not continued either.

    cells (Sequence[str]): the tag column of a sentence.
    RETURNS (tuple[list[str], list[DroppedTag]]): one tag per token, and the others.
    """
    kept: list[str] = []
    dropped: list[DroppedTag] = []
    before: set[str] = set()  # labels of the token before, kept or not
    for i, cell in enumerate(cells):
        tags = _COMMA.split(cell)
        prefix, label = _parts(tags[0])
        if prefix in "IL" and label in before and label != _parts(kept[-1])[1]:
            tags.insert(0, "O")
        kept.append(tags[0])
        dropped += [DroppedTag(i, tag, _begins(tag, before)) for tag in tags[1:] if tag != "O"]
        before = {_parts(tag)[1] for tag in tags if tag != "O"}
    return kept, dropped


def find_scheme(sentences: Sequence[Sequence[str]]) -> Scheme:
    """Find the scheme of a file by the tags that it uses.

    sentences (Sequence[Sequence[str]]): all tags.
    RETURNS (Scheme): BILUO (or IOBES) if there are tags for last or single tokens; IOB1 if entities begin with `I-` and
        `B-` only parts neighbours of one label; IOB2 otherwise.
    """
    starts = set()
    for tags in sentences:
        for before, tag in zip(["O", *tags], tags, strict=False):
            prefix, label = _parts(tag)
            if prefix in "LU":
                return "BILUO"
            if prefix != "O":
                starts.add((prefix, label == _parts(before)[1]))
    return "IOB1" if ("I", False) in starts and ("B", False) not in starts else "IOB2"


def find_entities(tags: Sequence[str], scheme: Scheme) -> Entities:
    """Find the entities of a sentence; what continues nothing begins one.

    tags (Sequence[str]): one tag per token.
    scheme (Scheme): the scheme of the file.
    RETURNS (Entities): the entities and the tags that do not fit the scheme.
    """
    found = Entities()
    odd = set()
    for start, end in _stretches(tags):
        first, label = _parts(tags[start])
        if first in "IL" and scheme != "IOB1":
            odd.add(start)
        if scheme == "BILUO" and _parts(tags[end - 1])[0] not in "LU":
            odd.add(end - 1)
        found.spans.append((start, end, label))
    found.odd = [(i, _parts(tags[i])[1], tags[i]) for i in sorted(odd)]
    return found


def _stretches(tags: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First and end-exclusive last token of each entity."""
    start = None
    before = ("O", "")
    for i, tag in enumerate([*tags, "O"]):
        prefix, label = _parts(tag)
        goes_on = prefix in "IL" and before[0] in "BI" and label == before[1]
        if start is not None and not goes_on:
            yield start, i
            start = None
        if start is None and prefix != "O":
            start = i
        before = (prefix, label)


def _begins(tag: str, before: set[str]) -> bool:
    prefix, label = _parts(tag)
    return prefix in "BU" or label not in before


def _parts(tag: str) -> tuple[str, str]:
    """Prefix in the letters of BILUO, and label."""
    prefix, _, label = tag.partition("-")
    return _BILUO.get(prefix, prefix), label
