import re
from pathlib import Path

import pytest

from spacy_attention.convert.columns import looks_like_columns, read_columns
from spacy_attention.convert.csv_table import looks_like_csv
from spacy_attention.convert.formats import find_format
from spacy_attention.convert.run import convert_files
from spacy_attention.convert.tags import find_scheme
from spacy_attention.convert.types import Problem, SourceSpan

SCHEMES = {
    "IOB1": "I-PER I-PER O I-LOC I-ORG B-ORG I-ORG O",
    "IOB2": "B-PER I-PER O B-LOC B-ORG B-ORG I-ORG O",
    "BILUO": "B-PER L-PER O U-LOC U-ORG B-ORG L-ORG O",
    "IOBES": "B-PER E-PER O S-LOC S-ORG B-ORG E-ORG O",
}
ENTITIES = [("Ann Lee", "PER"), ("Ulm", "LOC"), ("Acme", "ORG"), ("Foo Ltd", "ORG")]


@pytest.fixture
def read(write_file):
    """Read a file given as rows separated by `|`, with one more `|` after each sentence."""
    return lambda content: list(read_columns(write_file("a.conll", content.replace("|", "\n"))))


def entities(record):
    return [(record.text[span.start : span.end], span.label) for span in record.spans]


def listed(record):
    return [(p.line, p.start, p.end, p.label, p.text, p.kind, p.action) for p in record.problems]


def test_texts_and_spans(read):
    first, second = read("I\tO|'m\tO|in\tO|New\tB-LOC|York\tI-LOC|,\tO|Ann\tB-PER|.\tO||Bye\tO|!\tO|")
    assert (first.text, first.line, first.n_spans) == ("I'm in New York, Ann.", 1, 2)
    assert first.spans == [SourceSpan(7, 15, "LOC"), SourceSpan(17, 20, "PER")]
    assert (second.text, second.line, second.spans, second.n_spans) == ("Bye!", 10, [], 0)
    assert (first.label, first.cats, first.problems) == (None, None, [])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_schemes(read, scheme):
    tokens = ["Ann", "Lee", "at", "Ulm", "Acme", "Foo", "Ltd", "."]
    [record] = read("|".join(map("\t".join, zip(tokens, SCHEMES[scheme].split(), strict=True))))
    assert entities(record) == ENTITIES
    assert (record.n_spans, record.problems) == (4, [])


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("O O", "IOB2"),
        ("B-X I-X", "IOB2"),
        ("I-X I-X", "IOB1"),
        ("I-X B-X", "IOB1"),
        ("B-X O I-X", "IOB2"),
        ("I-Y B-X", "IOB2"),
        ("U-X O", "BILUO"),
        ("B-X E-X", "BILUO"),
    ],
)
def test_scheme_is_that_of_the_file(tags, scheme):
    assert find_scheme([tags.split()]) == scheme
    assert find_scheme([["O"], tags.split()]) == scheme


def test_tag_that_continues_nothing_begins_an_entity(read):
    [record] = read("Ann\tB-PER|saw\tO|Ulm\tI-LOC|Bonn\tI-GPE|now\tI-GPE|")
    assert entities(record) == [("Ann", "PER"), ("Ulm", "LOC"), ("Bonn now", "GPE")]
    assert listed(record) == [
        (3, 8, 11, "LOC", "I-LOC", "invalid_tag", "kept"),
        (4, 12, 16, "GPE", "I-GPE", "invalid_tag", "kept"),
    ]
    assert record.n_spans == 3


def test_entity_without_its_end_is_kept_and_listed(read):
    [record] = read("Ann\tB-PER|Lee\tI-PER|Ulm\tS-LOC|Foo\tE-ORG|Bar\tI-ORG|")
    assert entities(record) == [("Ann Lee", "PER"), ("Ulm", "LOC"), ("Foo", "ORG"), ("Bar", "ORG")]
    assert [problem.text for problem in record.problems] == ["I-PER", "E-ORG", "I-ORG"]


def test_first_of_several_tags_is_kept(read):
    [record] = read("The\tO|River\tB-location,B-group|Rom\tI-location,I-group|,\tI-group|Ulm\tB-location|")
    assert entities(record) == [("River Rom", "location"), ("Ulm", "location")]
    assert listed(record) == [
        (2, 4, 9, "group", "B-group", "overlap", "dropped"),
        (3, 10, 13, None, "I-group", "overlap", "dropped"),
        (4, 13, 14, None, "I-group", "overlap", "dropped"),
    ]
    assert record.n_spans == 3


def test_labels_may_hold_hyphens_and_commas(read):
    [record] = read("a\tB-creative-work|b\tI-creative-work|c\tB-x,y|")
    assert entities(record) == [("a b", "creative-work"), ("c", "x,y")]


def test_blank_lines_documents_and_comments(read):
    content = "# title: x O|-DOCSTART- -X- O||||Ulm X B-LOC|# X O|# note|\t| |Bonn X B-LOC|-DOCSTART- -X- O|a X O"
    problem, *records = read(content)
    assert [(record.line, record.text) for record in records] == [(6, "Ulm #"), (11, "Bonn"), (13, "a")]
    assert problem == Problem(problem.file, 6, None, None, None, None, "column 2", "unknown_field", "dropped")


def test_tabs_separate_only_if_all_lines_have_one(read):
    assert [record.text for record in read("New  York\tB-LOC|#\tO|")] == ["New  York #"]
    assert [record.text for record in read("New \t B-LOC|York   I-LOC|")] == ["New York"]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_and_byte_order_mark(write_file, end):
    path = write_file("a.conll", "\ufeff" + f"Ulm\tB-LOC{end}.\tO{end}{end}\u200bBonn\tO")
    assert [(record.line, record.text) for record in read_columns(path)] == [(1, "Ulm."), (4, "\u200bBonn")]


@pytest.mark.parametrize(("yes", "no"), [("+", "-"), ("_", "SpaceAfter=No")])
def test_column_of_spaces_counts(read, yes, no):
    [record] = read(f"German B-LOC {no}|- O {no}|owned O {yes}|( O {yes}|. O {yes}|")
    assert record.text == "German-owned ( ."
    assert record.spans == [SourceSpan(0, 6, "LOC")]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("Ulm\tB-LOC|Bonn|", 2),
        ("Ulm\tB-LOC|\tO|", 2),
        ("Ulm\tB-LOC|Bonn\tX\tO|", 2),
        ("WORD\tTAG|Ulm\tLOC|", 1),
        ("Ulm\tB-LOC|Bonn\tb-LOC|", 2),
        ("Ulm\tB-|", 1),
        (" ".join(["Ulm", *["x"] * 11, "O"]), 1),
        ("|1 Ulm B-LOC|2 . O||1 Yes O|", 2),
        ("Ulm\tB-LOC\tO|.\tO\tO|", 1),
        ("Ulm B-LOC -|. O -|", 1),
    ],
)
def test_other_structure_is_refused_with_its_line(read, content, line):
    with pytest.raises(ValueError, match=f"E406.*line {line}:"):
        read(content)


@pytest.mark.parametrize("content", ["", "||", "-DOCSTART-|"])
def test_no_sentences(read, content):
    assert read(content) == []


@pytest.mark.parametrize("content", ["Ulm\tB-LOC\n.\tO", "a X Y O\n\nUlm X Y B-LOC\n", "a O +\nb O -\n", "a\tO\nb\tO\nc\tB-"])
def test_format_is_told_by_every_line(content):
    assert looks_like_columns(content)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "He got a B-plus",
        "vitamin O\nand more\n",
        "one\ntwo\n",
        "a\tO\nb\tX\nc\tO\n",
        "text\tlabel\na\tO\n",
        "id\ttext\tclass\n1\ta\tO\n",
        "1\tUlm\tB-LOC\n2\t.\tO\n",
        "Ulm\tB-LOC\tO\n.\tO\tO\n",
    ],
)
def test_other_files_are_not_taken(content):
    assert not looks_like_columns(content)


def test_format_is_found(write_file):
    path = write_file("data.txt", "label text O\nx y B-A\n")
    assert find_format(path)[0] == "columns"
    assert not looks_like_csv(path.read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match="E402"):
        find_format(write_file("plain.txt", "Dear Ann,\nsee you in Ulm.\n"))


def test_example_of_the_page(write_file):
    page = (Path(__file__).resolve().parents[2] / "docs" / "convert.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```\n(Ann .*?)^```$", page, re.MULTILINE | re.DOTALL)
    [record] = read_columns(write_file("a.conll", example))
    assert f"`{record.text}`" in page
    assert entities(record) == [("Ann", "PER"), ("New York", "LOC")]


def test_account_of_several_tags(write_file, tmp_path, load_docs):
    path = write_file("a.conll", "Ulm\tB-a,B-b\nnow\tI-b\nhere\tI-c\n")
    result = convert_files([path], tmp_path / "a.spacy", progress=False)
    [doc] = load_docs(tmp_path / "a.spacy")
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Ulm", "a"), ("here", "c")]
    assert (result.spans_in, result.spans_out) == (3, 2)
    assert doc.cats == {}


@pytest.mark.corpora
@pytest.mark.parametrize(
    ("name", "docs", "spans_in", "spans_out", "problems"),
    [
        ("wnut17train.conll", 3394, 1975, 1975, {("misaligned", "expanded"): 6}),
        ("emerging.dev.conll", 1009, 836, 836, {("misaligned", "expanded"): 3}),
        ("emerging.test.annotated", 1287, 1079, 1079, {}),
        (
            "emerging.test.conll",
            1287,
            1232,
            979,
            {("misaligned", "expanded"): 2, ("overlap", "dropped"): 379, ("invalid_tag", "kept"): 1},
        ),
    ],
)
def test_wnut17(data_folder, tmp_path, load_docs, name, docs, spans_in, spans_out, problems):
    path = data_folder / "wnut17" / name
    result = convert_files([path], tmp_path / "a.spacy", progress=False)
    assert list(result.formats.values()) == ["columns"]
    assert (result.docs, result.spans_in, result.spans_out, dict(result.problems)) == (docs, spans_in, spans_out, problems)
    converted = load_docs(tmp_path / "a.spacy")
    assert sum(len(doc.ents) for doc in converted) == spans_out
    # Independent of the reader: the same characters in the same order, only spaces were added.
    source = [line.split("\t")[0] for line in path.read_text(encoding="utf-8").split("\n")]
    assert re.sub(r"\s", "", "".join(doc.text for doc in converted)) == re.sub(r"\s", "", "".join(source))


@pytest.mark.corpora
@pytest.mark.parametrize(
    ("name", "docs", "spans", "expanded"), [("train", 5424, 5134, 5), ("devel", 923, 787, 0), ("test", 940, 960, 1)]
)
def test_ncbi_is_the_same_in_both_schemes(data_folder, tmp_path, name, docs, spans, expanded):
    paths = [data_folder / "ncbi_disease" / f"NCBI-disease-{scheme}" / f"{name}.tsv" for scheme in ("IOB", "IOBES")]
    iob, iobes = (list(read_columns(path)) for path in paths)
    assert iob == iobes
    assert len(iob) == docs
    assert sum(len(record.spans) for record in iob) == spans
    result = convert_files([paths[1]], tmp_path / "a.spacy", progress=False)
    assert (result.docs, result.spans_in, result.spans_out) == (docs, spans, spans)
    assert result.problems[("misaligned", "expanded")] == sum(result.problems.values()) == expanded


@pytest.mark.corpora
def test_numbered_tokens_and_nested_tags_are_not_read_as_something_else(data_folder):
    for folder in ("litbank/entities/tsv", "exports/flair_columns/ner_german_germeval"):
        paths = sorted((data_folder / folder).glob("*.tsv"))
        assert paths
        for path in paths:
            with pytest.raises(ValueError, match="E402"):
                find_format(path)
            with pytest.raises(ValueError, match="E406"):
                list(read_columns(path))
