"""Starts the worker processes of a training on this machine, and stops all when one ends too early."""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import multiprocessing

from ..errors import Errors

# Threads of numerical libraries; workers would take the cores from each other.
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


def launch(worker: Callable[[int, str], None], n: int) -> None:
    """Run n processes to their end. Each has its part of the threads that this one would use.

    worker (Callable): can be pickled; called with its rank and with where the workers meet.
    n (int): number of processes.
    RAISES (ValueError): E630 when one ends with an error or is killed; the others are stopped then.
    """
    threads = str(max(1, torch.get_num_threads() // n))
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(dict.fromkeys(VARIABLES, threads))
    with tempfile.TemporaryDirectory(prefix="spacy-attention-") as name:
        folder = Path(name)
        try:
            multiprocessing.spawn(partial(_run, worker, folder), nprocs=n)
        except (multiprocessing.ProcessRaisedException, multiprocessing.ProcessExitedException) as err:
            rank, reason = _find_reason(folder) or (err.error_index, str(err).strip().splitlines()[-1])
            raise ValueError(Errors.E630.format(rank=rank, n=n, reason=reason)) from err
        finally:
            for variable, value in before.items():
                os.environ.pop(variable, None) if value is None else os.environ.update({variable: value})


def _run(worker: Callable[[int, str], None], folder: Path, rank: int) -> None:
    """Be a worker, and leave the text of an error where the launcher finds it."""
    try:
        worker(rank, (folder / "meeting").as_uri())
    except Exception as err:
        # An error like this only says that there is another one elsewhere.
        kind = "echo" if isinstance(err, ConnectionError) else "error"
        (folder / f"{kind}-{rank}").write_text(f"{type(err).__name__}: {err}", encoding="utf8")
        raise


def _find_reason(folder: Path) -> tuple[int, str] | None:
    """RETURNS (tuple | None): rank and text of an error that is no echo; None when there is none, as after a kill."""
    for path in sorted(folder.glob("error-*")):
        return int(path.name.removeprefix("error-")), path.read_text(encoding="utf8")
    return None
