import json

import pytest

from spacy_attention.convert.run import convert_files
from spacy_attention.convert.snips_json import looks_like_snips, read_snips
from spacy_attention.convert.types import SourceSpan

SAMPLE = """{
  "PlayMusic": [
    {
      "data": [
        {"text": "play  "},
        {"text": "Live In L.A", "entity": "album"},
        {"text": " by\\n"},
        {"text": "\\"data\\": x ", "entity": "artist"}
      ]
    },
    {"data": [{"text": "stop"}]}
  ],
  "Rate": [
    {"data": []}
  ]
}
"""


def test_text_is_the_chunks_joined(write_file):
    first, second, third = read_snips(write_file("a.json", SAMPLE))
    assert first.text == 'play  Live In L.A by\n"data": x '
    assert first.spans == [SourceSpan(6, 17, "album"), SourceSpan(21, 31, "artist")]
    assert first.n_spans == 2
    assert (first.label, second.label, third.label) == ("PlayMusic", "PlayMusic", "Rate")
    assert (second.text, second.spans) == ("stop", [])
    assert third.text == ""


def test_lines_are_those_of_the_items(write_file):
    records = list(read_snips(write_file("a.json", SAMPLE)))
    assert [record.line for record in records] == [4, 11, 14]


def test_unknown_fields_are_listed_once(write_file):
    chunk = {"text": "a", "slot_name": "s"}
    path = write_file("a.json", json.dumps({"A": [{"data": [chunk, chunk], "id": 1}]}))
    [record] = read_snips(path)
    assert [problem.text for problem in record.problems] == ["id", "slot_name"]
    assert {problem.kind for problem in record.problems} == {"unknown_field"}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ('{"A": [{"data": [', "E405"),
        ('{"A": [], "A": []}', "E405"),
        ('{"A": ' + "[" * 100_000 + "]" * 100_000 + "}", "E40[56]"),
        ('{"A": {"data": []}}', "E406"),
        ('{"A": [{"text": "x"}]}', "E406"),
        ('{"A": [{"data": ["x"]}]}', "E406"),
        ('{"A": [{"data": [{"text": 1}]}]}', "E406"),
        ('{"A": [{"data": [{"text": "x", "entity": 1}]}]}', "E406"),
        ("[1]", "E406"),
    ],
)
def test_other_structure_is_refused(write_file, content, code):
    with pytest.raises(ValueError, match=code):
        list(read_snips(write_file("a.json", content)))


def test_format_is_told_by_the_beginning():
    assert looks_like_snips(SAMPLE)
    assert looks_like_snips('{"A":[{"data":[{"te')
    assert not looks_like_snips('{"text": "a", "entities": []}')
    assert not looks_like_snips('{"A": [{"text": "b"}]}')


@pytest.mark.corpora
def test_snips_texts_are_restored_exactly(data_folder, tmp_path, load_docs, load_problems):
    folder = data_folder / "snips" / "2017-06-custom-intent-engines"
    output = tmp_path / "all.spacy"
    for pattern, total in (("train_*_full.json", 13_784), ("validate_*.json", 700)):
        inputs = sorted(folder.glob(f"*/{pattern}"))
        expected = [chunks for path in inputs for chunks in _chunks(path.read_bytes())]
        result = convert_files(inputs, output, progress=False)
        docs = load_docs(output)
        assert len(docs) == len(expected) == total
        assert [doc.text for doc in docs] == expected
        assert result.spans_in == result.spans_out + sum(n for (_, action), n in result.problems.items() if action == "dropped")
        repaired = [doc["doc"] for doc in load_problems(output) if doc["kind"] == "bad_encoding"]
        assert [docs[i].text.count("🍕") for i in repaired] == [1] * (total == 13_784)


def _chunks(data: bytes) -> list[str]:
    # Independent of the reader: CESU-8 is repaired here on the bytes.
    data = data.replace(b"\xed\xa0\xbc\xed\xbd\x95", "🍕".encode())
    [items] = json.loads(data).values()
    return ["".join(chunk["text"] for chunk in item["data"]) for item in items]
