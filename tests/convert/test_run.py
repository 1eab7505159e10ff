import json
import os

import pytest

from spacy_attention.convert import output as output_module
from spacy_attention.convert import run as run_module
from spacy_attention.convert.account import Account
from spacy_attention.convert.formats import FORMATS, Format, find_format
from spacy_attention.convert.run import convert_files
from spacy_attention.convert.types import Problem, Record, SourceSpan

RASA = """nlu:
- intent: go
  examples: |
    - to  [Ulm ](CITY)now
    - to [new](CITY)s, [Ulm](CITY:ulm)
    -
- intent: stop
  examples: |
    - Stop!
- regex: x
  examples: |
    - y
"""
KEYS = ["file", "line", "doc", "start", "end", "label", "text", "kind", "action"]


@pytest.fixture
def convert(tmp_path):
    def run(*inputs, **options):
        return convert_files(list(inputs), tmp_path / "out.spacy", progress=False, **options)

    return run


@pytest.fixture
def rows(write_file):
    """Write JSON lines."""
    return lambda name, *rows: write_file(name, "\n".join(map(json.dumps, rows)))


def test_docs_of_a_rasa_file(convert, write_file, tmp_path, load_docs):
    result = convert(write_file("a.yml", RASA))
    docs = load_docs(tmp_path / "out.spacy")
    assert [doc.text for doc in docs] == ["to  Ulm now", "to news, Ulm", "", "Stop!"]
    assert [[(ent.text, ent.label_) for ent in doc.ents] for doc in docs] == [
        [("Ulm", "CITY")],
        [("news", "CITY"), ("Ulm", "CITY")],
        [],
        [],
    ]
    assert [doc.cats for doc in docs] == [{"go": 1.0, "stop": 0.0}] * 3 + [{"go": 0.0, "stop": 1.0}]
    assert docs[3].has_annotation("ENT_IOB")
    assert (result.docs, result.spans_in, result.spans_out, result.labels) == (4, 3, 3, ["go", "stop"])
    assert list(result.formats.values()) == ["rasa"]


def test_account_of_a_rasa_file(convert, write_file, tmp_path, load_problems):
    path = write_file("a.yml", RASA)
    result = convert(path)
    problems = load_problems(tmp_path / "out.spacy")
    assert all(list(problem) == KEYS for problem in problems)
    assert {problem["file"] for problem in problems} == {str(path)}
    assert [tuple(problem[key] for key in KEYS[1:]) for problem in problems] == [
        (10, None, None, None, None, "regex: x", "unknown_field", "dropped"),
        (4, 0, 4, 8, "CITY", "Ulm ", "whitespace", "trimmed"),
        (5, 1, 9, 12, None, "value=ulm", "unknown_field", "dropped"),
        (5, 1, 3, 6, "CITY", "new", "misaligned", "expanded"),
        (6, 2, None, None, None, "", "empty", "kept"),
    ]
    assert result.problems[("unknown_field", "dropped")] == 2


def test_unset_entities_stay_unset(convert, rows, tmp_path, load_docs):
    convert(rows("a.jsonl", {"text": "a b"}, {"text": "a b", "entities": []}))
    unset, none = load_docs(tmp_path / "out.spacy")
    assert not unset.has_annotation("ENT_IOB")
    assert none.has_annotation("ENT_IOB")
    assert unset.cats == none.cats == {}


def test_classes_are_collected_over_all_inputs(convert, rows, write_file, tmp_path, load_docs):
    first = rows("a.jsonl", {"text": "a", "label": "x"}, {"text": "b", "cats": {"z": 0}}, {"text": "c"})
    result = convert(first, write_file("b.csv", "text,label\nd,y\n"))
    assert [doc.cats for doc in load_docs(tmp_path / "out.spacy")] == [
        {"x": 1.0, "y": 0.0, "z": 0.0},
        {"z": 0.0},
        {},
        {"x": 0.0, "y": 1.0, "z": 0.0},
    ]
    assert result.labels == ["x", "y", "z"]


def test_repaired_line_is_listed_with_its_document(convert, write_file, tmp_path, load_docs, load_problems):
    rows = [
        b'{"text": "a"}',
        b'{"text": "b \xed\xa0\xbc\xed\xbd\x95"}',
        b'{"text": "\\ud83c c", "entities": [[2, 3, "X"]]}',
    ]
    convert(write_file("a.jsonl", b"\n".join(rows)))
    docs = load_docs(tmp_path / "out.spacy")
    assert [doc.text for doc in docs] == ["a", "b 🍕", "\ufffd c"]
    assert docs[2].ents[0].text == "c"
    problems = load_problems(tmp_path / "out.spacy")
    assert [(problem["doc"], problem["line"], problem["kind"]) for problem in problems] == [
        (1, 2, "bad_encoding"),
        (2, 3, "bad_encoding"),
    ]


def test_names_that_utf8_cannot_hold_are_repaired(convert, write_file, tmp_path, load_docs, load_problems):
    rows = [
        r'{"text": "a", "\ud83d": 1, "label": "x\ud83d", "entities": [[0, 1, "E\ud83d"]]}',
        r'{"text": "b", "cats": {"y\ud83d": 1}}',
    ]
    convert(write_file("a.jsonl", "\n".join(rows)))
    first, second = load_docs(tmp_path / "out.spacy")
    assert first.cats == {"x\ufffd": 1.0, "y\ufffd": 0.0}
    assert second.cats == {"y\ufffd": 1.0}
    assert first.ents[0].label_ == "E\ufffd"
    problems = load_problems(tmp_path / "out.spacy")
    assert [(problem["doc"], problem["kind"]) for problem in problems] == [
        (0, "unknown_field"),
        (0, "bad_encoding"),
        (1, "bad_encoding"),
    ]


def test_held_out_documents_have_their_own_account(convert, rows, tmp_path, load_docs, load_problems):
    path = rows("a.jsonl", *({"text": f"t{i} ", "label": "xy"[i % 2], "entities": [[0, 3, "E"]]} for i in range(9)))
    held_out = tmp_path / "deep" / "dev.spacy"
    result = convert(path, hold_out=[(4, held_out)], seed=1)
    texts = {}
    for output, n in ((tmp_path / "out.spacy", 5), (held_out, 4)):
        docs = load_docs(output)
        texts[output] = [doc.text for doc in docs]
        assert texts[output] == sorted(texts[output])
        assert [problem["doc"] for problem in load_problems(output)] == list(range(n))
        assert result.accounts[output].docs == n
    assert sorted(text for part in texts.values() for text in part) == [f"t{i} " for i in range(9)]
    assert [sum(doc.cats["x"] for doc in load_docs(held_out))] == [2.0]


def test_parts_are_held_out_one_after_the_other(convert, rows, tmp_path, load_docs):
    path = rows("a.jsonl", *({"text": f"t{i}", "label": "xy"[i % 2]} for i in range(20)))
    dev, test = tmp_path / "dev.spacy", tmp_path / "test.spacy"
    convert(path, hold_out=[(4, dev)])
    alone = dev.read_bytes()
    result = convert(path, hold_out=[(4, dev), (6, test)])
    assert dev.read_bytes() == alone
    assert [account.docs for account in result.accounts.values()] == [10, 4, 6]
    texts = [doc.text for output in result.accounts for doc in load_docs(output)]
    assert sorted(texts) == sorted(f"t{i}" for i in range(20))
    assert [sum(doc.cats["x"] for doc in load_docs(output)) for output in (dev, test)] == [2, 3]


def test_same_input_same_bytes(convert, write_file, tmp_path):
    contents = []
    for _ in range(2):
        convert(write_file("a.yml", RASA), hold_out=[(2, tmp_path / "dev.spacy")])
        contents.append([path.read_bytes() for path in sorted(tmp_path.glob("*.spacy"))])
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.yml", "nlu: []\n", "E403.*a.yml.*Rasa"),
        ("a.jsonl", '{"text": "a"}\n{', "E405"),
        ("a.txt", "hello\n", "E402.*a.txt.*snips.*rasa.*jsonl.*csv"),
        ("a.txt", "", "E402"),
        ("a.txt", b'{"text": "\xff"}', "E404"),
    ],
)
def test_nothing_is_written_on_error(convert, write_file, rows, tmp_path, name, content, code):
    good = rows("good.jsonl", {"text": "a"})
    bad = write_file(name, content)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ValueError, match=code):
        convert(good, bad)
    assert sorted(tmp_path.iterdir()) == before


def test_old_output_survives_an_error_while_writing(convert, rows, tmp_path, monkeypatch):
    convert(rows("a.jsonl", {"text": "a"}))
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".jsonl"}

    def fail(self, data):
        raise OSError("disk full")

    monkeypatch.setattr(output_module.Path, "write_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        convert(tmp_path / "a.jsonl")
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in before} == before
    assert not list(tmp_path.glob(".*"))


def test_files_are_moved_in_only_when_all_are_complete(tmp_path, monkeypatch):
    moved = []
    monkeypatch.setattr(os, "replace", lambda source, target: moved.append(target))
    with pytest.raises(TypeError):
        output_module.write_together({tmp_path / "a": b"x", tmp_path / "b": "no bytes"})  # type: ignore[dict-item]
    assert moved == []


def test_span_lost_by_a_reader_is_found(convert, write_file, monkeypatch, tmp_path):
    record = Record("a", spans=[SourceSpan(0, 1, "X")], n_spans=2)
    forgetful = Format(lambda path: iter([record]), lambda head: True, "anything")
    monkeypatch.setitem(FORMATS, "forgetful", forgetful)
    with pytest.raises(ValueError, match=r"E408.*2 spans in, 1 spans out, 0 listed"):
        convert(write_file("a.txt", "x"), format="forgetful")
    assert not (tmp_path / "out.spacy").exists()


def test_account_counts_refused_and_dropped_entities_only():
    def problem(label, action):
        return Problem("a", 1, 0, 0, 1, label, "x", "misaligned", action)

    problems = [
        problem("X", "dropped"),
        problem("X", "refused"),
        problem("X", "trimmed"),
        problem(None, "dropped"),
    ]
    account = Account(docs=1, spans_in=3, spans_out=1, problems=problems)
    assert account.spans_lost == 2
    account.check("a")
    account.spans_out = 2
    with pytest.raises(ValueError, match="E408"):
        account.check("a")


def test_tokenizer_that_changes_the_text_is_refused(convert, rows, nlp, monkeypatch):
    class Lossy:
        tokenizer = staticmethod(lambda text: nlp.tokenizer(text.replace("  ", " ")))

    monkeypatch.setattr(run_module, "load_tokenizer", lambda lang, name: Lossy)
    with pytest.raises(ValueError, match=r"E415.*line 1"):
        convert(rows("a.jsonl", {"text": "a  b"}))


def test_tokenizer_of_a_pipeline_and_of_another_language(convert, rows, nlp, tmp_path, load_docs):
    nlp.to_disk(tmp_path / "pipeline")
    path = rows("a.jsonl", {"text": "don't z.B."})
    convert(path, tokenizer=str(tmp_path / "pipeline"))
    english = [token.text for token in load_docs(tmp_path / "out.spacy")[0]]
    convert(path, lang="de")
    german = [token.text for token in load_docs(tmp_path / "out.spacy")[0]]
    assert english[:2] == ["do", "n't"]
    assert german[-1] == "z.B."


def test_text_longer_than_the_limit_of_the_pipeline(convert, rows):
    assert convert(rows("a.jsonl", {"text": "word " * 210_000})).docs == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"format": "xml"}, "E409.*--format"),
        ({"on_misaligned": "guess"}, "E409.*--on-misaligned"),
        ({"on_misaligned": "error"}, "E407"),
        ({"lang": "qqq"}, "E413"),
        ({"tokenizer": "no_such_pipeline"}, "E413"),
        ({"hold_out": [(3, "dev.spacy")]}, "E412"),
        ({"hold_out": [(0, "dev.spacy")]}, "E411"),
        ({"hold_out": [(1, "out.spacy")]}, "E411"),
        ({"hold_out": [(1, "dev.spacy"), (1, "dev.spacy")]}, "E411"),
        ({"hold_out": [(1, "dev.json")]}, "E410"),
    ],
)
def test_impossible_options_are_refused(convert, rows, tmp_path, options, code):
    if "hold_out" in options:
        options = {"hold_out": [(n, tmp_path / name) for n, name in options["hold_out"]]}
    path = rows("a.jsonl", {"text": "unhappy", "entities": [[2, 7, "X"]]})
    with pytest.raises(ValueError, match=code):
        convert(path, **options)


def test_no_input_and_other_suffix_are_refused(tmp_path):
    with pytest.raises(ValueError, match="E416"):
        convert_files([], tmp_path / "a.spacy")
    with pytest.raises(ValueError, match="E410"):
        convert_files([tmp_path / "a.yml"], tmp_path / "a.json")
    with pytest.raises(ValueError, match="E401"):
        convert_files([tmp_path / "a.yml"], tmp_path / "a.spacy")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("snips", '{"A": [{"data": [{"text": "text,label"}]}]}'),
        ("rasa", RASA),
        ("jsonl", '{"text": "a"}\n'),
        ("csv", "text,label\na,b\n"),
        ("columns", "text\tO\nlabel\tB-X\n"),
    ],
)
def test_each_format_is_told_from_the_others(write_file, name, content):
    # The name of the file plays no part.
    assert find_format(write_file("data.txt", content))[0] == name
    fitting = [key for key, format_ in FORMATS.items() if format_.looks_like(content)]
    assert fitting == [name]
