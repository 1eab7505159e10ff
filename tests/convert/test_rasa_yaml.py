import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_attention.convert.rasa_yaml import looks_like_rasa, read_rasa
from spacy_attention.convert.types import Problem, SourceSpan

SAMPLE = r"""version: "3.1"
# a comment
nlu:
- intent: greet
  examples: |
    - hi
    - Hello  [Ann](PERSON), it's me

    - 2024-01-01
    - # not a comment: text
    -
- intent: order/status
  examples:
  - text: |
      Dear all,

      - item [4711](ORDER)
      Bye
  - plain [4712](ORDER) item
  - 0x2A
  - text: |-
      one line \[sic\]
    metadata: {x: 1}
- synonym: Ann
  examples: |
    - Anna
- lookup: cities
  examples: |
    - Ulm
rules:
- rule: none
"""


@pytest.fixture
def items(write_file):
    return list(read_rasa(write_file("a.yml", SAMPLE)))


def test_messages_of_both_forms(items):
    records = [item for item in items if not isinstance(item, Problem)]
    assert [(record.line, record.label, record.text) for record in records] == [
        (6, "greet", "hi"),
        (7, "greet", "Hello  Ann, it's me"),
        (9, "greet", "2024-01-01"),
        (10, "greet", "# not a comment: text"),
        (11, "greet", ""),
        (14, "order/status", "Dear all,\n\n- item 4711\nBye"),
        (19, "order/status", "plain 4712 item"),
        (20, "order/status", "0x2A"),
        (21, "order/status", "one line [sic]"),
    ]
    assert records[1].spans == [SourceSpan(7, 10, "PERSON")]
    assert records[5].spans == [SourceSpan(18, 22, "ORDER")]
    assert all(record.n_spans == len(record.spans) for record in records)


def test_other_sections_and_fields_are_listed(items):
    loose = [item for item in items if isinstance(item, Problem)]
    assert [(problem.line, problem.text) for problem in loose] == [
        (24, "synonym: Ann"),
        (27, "lookup: cities"),
        (30, "rules"),
    ]
    assert {(problem.kind, problem.action) for problem in loose} == {("unknown_field", "dropped")}
    [problem] = items[8].problems
    assert (problem.line, problem.text) == (23, "metadata")


def test_notes_of_the_markup_reach_the_record(write_file):
    content = 'nlu:\n- intent: a\n  examples: |\n    - [Ulm]{"entity": "C", "role": "to"}\n'
    [record] = read_rasa(write_file("a.yml", content))
    [problem] = record.problems
    assert (problem.line, problem.start, problem.end, problem.label) == (4, 0, 3, None)
    assert (problem.text, problem.kind, problem.action) == ("role=to", "unknown_field", "dropped")


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        ("nlu: [", "E405", "?"),
        ("nlu:\n- intent: a\n  examples: |\n    - hi\n bad\n", "E405", 5),
        ("nlu:\n- intent: a\n  examples: |\n    - \x07\n", "E405", "?"),
        ("- intent: a\n", "E406", 1),
        ("nlu: text\n", "E406", 1),
        ("nlu:\n- hi\n", "E406", 2),
        ("nlu:\n- intent: a\n", "E406", 2),
        ("nlu:\n- intent:\n  examples: |\n    - hi\n", "E406", 2),
        ("nlu:\n- intent: a\n  examples: >\n    - hi\n    - you\n", "E406", 3),
        ("nlu:\n- intent: a\n  examples: |\n    - hi\n    you\n", "E406", 5),
        ("nlu:\n- intent: a\n  examples: |\n    - hi\n\n    -you\n", "E406", 6),
        ("nlu:\n- intent: a\n  examples:\n  - metadata: x\n", "E406", 4),
        ("nlu:\n- intent: a\n  intent: b\n  examples: |\n    - hi\n", "E406", 3),
        ("? [a]\n: b\n", "E406", 1),
        ("nlu: " + "[" * 1000, "E405", "?"),
    ],
)
def test_other_structure_is_refused_with_its_line(write_file, content, code, line):
    path = write_file("a.yml", content)
    with pytest.raises(ValueError, match=code) as error:
        list(read_rasa(path))
    assert str(path) in str(error.value)
    if line != "?":
        assert f"line {line}:" in str(error.value)


@pytest.mark.parametrize("content", ["", "version: '3.1'\nnlu:\n", "nlu: []\n", "nlu:\n- intent: a\n  examples: |\n"])
def test_no_messages(write_file, content):
    assert list(read_rasa(write_file("a.yml", content))) == []


def test_line_ends_of_windows(write_file):
    path = write_file("a.yml", SAMPLE.replace("\n", "\r\n"))
    texts = [item.text for item in read_rasa(path) if not isinstance(item, Problem)]
    assert texts[5] == "Dear all,\n\n- item 4711\nBye"


def test_quoted_examples_are_on_their_line(write_file):
    records = list(read_rasa(write_file("a.yml", 'nlu:\n- intent: a\n  examples: "- b\\n- c"\n')))
    assert [(record.line, record.text) for record in records] == [(3, "b"), (3, "c")]


def test_format_is_told_by_its_key():
    assert looks_like_rasa(SAMPLE)
    assert not looks_like_rasa("stories:\n- story: nlu\n")


# Characters that YAML carries as they are; a backslash before a bracket is what the markup cannot write.
CHARACTERS = st.characters(codec="utf-8", categories=("L", "N", "P", "S", "M", "Zs"), exclude_characters="\\\ufeff")
LABELS = st.text("ABCDEF_xyz", min_size=1, max_size=6)
CHUNKS = st.lists(st.tuples(st.text(CHARACTERS, min_size=1, max_size=12), st.none() | LABELS), max_size=6)


@settings(max_examples=50, deadline=None)
@given(st.lists(CHUNKS, min_size=1, max_size=5), st.booleans())
def test_round_trip(tmp_path_factory, messages, as_list):
    path = tmp_path_factory.getbasetemp() / "round_trip.yml"
    sources = ["".join(_mark_up(*chunk) for chunk in chunks) for chunks in messages]
    if as_list:
        # A JSON string is a YAML string, escaped surrogate pairs included.
        examples = "\n" + "".join(f"  - text: {json.dumps(source)}\n" for source in sources)
    else:
        examples = " |2\n" + "".join(f"    - {source}\n" for source in sources)
    path.write_text(f"nlu:\n- intent: a\n  examples:{examples}", encoding="utf-8", newline="")
    records = list(read_rasa(path))
    assert [record.text for record in records] == ["".join(text for text, _ in chunks) for chunks in messages]
    assert [record.spans for record in records] == [_spans(chunks) for chunks in messages]


def _mark_up(text: str, label: str | None) -> str:
    escaped = text.replace("[", r"\[").replace("]", r"\]")
    return escaped if label is None else f"[{escaped}]({label})"


def _spans(chunks: list[tuple[str, str | None]]) -> list[SourceSpan]:
    spans, start = [], 0
    for text, label in chunks:
        if label is not None:
            spans.append(SourceSpan(start, start + len(text), label))
        start += len(text)
    return spans
