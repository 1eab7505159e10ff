"""`benchmark` on pipelines that are not ours, and its errors."""

import hashlib
import json

import pytest
import spacy
import torch
from spacy.tokens import DocBin
from thinc import compat
from typer.testing import CliRunner

from spacy_attention.cli import attention_cli
from spacy_attention.cli.benchmark import benchmark
from spacy_attention.cli.evaluate import evaluate

TEXTS = ["Ann has a bill.", "", "a bill for Bo"]


@pytest.fixture
def pipelines(tmp_path):
    """Two folders: a pipeline of rules, and one that does nothing but make tokens."""
    nlp = spacy.blank("en")
    nlp.to_disk(tmp_path / "tokens")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Ann"}])
    nlp.to_disk(tmp_path / "rules")
    return [str(tmp_path / "rules"), str(tmp_path / "tokens")]


@pytest.fixture
def data(tmp_path):
    nlp = spacy.blank("en")
    DocBin(docs=map(nlp.make_doc, TEXTS)).to_disk(tmp_path / "texts.spacy")
    return tmp_path / "texts.spacy"


def test_report(pipelines, data, tmp_path):
    output = tmp_path / "new" / "benchmark.json"
    report = benchmark(pipelines, data, output, rounds=2, batch_size=2)
    assert json.loads(output.read_text("utf8")) == report
    assert report["data"] == {
        "file": str(data),
        "sha256": hashlib.sha256(data.read_bytes()).hexdigest(),
        "texts": 3,
        "words": 9,
    }
    assert report["settings"] == {"rounds": 2, "batch_size": 2, "limit": 0, "threads": None, "gpu_id": -1}
    assert report["machine"]["cores"] >= 1
    assert report["versions"]["spacy"] == spacy.__version__
    first, second = report["pipelines"]
    assert first["name"] == pipelines[0]
    assert first["components"] == ["entity_ruler"]
    assert second["components"] == []
    assert first["ratio"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    for row in (first, second):
        assert len(row["seconds"]) == 2
        speed = row["words_per_second"]
        assert min(9 / s for s in row["seconds"]) <= speed["low"] <= speed["value"] <= speed["high"]
        assert row["load_seconds"] > 0
        assert 10 < row["rss_after_load_mb"] <= row["load_peak_rss_mb"]
        assert row["peak_rss_mb"] > 10
    assert first["size_mb"] > second["size_mb"] > 0


def test_every_pipeline_runs_once_per_round(pipelines, data, monkeypatch):
    seen = []

    def pipe(self, texts, **_):
        if texts == TEXTS:  # the rules read their patterns with it as well
            seen.append(self.pipe_names)
        return iter(())

    monkeypatch.setattr("spacy.language.Language.pipe", pipe)
    benchmark(pipelines, data, rounds=2, speed_only=True)
    rules, tokens = ["entity_ruler"], []
    assert seen == [tokens, rules, rules, tokens, tokens, rules]


def test_a_pipeline_can_be_measured_against_itself(pipelines, data):
    report = benchmark([pipelines[0]] * 2, data, rounds=1, limit=1, speed_only=True)
    assert [row["name"] for row in report["pipelines"]] == [pipelines[0]] * 2
    assert report["data"]["texts"] == 1
    assert "peak_rss_mb" not in report["pipelines"][0]


def test_threads_are_set_meanwhile_only(pipelines, data):
    before = torch.get_num_threads()
    report = benchmark(pipelines, data, rounds=1, threads=before + 1, speed_only=True)
    assert report["machine"]["torch_threads"] == before + 1
    assert torch.get_num_threads() == before


def test_command_prints_a_table(pipelines, data, tmp_path):
    output = tmp_path / "x.json"
    options = ["--data", str(data), "-o", str(output), "--rounds", "1", "--speed-only"]
    result = CliRunner().invoke(attention_cli, ["benchmark", *pipelines, *options])
    assert result.exit_code == 0, result.output
    assert "Words/s" in result.output
    assert json.loads(output.read_text("utf8"))["data"]["words"] == 9


def test_a_pipeline_that_only_loads_here_is_named(pipelines, data, monkeypatch):
    monkeypatch.setattr("spacy_attention.evaluation.footprint.sys.executable", "false")
    with pytest.raises(ValueError, match=r"E509.*rules"):
        benchmark(pipelines, data, rounds=1)


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("no pipeline", "E501"),
        ("no config", "E502"),
        ("bad data", "E504"),
        ("no data", "E506"),
        ("no text", "E508"),
    ],
)
def test_bad_input_is_an_error_with_a_code(case, code, pipelines, data, tmp_path):
    if case == "no pipeline":
        pipelines[1] = str(tmp_path / "missing")
    elif case == "no config":
        (tmp_path / "tokens" / "config.cfg").unlink()
    elif case == "bad data":
        data.write_bytes(b"not a DocBin")
    elif case == "no data":
        data = tmp_path / "missing.spacy"
    else:
        data = tmp_path / "blank.txt"
        data.write_text(" \n\n", "utf8")
    output = tmp_path / "x.json"
    with pytest.raises(ValueError, match=code):
        benchmark(pipelines, data, output)
    result = CliRunner().invoke(attention_cli, ["benchmark", *pipelines, "--data", str(data), "-o", str(output)])
    assert result.exit_code == 1
    assert code in result.output
    assert not output.exists()


@pytest.mark.parametrize("option", ["rounds", "batch_size", "limit", "threads"])
def test_an_option_out_of_its_range_is_named(option, pipelines, data):
    with pytest.raises(ValueError, match=f"E512.*--{option.replace('_', '-')}"):
        benchmark(pipelines, data, **{option: -1})


def test_gpu_without_cupy_names_the_extra(pipelines, data, monkeypatch):
    monkeypatch.setattr(compat, "has_cupy", False)
    with pytest.raises(ValueError, match=r"E510.*spacy-attention\[gpu\]"):
        benchmark(pipelines, data, gpu_id=0)
    with pytest.raises(ValueError, match=r"E510.*spacy-attention\[gpu\]"):
        evaluate(pipelines[0], data, gpu_id=0)


def test_a_gpu_that_is_not_there_is_named(pipelines, data, monkeypatch):
    monkeypatch.setattr(compat, "has_cupy", True)
    monkeypatch.setattr(compat, "has_cupy_gpu", False)
    with pytest.raises(ValueError, match="E511.*GPU 3"):
        benchmark(pipelines, data, gpu_id=3)
