"""Everything that a training needs to go on as if it had never stopped, in one folder."""

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import spacy
import torch
from safetensors.torch import load_file, save
from spacy.language import Language
from thinc.api import Optimizer

from .backbones import find_backbones
from .folders import remove_folder, replace_folder
from .moments import read_moments, write_moments
from .random_state import set_random_state
from .weights import weight_names

FOLDER = "checkpoints"
KEPT = 2


@dataclass
class Progress:
    """How far a training has come.

    step (int): the next one, from 0.
    epoch (int): of the step before.
    docs, words, pieces (int): seen so far; pieces by all backbones.
    seconds (float): that it took so far, interruptions not counted.
    update_seconds (float): of them without evaluations.
    results (list): score and step of every evaluation.
    losses (dict): of each component since the last evaluation.
    waiting (list | None): components that had no gradient so far; None before the first step.
    data_random: state of Python's `random` from which the batches were begun.
    """

    data_random: Any
    step: int = 0
    epoch: int = 0
    docs: int = 0
    words: int = 0
    pieces: int = 0
    seconds: float = 0.0
    update_seconds: float = 0.0
    results: list[tuple[float, int]] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)
    waiting: list[str] | None = None


def write_checkpoint(output: Path, nlp: Language, optimizer: Optimizer, progress: Progress, random_states: list[dict[str, Any]]) -> Path:
    """Write a checkpoint, then remove all but the last two.

    output (Path): folder of the training.
    nlp (Language), optimizer (Optimizer), progress (Progress): between two steps.
    random_states (list): of each worker, from `get_random_state`.
    RETURNS (Path): the folder of the checkpoint.
    RAISES (OSError): see `replace_folder`.
    """
    state = {
        "progress": {**asdict(progress), "losses": {name: float(loss) for name, loss in progress.losses.items()}},
        "random": random_states,
        "threads": torch.get_num_threads(),
    }

    def write(folder: Path) -> None:
        folder.mkdir(parents=True)
        nlp.to_disk(folder / "pipeline")
        for i, backbone in enumerate(find_backbones(nlp)):
            backbone.write_unmerged(folder / f"backbone-{i}.safetensors")
        # Not by `save_file`, whose errors do not say that a disk is full.
        (folder / "moments.safetensors").write_bytes(save(read_moments(optimizer, weight_names(nlp))))
        # Not by srsly, which rounds: every digit counts.
        (folder / "state.json").write_text(json.dumps(state), encoding="utf8")

    target = output / FOLDER / f"step-{progress.step}"
    replace_folder(target, write)
    for old in find_checkpoints(output)[:-KEPT]:
        remove_folder(old)
    return target


def remove_checkpoints(output: Path) -> None:
    """output (Path): folder of a training that has ended."""
    remove_folder(output / FOLDER)


def find_checkpoints(output: Path) -> list[Path]:
    """output (Path): folder of a training. RETURNS (list[Path]): its whole checkpoints, oldest first."""
    found = [(int(match[1]), path) for path in (output / FOLDER).glob("step-*") if (match := re.fullmatch(r"step-(\d+)", path.name))]
    return [path for _, path in sorted(found)]


def read_pipeline(checkpoint: Path) -> Language:
    """checkpoint (Path): from `find_checkpoints`. RETURNS (Language): the pipeline, its weights as they were."""
    return spacy.load(checkpoint / "pipeline")


def read_progress(checkpoint: Path) -> Progress:
    """checkpoint (Path): from `find_checkpoints`. RETURNS (Progress): how far the training had come."""
    progress = Progress(**_read_state(checkpoint)["progress"])
    version, internal, gauss = progress.data_random
    progress.data_random = (version, tuple(internal), gauss)
    progress.results = [(score, step) for score, step in progress.results]
    return progress


def restore(checkpoint: Path, nlp: Language, optimizer: Optimizer, *, rank: int) -> None:
    """Take up what is not in the pipeline: moments, random generators, number of threads.

    checkpoint (Path): from `find_checkpoints`.
    nlp (Language): from `read_pipeline`.
    optimizer (Optimizer): new, from the config.
    rank (int): of the worker that this process is.
    """
    state = _read_state(checkpoint)
    torch.set_num_threads(state["threads"])
    for i, backbone in enumerate(find_backbones(nlp)):
        backbone.read_unmerged(checkpoint / f"backbone-{i}.safetensors")
    write_moments(optimizer, weight_names(nlp), load_file(checkpoint / "moments.safetensors"))
    set_random_state(state["random"][rank])


def _read_state(checkpoint: Path) -> dict[str, Any]:
    return json.loads((checkpoint / "state.json").read_text(encoding="utf8"))
