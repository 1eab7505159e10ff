"""Weights & Biases and MLflow, installed for this test, without a network. Takes minutes."""

import configparser
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from thinc.api import Config

from ..training.tiny_training import write_config

ROOT = Path(__file__).parents[2]
LOGGERS = {
    "@loggers": "spacy.ChainLogger.v1",
    "logger1": {"@loggers": "spacy.ConsoleLogger.v3"},
    "logger2": {"@loggers": "spacy.WandbLogger.v5", "project_name": "tried", "remove_config_values": []},
    "logger3": {"@loggers": "spacy.MLflowLogger.v2"},
}
# At the end of the path, so that what is installed here already stays what it is.
PROGRAM = "import sys; sys.path.append(sys.argv.pop(1)); from spacy.cli import setup_cli; setup_cli()"


@pytest.mark.slow
def test_both_trackers(tiny_checkpoint, tmp_path):
    packages = tmp_path / "packages"
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    wanted = parser["options.extras_require"]["trackers"].split()
    assert sorted(name.split(">")[0] for name in wanted) == ["mlflow", "wandb"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), "--target", str(packages)]
    subprocess.run([*pip, *wanted], check=True)
    config = write_config(tmp_path, tiny_checkpoint, max_steps=3, eval_frequency=1)
    changed = Config().from_disk(config, interpolate=False)
    changed["training"]["logger"] = LOGGERS
    changed.to_disk(config)
    database = tmp_path / "mlflow.db"
    where = {"WANDB_MODE": "offline", "MLFLOW_TRACKING_URI": f"sqlite:///{database}"}
    command = [sys.executable, "-c", PROGRAM, str(packages), "attention", "train", str(config), "-o", str(tmp_path / "out")]
    subprocess.run(command, check=True, env=os.environ | where, cwd=tmp_path)
    assert len(list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))) == 1
    with sqlite3.connect(database) as found:
        scores = [value for (value,) in found.execute("select value from metrics where key = 'score'")]
    events = map(json.loads, (tmp_path / "out" / "record.jsonl").read_text().splitlines())
    assert sorted(scores) == pytest.approx(sorted(event["score"] for event in events if event["event"] == "evaluation"))
