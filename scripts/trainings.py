"""Trainings that a script starts one after the other, goes on with after an interruption, and reads the records of."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thinc.api import Config

from spacy_attention.evaluation.predict import load_examples, load_pipeline, predict
from spacy_attention.evaluation.report import make_report

CLASSIFIER, RECOGNIZER = "attention_textcat", "attention_ner"


def without_head(path: Path, head: str | None) -> Config:
    """Take a head out of a config.

    path (Path): of the config. head (str | None): CLASSIFIER or RECOGNIZER; None leaves both.
    RETURNS (Config): with scores for what is left.
    """
    config = Config().from_disk(path, interpolate=False)
    if head is not None:
        del config["components"][head]
        config["nlp"]["pipeline"] = [name for name in config["nlp"]["pipeline"] if name != head]
        config["training"]["score_weights"] = {"ents_f" if head == CLASSIFIER else "cats_micro_f": 1.0}
    return config


def run_training(config: Path | str, folder: Path, options: Mapping[str, Any]) -> None:
    """Run `attention train` in a process of its own. One that was interrupted goes on, one that has ended is not done again.

    config (Path | str): the training config.
    folder (Path): of the training. When it holds a training with other settings, that is an error: remove it.
    options (Mapping): settings of the config by their full name.
    """
    command = [sys.executable, "-m", "spacy", "attention", "train", str(config), "--output", str(folder)]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    if (folder / "request.json").exists():
        command.append("--resume")
    print(" ".join(command[1:]), flush=True)
    subprocess.run(command, check=True)


def score(model: Path, test: Path) -> dict[str, Any]:
    """model (Path): a pipeline. test (Path): gold documents. RETURNS (dict): its scores, as of `evaluate`."""
    nlp = load_pipeline(str(model))
    return make_report(nlp, predict(nlp, load_examples(nlp, test), progress=True))["scores"]


def is_finished(folder: Path) -> bool:
    """folder (Path): of a training. RETURNS (bool): whether it has come to its end."""
    request = folder / "request.json"
    return request.exists() and read_json(request)["finished"]


def read_events(folder: Path, kind: str = "evaluation") -> list[dict[str, Any]]:
    """folder (Path): of a training. kind (str): of event. RETURNS (list[dict]): those of its record."""
    events = map(json.loads, (folder / "record.jsonl").read_text("utf8").splitlines())
    return [event for event in events if event["event"] == kind]


def read_json(path: Path) -> Any:
    """path (Path): a file. RETURNS: what is in it."""
    return json.loads(path.read_text("utf8"))
