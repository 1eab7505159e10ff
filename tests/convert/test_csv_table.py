import csv
import re

import pytest

from spacy_attention.convert.csv_table import looks_like_csv, read_csv
from spacy_attention.convert.run import convert_files


def texts(path):
    return [(record.line, record.text, record.label) for record in read_csv(path)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", [("text", "label"), ("Intent", "SENTENCE"), ("Message", "class"), ("text", "category")])
def test_delimiters_and_headers(write_file, delimiter, header):
    fields = ["a b", "x"] if header[0].lower() in ("text", "message") else ["x", "a b"]
    path = write_file("a.csv", delimiter.join(header) + "\n" + delimiter.join(fields) + "\n")
    assert texts(path) == [(2, "a b", "x")]


def test_line_ends_in_quotes_are_kept(write_file):
    path = write_file("a.csv", 'text,label\r\n"one\r\ntwo, ""three""\n",x\r\n\r\nlast,y\r\n')
    assert texts(path) == [(2, 'one\r\ntwo, "three"\n', "x"), (6, "last", "y")]


def test_old_mac_line_ends(write_file):
    path = write_file("a.csv", "text,label\ra,x\rb,y\r")
    assert looks_like_csv(path.read_text(encoding="utf-8"))
    assert texts(path) == [(2, "a", "x"), (3, "b", "y")]


def test_spaces_of_the_text_are_kept_and_those_of_the_class_listed(write_file):
    [record] = read_csv(write_file("a.csv", "text,label\n  a  , x \n"))
    assert (record.text, record.label) == ("  a  ", "x")
    [problem] = record.problems
    assert (problem.kind, problem.action, problem.text, problem.label) == (
        "whitespace",
        "trimmed",
        " x ",
        None,
    )


def test_row_without_class_is_kept_and_listed(write_file):
    [record] = read_csv(write_file("a.csv", "text,label\na,\n"))
    assert record.label is None
    assert [(problem.kind, problem.action) for problem in record.problems] == [("empty", "kept")]


def test_entities_are_unset(write_file):
    [record] = read_csv(write_file("a.csv", "text,label\na,x\n"))
    assert record.spans is None


def test_further_columns_are_listed_once(write_file):
    problem, *records = read_csv(write_file("a.csv", "id,text,label\n1,a,x\n2,b,y\n"))
    assert (problem.line, problem.text, problem.kind) == (1, "id", "unknown_field")
    assert len(records) == 2


def test_long_text_is_read_and_the_limit_of_csv_restored(write_file):
    limit = csv.field_size_limit()
    [record] = read_csv(write_file("a.csv", f"text,label\n{'a' * 200_000},x\n"))
    assert len(record.text) == 200_000
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        ("text\na\n", "E406", 1),
        ("a,x\nb,y\n", "E406", 1),
        ("text,Text,label\na,b,c\n", "E406", 1),
        ("text,label\na,x\nb,y,z\n", "E406", 3),
        ("text,label\na\n", "E406", 2),
        ('text,"label\n: "', "E406", 1),
        ('text,label\n"a,x\n', "E405", 2),
    ],
)
def test_other_structure_is_refused_with_its_line(write_file, content, code, line):
    with pytest.raises(ValueError, match=f"{code}.*line {line}"):
        list(read_csv(write_file("a.csv", content)))


@pytest.mark.parametrize("content", ["", "\n\n", "text,label\n"])
def test_no_rows(write_file, content):
    assert list(read_csv(write_file("a.csv", content))) == []


def test_format_is_told_by_the_header():
    assert looks_like_csv("text;label\n")
    assert looks_like_csv('"Text","Label"\r\n')
    assert not looks_like_csv("text of a letter, with a label\n")
    assert not looks_like_csv("")
    assert not looks_like_csv("a\rb\nc")


@pytest.mark.corpora
@pytest.mark.parametrize(("name", "rows"), [("train", 10_003), ("test", 3_080)])
def test_banking77(data_folder, tmp_path, load_docs, name, rows):
    path = data_folder / "banking77" / f"{name}.csv"
    result = convert_files([path], tmp_path / "a.spacy", progress=False)
    assert list(result.formats.values()) == ["csv"]
    assert (result.docs, len(result.labels), result.spans_in, dict(result.problems)) == (rows, 77, 0, {})
    # Independent of the reader: quotes, commas and line ends apart, the file is header, texts and classes in order.
    content = path.read_text(encoding="utf-8").removeprefix("text,category")
    rest = "".join(doc.text + max(doc.cats, key=doc.cats.get) for doc in load_docs(tmp_path / "a.spacy"))
    assert re.sub(r'[",\s]', "", rest) == re.sub(r'[",\s]', "", content)
