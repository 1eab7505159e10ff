"""The comparison with spaCy's own recipe: both sides, several seeds, and what is printed of them."""

import json

import pytest

from ..training.tiny_training import write_config


@pytest.fixture
def script(load_script):
    return load_script("compare_stock")


def scores(slot_f):
    return {"slot_f": slot_f, "intent_acc": 0.5, "utterance_acc": 0.25}


def test_of_several_seeds_the_mean_is_shown(script, capsys):
    by_seed = {"0": {"dev": scores(0.4), "test": scores(0.2)}, "1": {"dev": scores(0.6), "test": scores(0.4)}}
    script.print_table({"ours": by_seed, "stock": {"0": by_seed["0"]}})
    rows = {line[:22].strip(): line[22:].split() for line in capsys.readouterr().out.splitlines()[1:]}
    assert rows["ours dev, mean"] == ["0.5000", "0.5000", "0.2500"]
    assert rows["ours test, mean"] == ["0.3000", "0.5000", "0.2500"]
    assert rows["stock test, seed 0"] == ["0.2000", "0.5000", "0.2500"]
    assert "stock test, mean" not in rows


def test_a_side_trains_and_the_file_keeps_the_rest(script, tiny_checkpoint, tmp_path, monkeypatch, capsys):
    write_config(tmp_path, tiny_checkpoint)
    data = str(tmp_path / "data.spacy")
    (tmp_path / "compare.json").write_text(json.dumps({"ours": {"0": {"dev": scores(0.5), "test": scores(0.5)}}}))
    options = ["--train", data, "--dev", data, "--test", data, "--output", str(tmp_path), "--checkpoint", str(tiny_checkpoint)]
    monkeypatch.setattr("sys.argv", ["compare_stock.py", "--only", "stock", "--seed", "3", "--max-steps", "1", *options])
    script.main()
    result = json.loads((tmp_path / "compare.json").read_text())
    assert result["ours"]["0"]["dev"] == scores(0.5)
    assert result["stock"]["3"]["settings"]["steps"] == 1
    assert 0 <= result["stock"]["3"]["test"]["utterance_acc"] <= result["stock"]["3"]["test"]["intent_acc"] <= 1
    config = (tmp_path / "stock-3" / "config.cfg").read_text()
    assert all(part in config for part in ("spacy-transformers.TransformerModel", "spacy.TransitionBasedParser", "spacy.TextCat"))
    out = capsys.readouterr().out
    assert "stock test, seed 3" in out
    assert "ours dev, seed 0" in out
