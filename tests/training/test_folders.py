"""Folders are whole at every moment, also when the process dies in the middle."""

import errno
import shutil

import pytest
import torch
from safetensors.torch import save

from spacy_attention.training import folders
from spacy_attention.training.folders import append_text, copy_folder, finish_replacing, remove_folder, replace_folder, replace_text

from ..helpers import at_most


class Killed(BaseException):
    """What no handler of the code under test catches."""


def writes(text):
    def write(folder):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "file").write_text(text)

    return write


def content(folder):
    assert [path.name for path in folder.iterdir()] == ["sub"]
    return (folder / "sub" / "file").read_text()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["exchange", "two renames"], autouse=True)
def system(request, monkeypatch):
    """With the system call that swaps two folders, and without it."""
    if request.param == "two renames":
        monkeypatch.setattr(folders, "_exchange", lambda one, other: False)
    return request.param


def test_a_folder_is_made_and_replaced(tmp_path):
    target = tmp_path / "model"
    for text in ("one", "two", "three"):
        replace_folder(target, writes(text))
        assert content(target) == text
        assert names(tmp_path) == ["model"]


def test_the_swap_is_one_step_where_the_system_can(tmp_path, system):
    one, other = tmp_path / "one", tmp_path / "other"
    writes("1")(one)
    writes("2")(other)
    assert folders._exchange(one, other) == (system == "exchange")
    assert (content(one), content(other)) == (("2", "1") if system == "exchange" else ("1", "2"))
    assert not folders._exchange(one, tmp_path / "missing")


@pytest.mark.parametrize("moment", range(9))
def test_killed_at_any_moment(tmp_path, monkeypatch, moment, system):
    """Before any rename, flush or removal: afterwards there is the old folder or the new one, whole, and nothing else."""
    target = tmp_path / "model"
    replace_folder(target, writes("old"))
    left = [moment]

    def counted(function):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(folders.Path, "rename", counted(folders.Path.rename))
        patch.setattr(folders.shutil, "rmtree", counted(shutil.rmtree))
        patch.setattr(folders.os, "fsync", counted(folders.os.fsync))
        patch.setattr(folders, "_exchange", counted(folders._exchange))
        try:
            replace_folder(target, writes("new"))
        except Killed:
            assert target.exists() or system == "two renames"
        else:
            assert moment >= (6 if system == "exchange" else 8)
    finish_replacing(target)
    assert content(target) in ("old", "new")
    assert names(tmp_path) == ["model"]


def test_a_full_disk_leaves_the_old_folder(tmp_path):
    target = tmp_path / "model"
    replace_folder(target, writes("old"))

    def write(folder):
        writes("new")(folder)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"E621.*model"):
        replace_folder(target, write)
    assert content(target) == "old"
    assert names(tmp_path) == ["model"]


def test_a_limit_of_the_system_is_met_by_real_writes(tmp_path):
    """Whichever way a file is written, what the system says comes out as the error that tells what to do."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "large").write_bytes(bytes(10_000))
    tensors = {"x": torch.zeros(10_000)}
    ways = [
        lambda folder: copy_folder(source, folder),
        lambda folder: (folder.mkdir(), (folder / "x").write_bytes(save(tensors))),
    ]
    target = tmp_path / "model"
    replace_folder(target, writes("old"))
    (tmp_path / "file").write_text("old")
    with at_most(5_000):
        for write in ways:
            with pytest.raises(OSError, match=r"E621.*model"):
                replace_folder(target, write)
        with pytest.raises(OSError, match=r"E621.*file"):
            replace_text(tmp_path / "file", "x" * 10_000)
        with pytest.raises(OSError, match=r"E621.*file"):
            append_text(tmp_path / "file", "x" * 10_000)
    assert content(target) == "old"
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == ["file", "model", "source"]


def test_whatever_the_error_nothing_half_written_stays(tmp_path):
    class Odd(Exception):
        """Of a library that does not use the system's own."""

    def write(folder):
        writes("new")(folder)
        raise Odd

    with pytest.raises(Odd):
        replace_folder(tmp_path / "model", write)
    assert names(tmp_path) == []


def test_a_copy_is_the_whole_folder(tmp_path):
    writes("text")(tmp_path / "one")
    (tmp_path / "one" / "empty").mkdir()
    copy_folder(tmp_path / "one", tmp_path / "two")
    assert sorted(p.relative_to(tmp_path / "two").as_posix() for p in (tmp_path / "two").rglob("*")) == ["empty", "sub", "sub/file"]
    assert (tmp_path / "two" / "sub" / "file").read_text() == "text"


def test_other_errors_are_handed_on(tmp_path):
    def write(folder):
        raise PermissionError("not yours")

    with pytest.raises(PermissionError, match="not yours"):
        replace_folder(tmp_path / "model", write)
    assert names(tmp_path) == []


def test_removing(tmp_path):
    writes("x")(tmp_path / "model")
    for _ in range(2):
        remove_folder(tmp_path / "model")
        assert names(tmp_path) == []
