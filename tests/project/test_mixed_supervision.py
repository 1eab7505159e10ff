"""Mixed supervision: what each half keeps, and the table of tiny trainings."""

import json
from types import SimpleNamespace

import pytest
import spacy
from spacy.tokens import DocBin

from .. import helpers
from ..training.tiny_training import write_config


@pytest.fixture
def script(root, load_script, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    return load_script("mixed_supervision")


def test_halves_keep_one_kind_of_annotation(script, tmp_path):
    nlp = spacy.blank("en")
    docs = [eg.reference for eg in helpers.make_examples(nlp)]
    DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    sizes = script.write_corpora(tmp_path / "train.spacy", tmp_path)
    assert sizes == {"full": 6, "intents": 3, "slots": 3, "mixed": 6}
    read = {name: list(DocBin().from_disk(tmp_path / f"{name}.spacy").get_docs(nlp.vocab)) for name in sizes}
    assert sorted(doc.text for doc in read["mixed"]) == sorted(doc.text for doc in docs)
    whole = {doc.text: doc for doc in docs}
    for doc in read["intents"]:
        assert doc.cats == whole[doc.text].cats
        # Not annotated is not the same as none.
        assert not doc.has_annotation("ENT_IOB")
    for doc in read["slots"]:
        assert not doc.cats
        assert doc.has_annotation("ENT_IOB")
        assert [(e.start, e.end, e.label_) for e in doc.ents] == [(e.start, e.end, e.label_) for e in whole[doc.text].ents]


def test_the_table(script, run_here, tiny_checkpoint, tmp_path, monkeypatch):
    config = write_config(tmp_path, tiny_checkpoint)
    docs = [eg.reference for eg in helpers.make_examples(spacy.blank("en"))]
    for part, times in (("train", 8), ("dev", 1), ("test", 1)):
        DocBin(docs=docs * times).to_disk(tmp_path / f"{part}.spacy")
    import trainings

    monkeypatch.setattr(trainings, "subprocess", SimpleNamespace(run=run_here))
    options = ["--config", str(config), "--data", str(tmp_path), "--seed", "0", "1", "--max-steps", "2"]
    options += ["--output", str(tmp_path / "mixed"), "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["mixed_supervision.py", *options])
    script.main()
    result = json.loads((tmp_path / "mixed-supervision.json").read_text())
    assert result["columns"] == ["", "Intent accuracy", "Slot F1", "Whole utterance"]
    filled = [[bool(cell) for cell in row[1:]] for row in result["rows"]]
    assert filled == [[True] * 3, [True, False, False], [False, True, False], [True] * 3]
    assert all("2 of 3 seeds" in row[0] for row in result["rows"])
    # The mixed corpus teaches both heads.
    nlp = spacy.load(tmp_path / "mixed" / "joint-0" / "model-last")
    assert nlp.pipe_names[-2:] == [helpers.TEXTCAT, helpers.NER]
