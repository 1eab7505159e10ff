"""What trainings gave, kept in the file of a table, so that the table can be finished on another day without their folders."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spacy_attention.evaluation.machine import describe_machine, machine_line

# Name of a training -> `settings`, `machine`, and what was measured.
Runs = dict[str, dict[str, Any]]


def read_runs(path: Path) -> Runs:
    """path (Path): of a table. RETURNS (Runs): those in it; none without the file, or in one of an earlier form."""
    return json.loads(path.read_text("utf8")).get("runs", {}) if path.exists() else {}


def is_kept(runs: Runs, name: str, settings: str) -> bool:
    """runs (Runs): of a table. name (str): of a training. settings (str): from `fingerprint`. RETURNS (bool): whether it is there."""
    return name in runs and runs[name]["settings"] == settings


def fingerprint(config: Path | str, options: Mapping[str, Any]) -> str:
    """Identify what a training is made of.

    config (Path | str): its file. options (Mapping): settings beside it, but for folders.
    RETURNS (str): the same for the same, another one for anything else.
    """
    told = Path(config).read_text("utf8") + json.dumps(options, sort_keys=True, default=str)
    return hashlib.sha256(told.encode("utf8")).hexdigest()[:16]


def make_run(settings: str, measured: Mapping[str, Any]) -> dict[str, Any]:
    """settings (str): from `fingerprint`. measured (Mapping): scores, seconds. RETURNS (dict): with the machine of now."""
    return {"settings": settings, "machine": machine_line(describe_machine()), **measured}


def machines(runs: Iterable[Mapping[str, Any]]) -> str:
    """runs (Iterable[Mapping]): of a table. RETURNS (str): the machines that they were made on."""
    return "; ".join(sorted({run["machine"] for run in runs}))
