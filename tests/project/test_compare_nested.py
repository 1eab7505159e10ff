"""Nested entities beside `spancat`: reading, splitting, and the table of tiny trainings of both sides."""

import json
from types import SimpleNamespace

import pytest
import spacy
from spacy.tokens import DocBin
from thinc.api import Config

from ..helpers import BACKBONE, ENCODER, NER
from ..training.tiny_training import write_config

TEXT = "The mayor of New York met Ann Lee ."
ANNOTATION = "T2\tGPE 13 21\tNew York\nT1\tPER 0 21\tThe mayor of New York\nA1\tnote T1\nT3\tPER 26 32\tAnn Le\n"


@pytest.fixture
def script(root, load_script, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    return load_script("compare_nested")


@pytest.fixture
def data(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "litbank" / "entities" / "brat"
    folder.mkdir(parents=True)
    for i in range(20):
        (folder / f"{i}.txt").write_text(f"{TEXT} {i}")
        (folder / f"{i}.ann").write_text(ANNOTATION)
    monkeypatch.setenv("SPACY_ATTENTION_DATA", str(tmp_path / "data"))


def test_the_table(script, run_here, data, tiny_checkpoint, tmp_path, monkeypatch):
    import trainings

    monkeypatch.setattr(trainings, "subprocess", SimpleNamespace(run=run_here))
    path = write_config(tmp_path, tiny_checkpoint)
    config = Config().from_disk(path, interpolate=False)
    del config["components"][ENCODER]
    config["nlp"]["pipeline"].remove(ENCODER)
    config.to_disk(path)
    options = ["--config", str(path), "--max-steps", "2", "--output", str(tmp_path / "nested"), "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["compare_nested.py", *options])
    script.main()
    parts = {
        part: list(DocBin().from_disk(tmp_path / "nested" / f"{part}.spacy").get_docs(spacy.blank("en").vocab))
        for part in ("train", "dev", "test")
    }
    assert {part: len(docs) for part, docs in parts.items()} == {"train": 16, "dev": 2, "test": 2}
    assert len({doc.text for docs in parts.values() for doc in docs}) == 20
    spans = {(span.text, span.label_) for span in parts["train"][0].spans["sc"]}
    assert spans == {("The mayor of New York", "PER"), ("New York", "GPE"), ("Ann Lee", "PER")}
    result = json.loads((tmp_path / "nested.json").read_text())
    assert [row[0] for row in result["rows"]] == ["spaCy's `spancat`, 1 of 3 seeds", "ours, `nested = true`, 1 of 3 seeds"]
    assert spacy.load(tmp_path / "nested" / "ours-0" / "model-best").pipe_names == [BACKBONE, NER]
    assert spacy.load(tmp_path / "nested" / "stock-0" / "model-best").pipe_names == [BACKBONE, "spancat"]
