"""Killed twenty times at random moments, a training ends as if nothing had happened. Takes minutes."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy
import pytest
import spacy

from .. import helpers
from ..training.tiny_training import write_config

KILLS = 20
# Of one life after its first evaluation; an uninterrupted training takes far more than twenty times as long.
LONGEST_LIFE = 1.2  # seconds
# Until the first step; what is begun then, or taken up again, must be whole as well.
LONGEST_START = 8.0


def start(config, output, *options):
    command = [sys.executable, "-m", "spacy", "attention", "train", str(config), "-o", str(output), "--checkpoint-every", "5"]
    return subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_a_step(process):
    """Until the first line of the log, or the end."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.split()[:1] and line.split()[0].isdigit():
            return lines
    return lines


@pytest.mark.slow
def test_killed_twenty_times(tiny_checkpoint, tmp_path):
    config = write_config(tmp_path, tiny_checkpoint, max_steps=800, eval_frequency=7)
    whole = start(config, tmp_path / "whole")
    output, _ = whole.communicate()
    assert whole.returncode == 0, output
    moments, kills, finished = random.Random(0), 0, False
    again = tmp_path / "again"
    while not finished:
        process = start(config, again, *(["--resume"] if again.exists() else []))
        # Every third life may end before it has done anything.
        is_early = kills % 3 == 2
        lines = [] if is_early else wait_for_a_step(process)
        if kills < KILLS and process.poll() is None:
            time.sleep(moments.uniform(0, LONGEST_START if is_early else LONGEST_LIFE))
            os.kill(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        if process.returncode == -signal.SIGKILL:
            kills += 1
            if (again / "model-best").exists():
                assert spacy.load(again / "model-best").pipe_names
            continue
        assert process.returncode == 0, "".join(lines) + output
        finished = True
    assert kills == KILLS
    for name in ("model-best", "model-last"):
        found, expected = spacy.load(again / name), spacy.load(tmp_path / "whole" / name)
        weights, expected_weights = helpers.weights_of(found), helpers.weights_of(expected)
        assert weights.keys() == expected_weights.keys()
        for key, value in weights.items():
            numpy.testing.assert_array_equal(value, expected_weights[key], err_msg=f"{name} {key}")
        assert found.meta["performance"] == expected.meta["performance"]
