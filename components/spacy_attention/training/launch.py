"""Starts the worker processes of a training on this machine, and stops all when one ends too early."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import multiprocessing

from ..errors import Errors

# Threads of numerical libraries; workers would take the cores from each other.
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def launch(worker: Callable[[int, str], None], n: int) -> None:
    """Run n processes to their end. Each has its part of the threads that this one would use.

    worker (Callable): can be pickled; called with its rank and with where the workers meet.
    n (int): number of processes.
    RAISES (ValueError): E630 when one ends with an error or is killed; the others are stopped then.
    """
    threads = str(max(1, torch.get_num_threads() // n))
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(dict.fromkeys(VARIABLES, threads))
    with tempfile.TemporaryDirectory(prefix="spacy-attention-") as folder:
        try:
            multiprocessing.spawn(worker, args=((Path(folder) / "meeting").as_uri(),), nprocs=n)
        except (multiprocessing.ProcessRaisedException, multiprocessing.ProcessExitedException) as err:
            raise ValueError(Errors.E630.format(rank=err.error_index, n=n, reason=_reason(err))) from err
        finally:
            for name, value in before.items():
                os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _reason(err: Exception) -> str:
    """The last line of a traceback is the error; of a process that was killed there is only one line."""
    last = str(err).strip().splitlines()[-1]
    return last if last.endswith(".") else f"{last}."
