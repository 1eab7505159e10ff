import pytest

from spacy_attention.convert.inspect import inspect_file, summarize
from spacy_attention.convert.run import convert_files

ROWS = """{"text": "to Ulm", "label": "go", "entities": [[3, 6, "CITY"]]}
{"text": "to Ulm now please", "label": "go", "entities": [[3, 6, "CITY"], [3, 5, "CITY"]]}
{"text": "stop", "label": "stop", "entities": []}
{"text": "x y z"}
"""


def test_summary_of_a_source_file(nlp, write_file):
    path = write_file("a.jsonl", ROWS)
    assert inspect_file(path, nlp, progress=False) == {
        "file": str(path),
        "format": "jsonl",
        "docs": 4,
        "classes": {"go": 2, "stop": 1},
        "balance": 0.5,
        "entities": {"CITY": 2},
        "without_classes": 1,
        "without_entities": 1,
        "entities_unset": 1,
        "tokens": {"min": 1, "median": 2, "p95": 4, "max": 4},
        "problems": {"overlap, dropped": 1},
    }


def test_summary_of_the_output_is_the_same(nlp, write_file, tmp_path):
    source, output = write_file("a.jsonl", ROWS), tmp_path / "a.spacy"
    convert_files([source], output, progress=False)
    before, after = (inspect_file(path, nlp, progress=False) for path in (source, output))
    for key in (
        "docs",
        "classes",
        "entities",
        "without_classes",
        "without_entities",
        "entities_unset",
        "tokens",
    ):
        assert after[key] == before[key]
    assert after["format"] == "spacy"


def test_summary_of_nothing():
    summary = summarize([])
    assert (summary["docs"], summary["balance"], summary["tokens"]["max"]) == (0, None, 0)


def test_broken_and_missing_files_are_refused(nlp, write_file, tmp_path):
    with pytest.raises(ValueError, match=r"E414.*a\.spacy"):
        inspect_file(write_file("a.spacy", b"not a DocBin"), nlp, progress=False)
    with pytest.raises(ValueError, match="E401"):
        inspect_file(tmp_path / "none.spacy", nlp, progress=False)
