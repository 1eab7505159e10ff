"""`evaluate` on pipelines that are not ours, and its errors."""

import hashlib
import json

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import DocBin
from typer.testing import CliRunner

from spacy_attention.cli import attention_cli
from spacy_attention.cli.evaluate import evaluate
from spacy_attention.evaluation.predict import load_examples


@Language.component("evaluate_test_classes")
def guess_classes(doc):
    doc.cats = {"bill": 0.75, "other": 0.25} if "bill" in doc.text else {"bill": 0.25, "other": 0.75}
    return doc


@pytest.fixture
def pipeline(tmp_path):
    """A pipeline of rules: finds Ann and classes the word bill."""
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Ann"}])
    nlp.add_pipe("evaluate_test_classes")
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


def write_gold(path, rows):
    nlp = spacy.blank("en")
    docs = DocBin()
    for text, cats, ents in rows:
        doc = nlp.make_doc(text)
        doc.cats = cats
        doc.set_ents([doc.char_span(start, end, label=label) for start, end, label in ents], default="outside")
        docs.add(doc)
    docs.to_disk(path)
    return path


@pytest.fixture
def gold(tmp_path):
    """Four documents; the pipeline misses Bo in the second and the class of the third."""
    bill, other = {"bill": 1.0, "other": 0.0}, {"bill": 0.0, "other": 1.0}
    rows = [
        ("Ann has a bill", bill, [(0, 3, "PERSON")]),
        ("a bill for Bo", bill, [(11, 13, "PERSON")]),
        ("the bill is fine", other, []),
        ("", other, []),
    ]
    return write_gold(tmp_path / "gold.spacy", rows)


def test_report(pipeline, gold, tmp_path):
    output = tmp_path / "new" / "scores.json"
    report = evaluate(str(pipeline), gold, output)
    assert json.loads(output.read_text("utf8")) == report
    assert report["scores"]["ents_r"] == 0.5
    assert report["scores"]["utterance_acc"] == 0.5
    assert report["scores"]["cats_acc"] == 0.75
    assert report["per_label"]["ents"]["PERSON"] == {
        "tp": 1,
        "fp": 0,
        "fn": 1,
        "p": 1.0,
        "r": 0.5,
        "f": 2 / 3,
    }
    assert report["per_label"]["cats"]["bill"]["fp"] == 1
    assert report["data"] == {
        "file": str(gold),
        "sha256": hashlib.sha256(gold.read_bytes()).hexdigest(),
        "docs": 4,
        "tokens": 12,
    }
    assert report["pipeline"] == {"name": "pipeline", "version": "0.0.0", "path": str(pipeline)}
    assert report["speed"]["words_per_second"] == pytest.approx(12 / report["speed"]["seconds"])
    assert report["versions"]["spacy"] == spacy.__version__


def test_scores_equal_spacys_own(pipeline, gold):
    nlp = spacy.load(pipeline)
    expected = nlp.evaluate(load_examples(nlp, gold))
    scores = evaluate(str(pipeline), gold)["scores"]
    assert {key: scores[key] for key in expected if key != "speed"} == {
        key: value for key, value in expected.items() if key != "speed"
    }


def test_command_prints_tables_and_leaves_no_part_file(pipeline, gold, tmp_path):
    folder = tmp_path / "out"
    result = CliRunner().invoke(attention_cli, ["evaluate", str(pipeline), str(gold), "-o", str(folder / "x.json")])
    assert result.exit_code == 0, result.output
    assert "PERSON" in result.output
    assert "66.67" in result.output
    assert [path.name for path in folder.iterdir()] == ["x.json"]


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("no pipeline", "E501"),
        ("no config", "E502"),
        ("no data", "E503"),
        ("bad data", "E504"),
        ("empty data", "E505"),
    ],
)
def test_bad_input_is_an_error_with_a_code(case, code, pipeline, gold, tmp_path):
    output = tmp_path / "scores.json"
    if case == "no pipeline":
        pipeline = tmp_path / "missing"
    elif case == "no config":
        (pipeline / "config.cfg").unlink()
    elif case == "no data":
        gold = tmp_path / "missing.spacy"
    elif case == "bad data":
        gold.write_bytes(b"not a DocBin")
    else:
        write_gold(gold, [])
    with pytest.raises(ValueError, match=code):
        evaluate(str(pipeline), gold, output)
    result = CliRunner().invoke(attention_cli, ["evaluate", str(pipeline), str(gold), "-o", str(output)])
    assert result.exit_code == 1
    assert code in result.output
    assert not output.exists()
