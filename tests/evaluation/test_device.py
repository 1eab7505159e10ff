"""Threads, and the line that describes a machine."""

import os

import pytest
import torch

from spacy_attention.evaluation.device import THREAD_VARIABLES, limit_threads
from spacy_attention.evaluation.machine import describe_machine, machine_line


def test_threads_and_environment_come_back_even_after_an_error(monkeypatch):
    monkeypatch.setenv(THREAD_VARIABLES[0], "3")
    monkeypatch.delenv(THREAD_VARIABLES[1], raising=False)
    before = torch.get_num_threads()
    seen = []
    with pytest.raises(KeyError), limit_threads(2):  # noqa: PT012
        seen.append((torch.get_num_threads(), *(os.environ[name] for name in THREAD_VARIABLES)))
        raise KeyError
    assert seen == [(2, *["2"] * len(THREAD_VARIABLES))]
    assert torch.get_num_threads() == before
    assert os.environ[THREAD_VARIABLES[0]] == "3"
    assert THREAD_VARIABLES[1] not in os.environ


def test_none_changes_nothing():
    before = torch.get_num_threads(), dict(os.environ)
    with limit_threads(None):
        assert (torch.get_num_threads(), dict(os.environ)) == before


def test_machine():
    machine = describe_machine()
    assert machine["gpu"] is None
    assert machine["torch_threads"] == torch.get_num_threads()
    assert machine_line({**machine, "cores": 2, "torch_threads": 1}).endswith("2 cores, 1 threads")
