"""The comparison of number formats: what it counts, what it changes, and the table it leaves."""

import json

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from .. import helpers
from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT


@pytest.fixture(scope="module")
def script(load_script):
    return load_script("compare_precision")


@pytest.fixture
def saved(trained, tmp_path):
    """A pipeline folder and a corpus, the empty document included."""
    trained.to_disk(tmp_path / "model")
    docs = [eg.reference for eg in helpers.make_examples(trained)] + [trained.make_doc("")]
    DocBin(docs=docs).to_disk(tmp_path / "data.spacy")
    return tmp_path


def predicted(tags, cats):
    doc = Doc(spacy.blank("en").vocab, words=["one", "two", "three", "four"], ents=tags)
    doc.cats = cats
    return doc


def test_hand_counted_agreement(script):
    first = [predicted(["B-A", "I-A", "O", "B-B"], {"x": 0.9, "y": 0.1}), predicted(["O", "O", "O", "B-A"], {"x": 0.4, "y": 0.6})]
    second = [predicted(["B-A", "O", "O", "B-B"], {"x": 0.6, "y": 0.4}), predicted(["O", "O", "O", "B-A"], {"x": 0.6, "y": 0.4})]
    # The first entity is one token shorter: two tags differ, B to U and L to O. Of four entities in either, two are in both.
    assert script.compare(first, second) == (6 / 8, 2 / 4, 1 / 2)
    assert script.compare(first, first) == (1.0, 1.0, 1.0)


def test_nothing_predicted_is_no_agreement(script):
    blank = [spacy.blank("en")("one two")]
    assert script.compare(blank, blank) == (None, None, None)


def test_every_precision_setting_is_changed(script, saved):
    assert set(script.precision_settings(spacy.load(saved / "model").config["components"], "components")) == {
        f"components.{name}.model.precision" for name in (BACKBONE, ENCODER, TEXTCAT, NER)
    }
    for precision in script.FORMATS:
        nlp = script.load_in(str(saved / "model"), precision)
        found = {name: [shim.precision for shim in helpers.torch_shims(nlp.get_pipe(name).model)] for name in nlp.pipe_names}
        assert found == {name: [precision] for name in (BACKBONE, ENCODER, TEXTCAT, NER)}


def test_settings_inside_a_head(script):
    """As after `replace_listeners`."""
    block = {"head": {"model": {"tok2vec": {"backbone": {"precision": "auto"}}}}, "tagger": {"model": {"nO": None}}}
    assert list(script.precision_settings(block, "components")) == ["components.head.model.tok2vec.backbone.precision"]


def test_the_table(script, load_script, saved, monkeypatch, capsys):
    output = saved / "precision.json"
    row = f"tiny={saved / 'model'},{saved / 'data.spacy'}"
    monkeypatch.setattr("sys.argv", ["compare_precision.py", "--row", row, "--output", str(output), "--runs", "1"])
    script.main()
    data = json.loads(output.read_text("utf8"))
    (cells,) = data["rows"]
    assert cells[:3] == ["tiny", "7", str(sum(len(text.split()) for text, _, _ in helpers.SENTENCES))]
    assert all(0 <= float(cell) <= 100 for cell in cells[3:6])
    assert all(float(cell.replace(",", "")) > 0 for cell in cells[6:])
    section = load_script("results").make_section(output)
    assert section.startswith("## bfloat16 against float32")
    assert "| tiny | 7 |" in section
    assert "--runs 1" in section
    assert "tiny" in capsys.readouterr().out


def test_pipelines_without_the_setting_are_refused(script, tmp_path):
    spacy.blank("en").to_disk(tmp_path)
    with pytest.raises(SystemExit, match="precision"):
        script.load_in(str(tmp_path), "float32")


def test_a_row_without_data_is_refused(script):
    with pytest.raises(SystemExit, match="NAME=PIPELINE,DATA"):
        script._split("tiny=training/model-best")
