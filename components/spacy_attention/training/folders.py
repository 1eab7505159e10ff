"""Folders that are never seen half-written: written beside their place, then put there in one step."""

import ctypes
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any



from ..errors import Errors

AT_FDCWD = -100
RENAME_EXCHANGE = 2


def replace_folder(target: Path, write: Callable[[Path], Any]) -> None:
    """Write a folder and let it take the place of an older one.

    target (Path): the folder; a process that is killed at any time leaves the old one or the new one there, whole.
    write (Callable): gets the path of a folder that does not exist yet, and fills it.
    RAISES (OSError): E621 when there is no space left; the old folder stays.
    """
    unfinished, ready = _beside(target)
    _remove(unfinished)
    _remove(ready)
    try:
        write(unfinished)
        _flush(unfinished)
    except OSError as err:
        _remove(unfinished)
        if err.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(err.errno, Errors.E621.format(path=target)) from err
        raise
    unfinished.rename(ready)
    if not target.exists():
        ready.rename(target)
        return
    if not _exchange(ready, target):
        # Without the system call there is a moment without the folder; `finish_replacing` ends what a kill leaves then.
        target.rename(unfinished)
        ready.rename(target)
    _remove(unfinished)
    _remove(ready)


def replace_json(target: Path, content: Any) -> None:
    """target (Path): of a file, which a killed process leaves old or new. content (Any): that JSON can hold."""
    unfinished, _ = _beside(target)
    unfinished.write_text(json.dumps(content, indent=2, default=float) + "\n", encoding="utf8")
    unfinished.replace(target)


def remove_folder(target: Path) -> None:
    """Take a folder away in one step, then remove it. target (Path): may be missing."""
    unfinished, _ = _beside(target)
    _remove(unfinished)
    if target.exists():
        target.rename(unfinished)
        _remove(unfinished)


def finish_replacing(target: Path) -> None:
    """Clear up what a killed process may have left. target (Path): as in `replace_folder`."""
    unfinished, ready = _beside(target)
    if ready.exists() and not target.exists():
        ready.rename(target)
    _remove(unfinished)
    _remove(ready)


def _beside(target: Path) -> tuple[Path, Path]:
    return target.with_name(f".{target.name}.unfinished"), target.with_name(f".{target.name}.ready")


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step. RETURNS (bool): whether this system can."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    return rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0


def _flush(folder: Path) -> None:
    """Have the system write everything to the disk, so that a rename cannot come before what it names."""
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
