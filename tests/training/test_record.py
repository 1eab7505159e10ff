"""The record of a training and its picture."""

import datetime
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy
import pytest

from spacy_attention.training.curve import draw_curve
from spacy_attention.training.record import RunRecord


def evaluation(step, score):
    scores = {"cats_score": score, "ents_f": numpy.float32(0.5), "ents_per_type": {"A": {"p": 1.0}}, "token_acc": None}
    counts = {"step": step, "epoch": 0, "seconds": 1, "update_seconds": 0.5, "docs": 2, "words": 10, "pieces": 14}
    return {**counts, "score": score, "losses": {"ner": 3.0}, "other_scores": scores}


def read(folder):
    return [json.loads(line) for line in (folder / "record.jsonl").read_text().splitlines()]


def test_evaluations_that_come_again_replace_those_of_before(tmp_path):
    record = RunRecord(tmp_path, {"cats_score": 0.5, "ents_f": 0.5, "token_acc": None})
    record.begin({"seed": 1})
    for step, score in ((0, 0.1), (10, 0.4), (20, 0.9)):
        record.add_evaluation(evaluation(step, score))
    assert json.loads((tmp_path / "metrics.json").read_text())["step"] == 20
    again = RunRecord(tmp_path, {"cats_score": 0.5})
    again.resume(15, {"seed": 1})
    assert [(event["event"], event.get("step")) for event in read(tmp_path)] == [
        ("begin", None),
        ("evaluation", 0),
        ("evaluation", 10),
        ("resume", 15),
    ]
    again.add_evaluation(evaluation(20, 0.3))
    again.end()
    assert json.loads((tmp_path / "metrics.json").read_text())["step"] == 10
    assert read(tmp_path)[-1]["event"] == "end"


def test_an_end_that_the_training_did_not_know_of_comes_once(tmp_path):
    """Killed after the line of the end and before the request says so."""
    record = RunRecord(tmp_path, {})
    record.begin({})
    record.add_evaluation(evaluation(0, 0.5))
    record.end()
    again = RunRecord(tmp_path, {})
    again.resume(10, {})
    again.end()
    assert [event["event"] for event in read(tmp_path)] == ["begin", "evaluation", "resume", "end"]


def test_a_kill_while_the_record_is_written_again_loses_nothing(tmp_path, monkeypatch):
    record = RunRecord(tmp_path, {})
    record.begin({})
    record.add_evaluation(evaluation(0, 0.5))
    before = (tmp_path / "record.jsonl").read_text()

    def die(path, text, **options):
        with path.open("w") as file_:
            file_.write(text[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", die)
    with pytest.raises(KeyboardInterrupt):
        RunRecord(tmp_path, {}).resume(10, {})
    assert (tmp_path / "record.jsonl").read_text() == before


def test_when_it_began_and_ended(tmp_path):
    record = RunRecord(tmp_path, {})
    record.begin({})
    record.end()
    times = [datetime.datetime.fromisoformat(event["time"]) for event in read(tmp_path)]
    assert times == sorted(times)
    assert times[0].tzinfo is not None


def test_of_equal_scores_the_first_is_the_best(tmp_path):
    record = RunRecord(tmp_path, {})
    record.begin({})
    for step in (0, 10, 20):
        record.add_evaluation(evaluation(step, 0.5))
    assert json.loads((tmp_path / "metrics.json").read_text())["step"] == 0


def lines_of(svg):
    root = ElementTree.fromstring(svg)
    return [e.attrib["points"].split() for e in root.iter() if e.tag.endswith("polyline")]


def test_the_curve_shows_every_point_at_its_place():
    svg = draw_curve({"a": [(0, 0.0), (50, 1.0), (100, 0.5)], "b<&": [(0, 0.5)]})
    first, second = lines_of(svg)
    points = [tuple(map(float, point.split(","))) for point in first]
    assert points[0][0] < points[1][0] < points[2][0]
    assert points[1][0] - points[0][0] == points[2][0] - points[1][0]
    assert points[1][1] < points[2][1] < points[0][1]  # up is better
    assert points[2][1] == float(second[0].split(",")[1])
    texts = [e.text for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]
    assert {"a 0.500", "b<& 0.500", "100"} <= set(texts)


def test_a_curve_without_points():
    assert lines_of(draw_curve({"score": []})) == [[]]
    assert lines_of(draw_curve({})) == []
