"""Fixtures of the conversion tests."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

WriteFile = Callable[[str, str | bytes], Path]
LoadDocs = Callable[[Path], list[Doc]]


@pytest.fixture(scope="session")
def nlp() -> Language:
    return spacy.blank("en")


@pytest.fixture
def write_file(tmp_path: Path) -> WriteFile:
    """Write a file with these bytes or this text (line ends untouched) and give its path."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write


@pytest.fixture
def load_docs(nlp: Language) -> LoadDocs:
    return lambda path: list(DocBin().from_disk(path).get_docs(nlp.vocab))


@pytest.fixture
def load_problems() -> Callable[[Path], list[dict]]:
    """The account of an output, as a list of objects."""

    def load(output: Path) -> list[dict]:
        lines = output.with_suffix(".problems.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    return load
