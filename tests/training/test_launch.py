"""Processes started together: their threads, and what is said when one ends."""

import os
import signal
import tempfile
import time
from pathlib import Path
from urllib.parse import urlparse

import pytest
import torch
import torch.distributed as dist

from spacy_attention.training.launch import VARIABLES, launch


def write_threads(rank, meeting):
    assert meeting.startswith("file:///")
    Path(os.environ["TEST_FOLDER"], str(rank)).write_text(" ".join(os.environ[name] for name in VARIABLES))


def fail(rank, meeting):
    """One says what went wrong; the other, which has seen that it is alone, may be noticed before it."""
    if rank == 0:
        while not Path(urlparse(meeting).path).with_name("error-1").exists():
            time.sleep(0.01)
        raise ConnectionError("alone")
    raise ValueError("the reason\nand more of it")


def test_threads_are_shared_out(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    launch(write_threads, 2)
    expected = "3"
    assert {(tmp_path / name).read_text() for name in "01"} == {" ".join([expected] * len(VARIABLES))}
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def die(rank, meeting):
    """The others see that one is gone, and may end before anybody has looked at that one."""
    folder = Path(urlparse(meeting).path).parent
    if rank == 1:
        while not (folder / "echo-0").exists():
            time.sleep(0.01)
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    raise ConnectionError("alone")


def test_the_one_that_was_killed_and_not_the_one_that_saw_it():
    with pytest.raises(ValueError, match=r"E630.*Worker 1 of 2 ended: .*SIGKILL"):
        launch(die, 2)


def meet(rank, meeting):
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    dist.destroy_process_group()


def test_a_folder_with_a_space_in_its_name(tmp_path, monkeypatch):
    (tmp_path / "my dir").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "my dir"))
    launch(meet, 2)


def test_the_reason_and_not_its_echo():
    with pytest.raises(ValueError, match=r"E630.*Worker 1 of 2 ended: ValueError: the reason\nand more of it\n"):
        launch(fail, 2)
