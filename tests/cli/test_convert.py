import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spacy_attention.cli import attention_cli
from spacy_attention.cli.convert import convert, parse_hold_out

RASA = "nlu:\n- intent: go\n  examples: |\n    - to [Ulm ](CITY)\n    - home\n"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.yml"
    path.write_text(RASA, encoding="utf-8")
    return path


@pytest.fixture
def invoke():
    return lambda *arguments: CliRunner().invoke(attention_cli, ["convert", *map(str, arguments)])


def test_command_writes_and_prints_the_account(invoke, source, tmp_path):
    result = invoke(source, "-o", tmp_path / "out.spacy")
    assert result.exit_code == 0
    assert (tmp_path / "out.spacy").is_file()
    assert (tmp_path / "out.problems.jsonl").is_file()
    for line in ("spans in", "spans out", "whitespace, trimmed"):
        assert line in result.output


def test_command_holds_out(invoke, source, tmp_path):
    result = invoke(source, "-o", tmp_path / "out.spacy", "--hold-out", f"1:{tmp_path / 'dev.spacy'}", "--seed", 3)
    assert result.exit_code == 0
    assert (tmp_path / "dev.spacy").is_file()


def test_command_inspects_without_writing(invoke, source, tmp_path):
    before = sorted(tmp_path.iterdir())
    result = invoke("--inspect", source)
    assert result.exit_code == 0
    assert "CITY" in result.output
    assert sorted(tmp_path.iterdir()) == before


def test_command_writes_the_summaries(invoke, source, tmp_path):
    result = invoke("--inspect", source, "-o", tmp_path / "new" / "summary.json")
    assert result.exit_code == 0
    (summary,) = json.loads((tmp_path / "new" / "summary.json").read_text("utf8"))
    assert (summary["docs"], summary["entities"], summary["problems"]) == (2, {"CITY": 1}, {"whitespace, trimmed": 1})


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "E416"),
        (["--inspect", "-o", "out.spacy"], "E417"),
        (["-o", "out.json"], "E410"),
        (["-o", "out.spacy", "--hold-out", "x"], "E411"),
    ],
)
def test_errors_are_messages_and_exit_with_1(invoke, source, arguments, code):
    result = invoke(source, *arguments)
    assert result.exit_code == 1
    assert code in result.output
    assert not isinstance(result.exception, ValueError)


def test_plain_function_returns_counts(source, tmp_path):
    result = convert([source], tmp_path / "out.spacy", silent=True)
    assert (result.docs, result.spans_in, result.spans_out) == (2, 1, 1)


def test_hold_out_option():
    assert parse_hold_out("700:corpus/dev.spacy") == (700, Path("corpus/dev.spacy"))


@pytest.mark.parametrize("value", ["700", "x:dev.spacy", "7:", "-1:dev.spacy", ":dev.spacy"])
def test_malformed_hold_out_option_is_refused(value):
    with pytest.raises(ValueError, match="E411"):
        parse_hold_out(value)
