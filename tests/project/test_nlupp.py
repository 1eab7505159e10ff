"""NLU++: which folds are trained on, what a message becomes, and the table of tiny trainings."""

import json
from types import SimpleNamespace

import pytest
import spacy
from spacy.tokens import DocBin

from ..training.tiny_training import write_config


@pytest.fixture
def script(root, load_script, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    return load_script("nlupp")


@pytest.fixture
def data(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "nlupp" / "data" / "banking"
    folder.mkdir(parents=True)
    for i in range(20):
        slots = {
            "date": {"text": "May", "span": [19, 22], "value": {}},
            "person": {"text": "Ann", "span": [4, 7], "value": "Ann"},
        }
        messages = [
            {"text": f"ask Ann about card {i}"},
            {"text": f"pay Ann not before May {i}", "intents": ["pay", "not"], "slots": slots},
        ]
        (folder / f"fold{i}.json").write_text(json.dumps(messages))
    monkeypatch.setenv("SPACY_ATTENTION_DATA", str(tmp_path / "data"))


def texts(path):
    return {doc.text.split()[-1] for doc in DocBin().from_disk(path).get_docs(spacy.blank("en").vocab)}


def test_the_table(script, run_here, data, tiny_checkpoint, tmp_path, monkeypatch):
    import trainings

    for module in (script, trainings):
        monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=run_here))
    config = write_config(tmp_path, tiny_checkpoint)
    options = ["--config", str(config), "--setup", "low", "large", "--part", "3", "--max-steps", "2"]
    options += ["--output", str(tmp_path / "nlupp"), "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["nlupp.py", *options])
    script.main()
    folder = tmp_path / "nlupp" / "data"
    everything = {str(i) for i in range(20)}
    assert texts(folder / "low-3" / "train.spacy") == {"3"}
    assert texts(folder / "low-3" / "test.spacy") == everything - {"3"}
    assert texts(folder / "large-3" / "train.spacy") == everything - {"6", "7"}
    assert texts(folder / "large-3" / "test.spacy") == {"6", "7"}
    none, some = DocBin().from_disk(folder / "low-3" / "train.spacy").get_docs(spacy.blank("en").vocab)
    assert none.cats == {"not": 0.0, "pay": 0.0}
    assert some.cats == {"not": 1.0, "pay": 1.0}
    assert [(ent.text, ent.label_) for ent in some.ents] == [("Ann", "person"), ("May", "date")]
    assert none.has_annotation("ENT_IOB")
    assert not none.ents
    result = json.loads((tmp_path / "nlupp.json").read_text())
    assert [row[0] for row in result["rows"]] == [
        f"{script.SETUPS[name].title}, 1 of {n} parts" for name, n in (("low", 20), ("large", 10))
    ]
