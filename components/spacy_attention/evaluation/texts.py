"""Texts to run a pipeline on, from `.spacy`, `.jsonl` and `.txt` files."""

import json
from pathlib import Path

from spacy.tokens import DocBin
from spacy.vocab import Vocab

from ..errors import Errors

FORMATS = (".spacy", ".jsonl", ".txt")


def load_texts(data: Path, *, limit: int = 0) -> list[str]:
    """Read texts; annotations are not looked at.

    data (Path): `.spacy`, `.jsonl` with a string `text` per line, or `.txt` with one text a line. Blank lines are passed over.
    limit (int): the first so many texts only; 0 for all.
    RETURNS (list[str]): at least one, and at least one of them with more than white space.
    RAISES (ValueError): E504 an unreadable `.spacy` file, E506 no such file or another format, E507 a broken line, E508 no text.
    """
    if not data.is_file() or data.suffix not in FORMATS:
        raise ValueError(Errors.E506.format(path=data, formats=", ".join(FORMATS)))
    texts = _read_spacy(data) if data.suffix == ".spacy" else _read_lines(data)
    texts = texts[:limit] if limit else texts
    if not any(text.strip() for text in texts):
        raise ValueError(Errors.E508.format(path=data, n=len(texts)))
    return texts


def _read_spacy(path: Path) -> list[str]:
    try:
        return [doc.text for doc in DocBin().from_disk(path).get_docs(Vocab())]
    except Exception as err:  # msgpack, zlib and spaCy each have errors of their own
        raise ValueError(Errors.E504.format(path=path, error=err)) from err


def _read_lines(path: Path) -> list[str]:
    texts = []
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
        except UnicodeDecodeError as err:
            raise ValueError(Errors.E507.format(path=path, line=number, expected="UTF-8", found=err.reason)) from err
        if line.strip():
            texts.append(_text_of_json(path, number, line) if path.suffix == ".jsonl" else line)
    return texts


def _text_of_json(path: Path, number: int, line: str) -> str:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as err:
        raise ValueError(Errors.E507.format(path=path, line=number, expected="a JSON object", found=err.msg)) from err
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        expected = 'a JSON object with a string under "text"'
        raise ValueError(Errors.E507.format(path=path, line=number, expected=expected, found=line[:80]))
    return row["text"]
