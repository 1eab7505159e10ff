"""Processes started together: their threads, and what is said when one ends."""

import os
import time
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
import torch

from spacy_attention.training.launch import VARIABLES, launch


def write_threads(rank, meeting):
    assert meeting.startswith("file:///")
    Path(os.environ["TEST_FOLDER"], str(rank)).write_text(" ".join(os.environ[name] for name in VARIABLES))


def fail(rank, meeting):
    """One says what went wrong; the other, which has seen that it is alone, may be noticed before it."""
    if rank == 0:
        while not Path(unquote(urlparse(meeting).path)).with_name("error-1").exists():
            time.sleep(0.01)
        raise ConnectionError("alone")
    raise ValueError("the reason\nand more of it")


def test_threads_are_shared_out(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    launch(write_threads, 2)
    expected = str(max(1, torch.get_num_threads() // 2))
    assert {(tmp_path / name).read_text() for name in "01"} == {" ".join([expected] * len(VARIABLES))}
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_the_reason_and_not_its_echo():
    with pytest.raises(ValueError, match=r"E630.*Worker 1 of 2 ended: ValueError: the reason\nand more of it\n"):
        launch(fail, 2)
