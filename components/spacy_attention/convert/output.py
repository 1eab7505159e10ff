"""Writes output files together: either all of them or none."""

import os
from pathlib import Path

from spacy.tokens import Doc, DocBin


def problems_path(output: Path) -> Path:
    """Where the account of an output lies.

    output (Path): a `.spacy` file.
    RETURNS (Path): `<stem>.problems.jsonl` beside it.
    """
    return output.with_suffix(".problems.jsonl")


def pack(docs: list[Doc]) -> bytes:
    """Serialize documents.

    docs (list[Doc]): the documents.
    RETURNS (bytes): content of a `.spacy` file.
    """
    return DocBin(docs=docs).to_bytes()


def write_together(files: dict[Path, bytes]) -> None:
    """Write files beside their place first and move them in when all are complete.

    files (dict[Path, bytes]): content by path; missing folders are made.
    """
    temporary = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in files}
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary[path].write_bytes(content)
        for path in files:
            os.replace(temporary[path], path)
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)
