"""Folders that are never seen half-written: written beside their place, then put there in one step."""

import ctypes
import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import Errors

# No space left: on the disk, in one's share of it, or within the limit of a file.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
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
    with _undone_by_errors(target, unfinished):
        write(unfinished)
        _flush(unfinished)
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
    """target (Path), RAISES: as of `replace_text`. content (Any): that JSON can hold."""
    replace_text(target, to_json(content, indent=2) + "\n")


def replace_text(target: Path, text: str) -> None:
    """Write a file and let it take the place of an older one.

    target (Path): the file; a process that is killed at any time leaves the old one or the new one there.
    text (str): all of it.
    RAISES (OSError): E621 when there is no space left; the old file stays.
    """
    unfinished, _ = _beside(target)
    with _undone_by_errors(target, unfinished):
        unfinished.write_text(text, encoding="utf8")
    unfinished.replace(target)


def append_text(target: Path, text: str) -> None:
    """Add to the end of a file, which a process that is killed may leave with a part of it.

    target (Path): there or not.
    text (str): what to add.
    RAISES (OSError): E621 when there is no space left; the file is then as it was.
    """
    size = target.stat().st_size if target.exists() else 0
    with _explained(target):
        try:
            with target.open("a", encoding="utf8", newline="") as file_:
                file_.write(text)
        except OSError:
            os.truncate(target, size)
            raise


def to_json(content: Any, **options: Any) -> str:
    """content (Any): that JSON can hold, numbers of NumPy included. options: of `json.dumps`. RETURNS (str): with every digit."""
    return json.dumps(content, default=float, **options)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder. Unlike `shutil.copytree`, which gathers errors without their numbers, this stops at the first one.

    source (Path): there. target (Path): not there yet.
    RAISES (OSError): as the system gives it.
    """
    target.mkdir(parents=True)
    for path in sorted(source.rglob("*")):
        copied = target / path.relative_to(source)
        if path.is_dir():
            copied.mkdir()
        else:
            shutil.copy2(path, copied)


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


@contextmanager
def _undone_by_errors(target: Path, unfinished: Path) -> Iterator[None]:
    """Within this context something is written beside its place; an error takes it away again, and is E621 when there is no space."""
    with _explained(target):
        try:
            yield
        except Exception:
            _remove(unfinished)
            raise


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        if err.errno in FULL:
            raise OSError(err.errno, Errors.E621.format(path=target)) from err
        raise


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
