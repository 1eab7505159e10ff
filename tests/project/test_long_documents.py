"""Long documents: the reviews, the configs of the settings, and the table of tiny trainings."""

import json
import zipfile
from types import SimpleNamespace

import pytest
import spacy
from spacy.tokens import DocBin
from thinc.api import Config

from ..helpers import BACKBONE, ENCODER, TEXTCAT
from ..training.tiny_training import write_config


@pytest.fixture
def script(root, load_script, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    return load_script("long_documents")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Forty reviews of two classes, as they are in the corpus."""
    folder = tmp_path / "data" / "movie_reviews"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "movie_reviews.zip", "w") as archive:
        archive.writestr("movie_reviews/README", "no review")
        for i in range(20):
            archive.writestr(f"movie_reviews/pos/cv{i:03}.txt", f"good film number {i} .\nwatch it !\n")
            archive.writestr(f"movie_reviews/neg/cv{i:03}.txt", f"bad film number {i} .\nleave it !\n")
    monkeypatch.setenv("SPACY_ATTENTION_DATA", str(tmp_path / "data"))


def test_the_table(script, run_here, data, tiny_checkpoint, tmp_path, monkeypatch):
    import trainings

    for module in (script, trainings):
        monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=run_here))
    monkeypatch.setattr(script, "CUT", 64)
    path = write_config(tmp_path, tiny_checkpoint)
    config = Config().from_disk(path, interpolate=False)
    del config["components"][ENCODER]
    config["nlp"]["pipeline"].remove(ENCODER)
    config.to_disk(path)
    options = ["--config", str(path), "--layers", "2", "--seed", "1", "--max-steps", "2"]
    options += ["--setting", "mean", "cls", "cut", "--output", str(tmp_path / "long"), "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["long_documents.py", *options])
    script.main()
    docs = {
        part: list(DocBin().from_disk(tmp_path / "long" / f"{part}.spacy").get_docs(spacy.blank("en").vocab))
        for part in ("train", "dev", "test")
    }
    assert {part: len(found) for part, found in docs.items()} == {"train": 32, "dev": 4, "test": 4}
    assert len({doc.text for found in docs.values() for doc in found}) == 40
    for doc in docs["train"]:
        assert doc.cats["pos"] == float(doc.text.startswith("good"))
    assert sum(doc.cats["pos"] for doc in docs["test"]) == 2
    result = json.loads((tmp_path / "long-documents.json").read_text())
    assert [row[0].endswith("1 of 3 seeds") for row in result["rows"]] == [True] * 3
    assert all(0.0 <= float(row[1]) <= 100.0 for row in result["rows"])
    nlp = spacy.load(tmp_path / "long" / "cut-1" / "model-best")
    assert nlp.pipe_names == [BACKBONE, TEXTCAT]
    assert nlp("word " * 200)._.backbone_report["truncated_pieces"] > 100
    for setting in ("mean", "cls"):
        config = spacy.util.load_config(tmp_path / "long" / f"{setting}-1" / "model-best" / "config.cfg")
        assert config["components"][TEXTCAT]["model"]["pooling"] == setting
        assert config["components"][BACKBONE]["model"]["frozen_layers"] == 2
