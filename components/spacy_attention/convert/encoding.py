"""Reads a source file as text and lists what had to be repaired on the way."""

import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import Errors
from .types import Problem

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_EXCERPT = 80  # characters of a line shown in the account
_HEAD = 65536  # bytes by which a format is told


@dataclass(frozen=True)
class Source:
    """A decoded file.

    text (str): the whole file without byte order mark; line ends as they are.
    problems (list[Problem]): one per repaired line.
    """

    text: str
    problems: list[Problem]


def read_source(path: Path) -> Source:
    """Read a UTF-8 file; surrogate pairs written as two characters each (CESU-8) are joined and listed.

    path (Path): the file.
    RETURNS (Source): its text and the repaired lines.
    RAISES (ValueError): E401 if there is no such file, E404 if it is not UTF-8.
    """
    if not path.is_file():
        raise ValueError(Errors.E401.format(path=path))
    data = path.read_bytes()
    try:
        return Source(data.decode("utf-8-sig"), [])
    except UnicodeDecodeError:
        pass
    try:
        text = data.decode("utf-8", errors="surrogatepass").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"0x{data[error.start]:02x}"
        raise ValueError(Errors.E404.format(path=path, position=error.start, byte=byte, line=line)) from error
    return _repair_lines(path, text)


def read_head(path: Path) -> str:
    """Read the beginning of a file, to tell its format; broken characters are replaced.

    path (Path): the file.
    RETURNS (str): up to 64 KiB as text.
    RAISES (ValueError): E401 if there is no such file.
    """
    if not path.is_file():
        raise ValueError(Errors.E401.format(path=path))
    with path.open("rb") as file:
        return file.read(_HEAD).decode("utf-8", errors="replace").removeprefix("\ufeff")


def repair(text: str) -> str:
    """Join surrogate pairs to the characters they stand for; a single surrogate becomes U+FFFD.

    text (str): any text.
    RETURNS (str): a text that can be written as UTF-8; character offsets change where pairs were joined.
    """
    return without_surrogates(join_pairs(text))


def join_pairs(text: str) -> str:
    """Join surrogate pairs to the characters they stand for; single surrogates stay.

    text (str): any text.
    RETURNS (str): the text; character offsets change where pairs were joined.
    """
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def without_surrogates(text: str) -> str:
    """Replace each surrogate by U+FFFD, so that character offsets stay what they are.

    text (str): any text.
    RETURNS (str): a text of the same length that can be written as UTF-8.
    """
    return _SURROGATE.sub(_REPLACEMENT, text)


def _repair_lines(path: Path, text: str) -> Source:
    lines = text.split("\n")
    problems = []
    for i, line in enumerate(lines):
        lines[i] = repair(line)
        if lines[i] != line:
            excerpt = lines[i].strip()[:_EXCERPT]
            problems.append(Problem(str(path), i + 1, None, None, None, None, excerpt, "bad_encoding", "kept"))
    return Source("\n".join(lines), problems)
