"""Starts the worker processes of a training on this machine, and stops all when one ends too early."""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import unquote

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
            rank, reason = _find_error(folder) or _find_silent(folder, n, err.error_index) or (err.error_index, _last_line(err))
            raise ValueError(Errors.E630.format(rank=rank, n=n, reason=reason)) from err
        finally:
            for variable, value in before.items():
                os.environ.pop(variable, None) if value is None else os.environ.update({variable: value})


def _run(worker: Callable[[int, str], None], folder: Path, rank: int) -> None:
    """Be a worker, and leave the text of an error where the launcher finds it."""
    try:
        # torch takes a space in it as it is.
        worker(rank, unquote((folder / "meeting").as_uri()))
    except Exception as err:
        # An error like this only says that there is another one elsewhere.
        kind = "echo" if isinstance(err, ConnectionError) else "error"
        (folder / f"{kind}-{rank}").write_text(f"{type(err).__name__}: {err}", encoding="utf8")
        raise


def _find_error(folder: Path) -> tuple[int, str] | None:
    """RETURNS (tuple | None): rank and text of an error that is no echo; None when there is none, as after a kill."""
    for path in sorted(folder.glob("error-*")):
        return int(path.name.removeprefix("error-")), path.read_text(encoding="utf8")
    return None


def _find_silent(folder: Path, n: int, ended: int) -> tuple[int, str] | None:
    """When it was an echo that ended first: RETURNS (tuple | None): who was killed, if only one of n processes has said nothing."""
    silent = [rank for rank in range(n) if not (folder / f"echo-{rank}").exists()]
    return (silent[0], "it ended without a word, as by SIGKILL") if len(silent) == 1 and ended not in silent else None


def _last_line(err: Exception) -> str:
    return str(err).strip().splitlines()[-1]
