"""The table of evaluations, also of a training that was interrupted."""

import csv
import io

import pytest
import spacy
from thinc.api import Config

from spacy_attention.cli.train import train
from spacy_attention.training.csv_logger import create_csv_logger

from .tiny_training import write_config


def read(path):
    with path.open(newline="") as file_:
        return list(csv.DictReader(file_))


@pytest.fixture
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("attention_textcat")
    nlp.config["training"] = {"score_weights": {"cats_score": 1.0, "cats_auc": 0.0, "speed": None}}
    return nlp


def info(step, **scores):
    other = {"cats_score": step / 10, **scores}
    losses = {"attention_textcat": 2.5}
    return {"step": step, "epoch": 0, "seconds": 3, "words": 40, "score": 0.25, "losses": losses, "other_scores": other}


def log(nlp, path, *infos):
    log_step, finish = create_csv_logger(str(path))(nlp, io.StringIO(), io.StringIO())
    for each in infos:
        log_step(each)
    finish()


def test_a_row_per_evaluation(nlp, tmp_path):
    path = tmp_path / "new" / "scores.csv"
    log(nlp, path, info(0), None, info(2, cats_auc=0.5, other=1.0))
    assert read(path) == [
        {
            "step": str(step),
            "epoch": "0",
            "seconds": "3",
            "words": "40",
            "score": "0.25",
            "loss_attention_textcat": "2.5",
            "cats_score": str(step / 10),
            "cats_auc": auc,
        }
        for step, auc in ((0, ""), (2, "0.5"))
    ]


def test_begun_anew_and_resumed(nlp, tmp_path):
    path = tmp_path / "scores.csv"
    log(nlp, path, info(0), info(2), info(4))
    with path.open("a") as file_:
        file_.write("6,0,3")
    log(nlp, path, info(4), info(6))
    assert [row["step"] for row in read(path)] == ["0", "2", "4", "6"]
    log(nlp, path, info(0))
    assert [row["step"] for row in read(path)] == ["0"]


def test_beside_the_console(tiny_checkpoint, tmp_path):
    config = write_config(tmp_path, tiny_checkpoint, max_steps=3, eval_frequency=1)
    changed = Config().from_disk(config, interpolate=False)
    changed["training"]["logger"] = {
        "@loggers": "spacy.ChainLogger.v1",
        "logger1": {"@loggers": "spacy.ConsoleLogger.v3", "progress_bar": "train"},
        "logger2": {"@loggers": "spacy-attention.csv_logger.v1", "output_file": str(tmp_path / "scores.csv")},
    }
    changed.to_disk(config)
    train(config, tmp_path / "out", silent=True)
    rows = read(tmp_path / "scores.csv")
    assert [row["step"] for row in rows] == ["0", "1", "2", "3"]
    assert float(rows[-1]["cats_score"]) > 0
    assert int(rows[-1]["words"]) > 0
