"""The table of calibration: its columns, what it leaves empty, and what it takes away before it measures `before`."""

import json

import pytest
import spacy
from spacy.tokens import DocBin, Span
from spacy.training import Example

from spacy_attention.training.calibrate import calibrate

from .. import helpers
from ..helpers import BACKBONE, NER, TEXTCAT


@pytest.fixture
def script(root, load_script, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "scripts"))
    return load_script("calibration_table")


def training(folder, nlp, *, finished=True):
    folder.mkdir(parents=True)
    nlp.to_disk(folder / "model-best")
    (folder / "request.json").write_text(json.dumps({"finished": finished}))


def test_the_table(script, make_nlp, tmp_path, monkeypatch):
    nlp = make_nlp([BACKBONE, TEXTCAT, NER])
    optimizer = helpers.initialize(nlp)
    optimizer.learn_rate = 0.01
    helpers.train(nlp, helpers.make_examples(nlp), optimizer, 30)
    gold = [eg.reference for eg in helpers.make_examples(nlp)]
    gold[0].set_ents([])
    for name in ("corpus/snips", "training/heads/banking77"):
        (tmp_path / name).mkdir(parents=True)
        DocBin(docs=gold).to_disk(tmp_path / name / "test.spacy")
    calibrated = calibrate(nlp, lambda nlp: [Example(nlp.make_doc(doc.text), doc) for doc in gold])
    training(tmp_path / "training/recipes/snips-full-0", calibrated)
    training(tmp_path / "training/recipes/snips-full-1", calibrated)
    training(tmp_path / "training/recipes/snips-full-2", calibrated, finished=False)
    calibrated.remove_pipe(NER)
    training(tmp_path / "training/heads/banking77-ours-0", calibrated)
    monkeypatch.setattr("sys.argv", ["calibration_table.py", "--root", str(tmp_path), "--results", str(tmp_path)])
    script.main()
    result = json.loads((tmp_path / "calibration.json").read_text())
    snips, banking = result["rows"]
    assert result["columns"][1:3] == ["Entities, ECE before", "Entities, ECE after"]
    assert snips[0] == "SNIPS, 2 of 3 seeds"
    assert all(cell.endswith("± 0.00") for cell in snips[1:])
    assert snips[1] != snips[2]
    assert banking[0] == "Banking77, 1 of 3 seeds"
    assert [bool(cell) for cell in banking[1:]] == [False, False, True, True, False, False]
    # Kept without the folders.
    monkeypatch.setattr("sys.argv", ["calibration_table.py", "--root", str(tmp_path / "elsewhere"), "--results", str(tmp_path)])
    script.main()
    assert json.loads((tmp_path / "calibration.json").read_text())["rows"] == [snips, banking]


def test_the_surer_half_by_hand(script):
    nlp = spacy.blank("en")
    gold, predicted = nlp.make_doc("a b c d"), nlp.make_doc("a b c d")
    gold.set_ents([Span(gold, 0, 1, "X"), Span(gold, 2, 3, "X")])
    predicted.set_ents([Span(predicted, i, i + 1, "X") for i in range(4)])
    for ent, confidence in zip(predicted.ents, (0.9, 0.3, 0.8, 0.5), strict=True):
        ent._.confidence = confidence
    assert script.precision_of_halves([Example(predicted, gold)]) == (0.5, 1.0)
    assert script.precision_of_halves([]) == (None, None)
