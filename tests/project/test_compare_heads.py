"""Our heads beside spaCy's: the corpora, the configs of both sides, and the table of tiny trainings."""

import json
from types import SimpleNamespace

import pytest
import spacy
from spacy.tokens import DocBin
from thinc.api import Config

from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT
from ..training.tiny_training import write_config

SENTENCE = "Ann\tB-person\nLee\tI-person\nlives\tO\nin\tO\nParis\tB-location\n.\tO\n\n"


@pytest.fixture
def script(root, load_script, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    return load_script("compare_heads")


@pytest.fixture
def data(tmp_path, monkeypatch):
    for folder in ("wnut17", "banking77"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    for name, n in (("wnut17train.conll", 8), ("emerging.dev.conll", 2), ("emerging.test.annotated", 3)):
        (tmp_path / "data" / "wnut17" / name).write_text(SENTENCE * n)
    for name, n in (("train.csv", 10), ("test.csv", 2)):
        rows = [f"where is card {i},arrival\nblock card {i},loss\n" for i in range(n)]
        (tmp_path / "data" / "banking77" / name).write_text("text,category\n" + "".join(rows))
    monkeypatch.setenv("SPACY_ATTENTION_DATA", str(tmp_path / "data"))


@pytest.fixture
def config(tmp_path, tiny_checkpoint):
    path = write_config(tmp_path, tiny_checkpoint)
    config = Config().from_disk(path, interpolate=False)
    del config["components"][ENCODER]
    config["nlp"]["pipeline"].remove(ENCODER)
    config.to_disk(path)
    return path


def read(path):
    return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))


def test_the_table_of_our_side(script, run_here, data, config, tmp_path, monkeypatch):
    import trainings

    for module in (script, trainings):
        monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=run_here))
    options = ["--config", str(config), "--corpus", "wnut17", "banking77", "--side", "ours", "--seed", "0", "--max-steps", "2"]
    options += ["--output", str(tmp_path / "heads"), "--results", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["compare_heads.py", *options])
    script.main()
    sizes = {part: len(read(tmp_path / "heads" / "wnut17" / f"{part}.spacy")) for part in ("train", "dev", "test")}
    assert sizes == {"train": 8, "dev": 2, "test": 3}
    (doc, *_) = read(tmp_path / "heads" / "wnut17" / "test.spacy")
    assert doc.text == "Ann Lee lives in Paris."
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Ann Lee", "person"), ("Paris", "location")]
    train, dev = (read(tmp_path / "heads" / "banking77" / f"{part}.spacy") for part in ("train", "dev"))
    assert (len(train), len(dev)) == (18, 2)
    assert sorted(label for doc in dev for label, value in doc.cats.items() if value) == ["arrival", "loss"]
    result = json.loads((tmp_path / "heads.json").read_text())
    (stock, ours) = result["rows"]
    assert stock[1:] == ["", "", ""]
    assert [cell.endswith("(1 of 3 seeds)") for cell in ours[1:]] == [True, False, True]
    assert set(result["runs"]) == {"wnut17-ours-0", "banking77-ours-0"}
    assert "ents_ece" in result["runs"]["wnut17-ours-0"]
    # What the table has is not done again.
    monkeypatch.setattr(script, "train", None)
    script.main()
    assert json.loads((tmp_path / "heads.json").read_text())["rows"] == result["rows"]
    assert spacy.load(tmp_path / "heads" / "wnut17-ours-0" / "model-best").pipe_names == [BACKBONE, NER]
    assert spacy.load(tmp_path / "heads" / "banking77-ours-0" / "model-best").pipe_names == [BACKBONE, TEXTCAT]


@pytest.mark.parametrize(("corpus", "head"), [("wnut17", "ner"), ("banking77", "textcat")])
def test_the_stock_side_has_one_stock_head(script, run_here, data, config, tmp_path, monkeypatch, corpus, head):
    started = []
    monkeypatch.setattr(script, "subprocess", SimpleNamespace(run=run_here))
    monkeypatch.setattr(script, "run_training", lambda *args: started.append(args))
    args = SimpleNamespace(output=tmp_path / "heads", config=config, checkpoint="some/weights", max_steps=0)
    script.train(corpus, "stock", 1, args)
    ((path, folder, options),) = started
    written = Config().from_disk(path, interpolate=False)
    assert written["nlp"]["pipeline"] == ["transformer", head]
    assert written["components"]["transformer"]["model"]["name"] == "some/weights"
    assert written["training"]["batcher"]["size"] == script.BATCH_DOCS
    assert written["training"]["score_weights"] == {"ents_f" if head == "ner" else "cats_micro_f": 1.0}
    assert folder == tmp_path / "heads" / f"{corpus}-stock-1"
    # One batch an epoch.
    assert options["training.max_steps"] == script.EPOCHS
    assert options["training.eval_frequency"] == 1
    assert options["system.seed"] == 1
