import json

import pytest

from spacy_attention.convert.jsonl import looks_like_jsonl, read_jsonl
from spacy_attention.convert.types import SourceSpan


@pytest.fixture
def read_rows(write_file):
    def read(*rows):
        return list(read_jsonl(write_file("a.jsonl", "\n".join(map(json.dumps, rows)) + "\n")))

    return read


def test_both_forms_of_entities(read_rows):
    as_list, as_object = read_rows(
        {"text": "to Ulm", "label": "go", "entities": [[3, 6, "CITY"]]},
        {"text": "to Ulm", "label": "go", "entities": [{"start": 3, "end": 6, "label": "CITY"}]},
    )
    assert as_list.spans == as_object.spans == [SourceSpan(3, 6, "CITY")]
    assert (as_list.label, as_list.n_spans, as_list.line) == ("go", 1, 1)
    assert as_object.line == 2


def test_what_is_not_said_is_unset(read_rows):
    nothing, none, null = read_rows({"text": "a"}, {"text": "a", "entities": []}, {"text": "a", "entities": None, "label": None})
    assert (nothing.spans, nothing.label, nothing.cats) == (None, None, None)
    assert none.spans == []
    assert (null.spans, null.label) == (None, None)


def test_cats_are_kept_as_they_are(read_rows):
    [record] = read_rows({"text": "a", "cats": {"x": 1, "y": 0.0, "z": True}})
    assert record.cats == {"x": 1.0, "y": 0.0, "z": 1.0}


def test_label_beside_cats_that_say_otherwise_is_listed(read_rows):
    agrees, differs = read_rows({"text": "a", "label": "x", "cats": {"x": 1}}, {"text": "a", "label": "x", "cats": {"x": 0}})
    assert agrees.problems == []
    [problem] = differs.problems
    assert (problem.kind, problem.action, problem.text) == ("conflict", "dropped", "label=x")
    assert not problem.loses_span


@pytest.mark.parametrize(
    "entity",
    [
        [0, 1],
        [0, 1, "X", "y"],
        ["0", 1, "X"],
        [0.0, 1, "X"],
        [True, 1, "X"],
        [0, 1, ""],
        [0, 1, 2],
        {"start": 0, "label": "X"},
        "X",
        None,
    ],
)
def test_malformed_entity_is_refused_and_counted(read_rows, entity):
    [record] = read_rows({"text": "ab", "entities": [entity, [0, 2, "Y"]]})
    assert record.spans == [SourceSpan(0, 2, "Y")]
    assert record.n_spans == 2
    [problem] = record.problems
    assert (problem.kind, problem.action) == ("invalid_tag", "refused")
    assert problem.loses_span


def test_unknown_fields_are_listed_once(read_rows):
    row = {"text": "ab", "id": 1, "entities": [{"start": 0, "end": 1, "label": "X", "id": 7}]}
    first, second = read_rows(row, row)
    assert [problem.text for problem in first.problems] == ["id", "entities.id"]
    assert second.problems == []


def test_blank_lines_and_line_separators_in_texts(write_file):
    path = write_file("a.jsonl", '\n{"text": "a\u2028b"}\r\n  \n{"text": "c"}')
    assert [(record.line, record.text) for record in read_jsonl(path)] == [(2, "a\u2028b"), (4, "c")]


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ('{"text": "a"', "E405"),
        ('{"text": "a", "text": "b"}', "E405"),
        ('{"text": ' + "[" * 100_000, "E405"),
        ("[1]", "E406"),
        ('{"label": "x"}', "E406"),
        ('{"text": 1}', "E406"),
        ('{"text": "a", "label": 1}', "E406"),
        ('{"text": "a", "label": ""}', "E406"),
        ('{"text": "a", "cats": ["x"]}', "E406"),
        ('{"text": "a", "cats": {"x": 2}}', "E406"),
        ('{"text": "a", "cats": {"x": "1"}}', "E406"),
        ('{"text": "a", "cats": {"x": NaN}}', "E406"),
        ('{"text": "a", "entities": {"x": 1}}', "E406"),
    ],
)
def test_other_structure_is_refused_with_its_line(write_file, row, code):
    with pytest.raises(ValueError, match=f"{code}.*line 2"):
        list(read_jsonl(write_file("a.jsonl", '{"text": "a"}\n' + row)))


def test_format_is_told_by_the_first_line():
    assert looks_like_jsonl('\n{"text": "a"}\n{"te')
    assert looks_like_jsonl('{"text": "cut o')
    assert not looks_like_jsonl('{\n  "text": "a"\n}')
    assert not looks_like_jsonl('{"id": 1}\n')
    assert not looks_like_jsonl("text,label")
