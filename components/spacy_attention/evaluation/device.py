"""Which device and how many threads a measurement runs on."""

import contextlib
import os
from collections.abc import Iterator

import torch
from thinc import compat

from ..errors import Errors

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


def check_gpu(gpu_id: int) -> None:
    """Refuse a GPU that spaCy could not use, before anything is loaded.

    gpu_id (int): its number, -1 for the CPU.
    RAISES (ValueError): E510 without CuPy, E511 when there is no such device.
    """
    if gpu_id < 0:
        return
    if not compat.has_cupy:
        raise ValueError(Errors.E510.format(gpu_id=gpu_id))
    devices = torch.cuda.device_count() if compat.has_cupy_gpu else 0
    if gpu_id >= devices:
        raise ValueError(Errors.E511.format(gpu_id=gpu_id, n=devices))


@contextlib.contextmanager
def limit_threads(n: int | None) -> Iterator[None]:
    """Let torch, and the processes started meanwhile, use so many threads; afterwards all is as before.

    In this process the tokenizers of Hugging Face heed it only if they have not run yet.

    n (int | None): threads; None changes nothing.
    """
    if n is None:
        yield
        return
    before, variables = torch.get_num_threads(), {name: os.environ.get(name) for name in THREAD_VARIABLES}
    torch.set_num_threads(n)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(n)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
        for name, value in variables.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
