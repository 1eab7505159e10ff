"""Texts from the three kinds of files."""

import json

import pytest
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_attention.evaluation.texts import load_texts


def write_lines(path, *rows):
    path.write_text("".join(f"{row}\n" for row in rows), "utf8")
    return path


def test_lines_of_text(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("\ufeffone\r\n\n two\u2028three \r\nfour".encode())
    assert load_texts(path) == ["one", " two\u2028three ", "four"]


def test_json_lines(tmp_path):
    path = write_lines(tmp_path / "x.jsonl", json.dumps({"text": "a\nb", "label": "x"}), "", json.dumps({"text": ""}))
    assert load_texts(path) == ["a\nb", ""]


def test_spacy_file(tmp_path):
    docs = [Doc(Vocab(), words=["a", "b"]), Doc(Vocab())]
    DocBin(docs=docs).to_disk(tmp_path / "x.spacy")
    assert load_texts(tmp_path / "x.spacy") == ["a b ", ""]


def test_limit_takes_the_first(tmp_path):
    assert load_texts(write_lines(tmp_path / "x.txt", "one", "two", "three"), limit=2) == ["one", "two"]


@pytest.mark.parametrize("line", ['{"txt": "x"}', '{"text": 3}', '["x"]', '"text"', "{"])
def test_a_broken_line_is_named(line, tmp_path):
    with pytest.raises(ValueError, match=r"E507.*x\.jsonl', line 2"):
        load_texts(write_lines(tmp_path / "x.jsonl", '{"text": "fine"}', line))


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"fine\ncaf\xe9\n")
    with pytest.raises(ValueError, match="E507.*line 2.*UTF-8"):
        load_texts(tmp_path / "x.txt")


@pytest.mark.parametrize("name", ["missing.txt", "folder", "table.csv"])
def test_files_that_hold_no_texts(name, tmp_path):
    (tmp_path / "folder").mkdir()
    write_lines(tmp_path / "table.csv", "text,label")
    with pytest.raises(ValueError, match="E506"):
        load_texts(tmp_path / name)


def test_blank_texts_only(tmp_path):
    with pytest.raises(ValueError, match="E508"):
        load_texts(write_lines(tmp_path / "x.jsonl", '{"text": " \\n"}'))
