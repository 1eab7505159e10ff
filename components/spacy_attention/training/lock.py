"""One training at a time in a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import Errors

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]


@contextmanager
def alone_in(folder: Path, *, make: bool) -> Iterator[None]:
    """Within this context no other process that asks for the same gets in.

    What is locked is the folder itself, so that nothing is left behind however the process ends. Where a file system has no locks
    there is none.

    folder (Path): of the training.
    make (bool): make it when it is not there; otherwise there is nothing to lock.
    RAISES (OSError): E635 while another process is in there.
    """
    if make:
        folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None or not folder.exists():
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        raise BlockingIOError(err.errno, Errors.E635.format(path=folder)) from err
    except OSError:
        return
