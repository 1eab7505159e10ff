"""Several processes that train together: the same update as one, and an end for all when one dies."""

import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy
import pytest
import spacy
import torch.distributed as dist
from thinc.api import Adam, Config
from torch import multiprocessing

from spacy_attention.cli.train import train
from spacy_attention.training.optimizer import create_adamw
from spacy_attention.training.weights import find_weights, weight_names
from spacy_attention.training.workers import WorkerGroup, Workers, join_workers

from .. import helpers
from ..helpers import BACKBONE
from . import test_moments
from .tiny_training import write_config

# A file for `--code`: a callback that kills a worker, once, or raises an error in it.
KILLER = '''
import os, signal, time
from pathlib import Path
import torch.distributed as dist
from spacy import registry

@registry.callbacks("test.kill.v1")
def create_kill(step: int, rank: int, how: str):
    mark = Path(__file__).with_name("mark-of-the-kill")

    def kill(nlp, info):
        if info["step"] == step and dist.is_initialized() and dist.get_rank() == rank and not mark.exists():
            mark.write_text(str(time.time()))
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("only here\\nand on two lines")

    return kill
'''
# Longer than any of these takes here; a worker that dies must stop the others within it.
LIMIT = 30  # seconds


@pytest.fixture
def config(tiny_checkpoint, tmp_path):
    """A few steps in batches of three, evaluated now and then, with dropout."""
    return write_config(tmp_path, tiny_checkpoint, max_steps=7, eval_frequency=3)


def change(config, **training):
    changed = Config().from_disk(config, interpolate=False)
    changed["training"].update(training)
    changed.to_disk(config)
    return changed


def stopped_at(config, step, *, how="kill"):
    """The config with a callback that stops the second worker, and the file with its code."""
    code = config.with_name("killer.py")
    code.write_text(KILLER)
    change(config, before_update={"@callbacks": "test.kill.v1", "step": step, "rank": 1, "how": how})
    return code


def assert_alike(one, other, *, atol):
    found, expected = helpers.weights_of(spacy.load(one)), helpers.weights_of(spacy.load(other))
    assert found.keys() == expected.keys()
    for key, value in found.items():
        numpy.testing.assert_allclose(value, expected[key], rtol=0, atol=atol, err_msg=str(key))


def test_two_workers_as_one(config, tmp_path):
    """After 20 steps without dropout; with accumulation, and in the end a batch that has nothing for the second worker."""
    changed = change(config, max_steps=19, dropout=0.0, accumulate_gradient=2, eval_frequency=10)
    changed["components"][BACKBONE]["model"]["transformer_config"] = {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    for component in changed["components"].values():
        component["model"]["precision"] = "float32"
    # The gradient of a key's bias is zero but for rounding, whose sign Adam would follow in full steps with a smaller epsilon.
    changed["training"]["optimizer"]["eps"] = 1e-6
    assert len(helpers.SENTENCES) == 6
    changed["training"]["batcher"]["size"] = 5
    changed.to_disk(config)
    train(config, tmp_path / "one", silent=True)
    train(config, tmp_path / "two", workers=2, silent=True)
    assert_alike(tmp_path / "two" / "model-last", tmp_path / "one" / "model-last", atol=1e-5)
    assert not (tmp_path / "two" / "checkpoints").exists()
    metrics = (tmp_path / "two" / "metrics.json").read_text()
    assert '"docs"' in metrics


def test_a_killed_worker_and_what_comes_after(config, tmp_path):
    """The launcher says which one it was; resumed, the training ends as if nothing had happened, dropout of both workers included."""
    train(config, tmp_path / "whole", workers=2, silent=True, checkpoint_every=2)
    code = stopped_at(config, step=5)
    with pytest.raises(ValueError, match=r"(?s)E630.*Worker 1 of 2 ended.*SIGKILL.*--resume"):
        train(config, tmp_path / "killed", workers=2, silent=True, checkpoint_every=2, code=code)
    assert time.time() - float(code.with_name("mark-of-the-kill").read_text()) < LIMIT
    with pytest.raises(ValueError, match=r"E622.*workers is 1 now and was 2"):
        train(config, tmp_path / "killed", resume=True, silent=True, checkpoint_every=2, code=code)
    train(config, tmp_path / "killed", workers=2, resume=True, silent=True, checkpoint_every=2, code=code)
    for name in ("model-best", "model-last"):
        assert_alike(tmp_path / "killed" / name, tmp_path / "whole" / name, atol=0)


def test_an_error_in_one_worker(config, tmp_path):
    """What is reported is the error itself, and not that the other worker misses this one."""
    code = stopped_at(config, step=2, how="error")
    with pytest.raises(ValueError, match=r"E630.*Worker 1 of 2 ended: ValueError: only here\nand on two lines\n.*--resume"):
        train(config, tmp_path / "out", workers=2, silent=True, code=code)


def test_adapters_and_averages(config, tmp_path):
    """Adapters of a pipeline that was trained before are drawn at random: in both workers the same, or E629 would be raised."""
    train(config, tmp_path / "before", silent=True)
    start = tmp_path / "before" / "model-last"
    saved = start / "config.cfg"
    saved.write_text(saved.read_text().replace("lora = null", 'lora = {"rank": 2}'))
    changed = change(config, max_steps=3)
    changed["training"]["optimizer"]["use_averages"] = True
    changed["components"][BACKBONE] = {"source": str(start)}
    changed.to_disk(config)
    train(config, tmp_path / "two", workers=2, silent=True)
    before, after = (helpers.weights_of(spacy.load(folder)) for folder in (start, tmp_path / "two" / "model-last"))
    moved = [str(key) for key, value in after.items() if (value != before[key]).any()]
    assert any("query" in key for key in moved)
    assert not any("intermediate" in key for key in moved)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_without_our_launcher(config, tmp_path):
    """As torchrun starts them, but with nobody who watches: the one that is left says so and ends."""
    code = stopped_at(config, step=3)
    command = [sys.executable, "-m", "spacy", "attention", "train", str(config), "-o", str(tmp_path / "out"), "--code", str(code)]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "test"}
    workers = [
        subprocess.Popen(
            command,
            env=os.environ | meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        workers[1].communicate(timeout=4 * LIMIT)
        output, _ = workers[0].communicate(timeout=LIMIT)
    finally:
        for worker in workers:
            worker.kill()
    assert workers[1].returncode == -signal.SIGKILL
    assert workers[0].returncode == 1
    assert "E628" in output
    assert "--resume" in output


@pytest.mark.parametrize(("optimizer", "seed"), [(Adam(0.1), 0), (create_adamw(0.1), None)])
def test_what_several_workers_cannot_train(optimizer, seed):
    with pytest.raises(ValueError, match=r"E627.*3 workers"):
        WorkerGroup(0, 3).check(optimizer, seed)
    Workers().check(optimizer, seed)


def _sum_in_process(rank, init_method):
    """Thinc's arrays and modules in its own shim, and a weight that only the second worker has a gradient of."""
    nlp, model = test_moments.make_pipeline()
    optimizer = create_adamw(0.1)
    with join_workers(rank, 2, init_method=init_method) as workers:
        assert workers.sum_numbers({"both": 1.0, f"only-{rank}": rank}) == {"both": 2.0, "only-0": 0.0, "only-1": 1.0}
        assert workers.from_first(lambda: f"of {rank}") == "of 0"
        if rank:
            _, backprop = model.begin_update(numpy.ones((1, 2), dtype="float32"))
            backprop(numpy.ones((1, 2), dtype="float32"))
            model.finish_update(optimizer)
        expected = {key: gradient.clone() for key, gradient in optimizer.gradients.items()}
        workers.sum_gradients(nlp, optimizer)
        names = weight_names(nlp)
        found = {names[key]: gradient.tolist() for key, gradient in optimizer.gradients.items()}
        assert found.keys() == {weight.name for weight in find_weights(nlp)}
        parts = workers.gather({names[key]: gradient.tolist() for key, gradient in expected.items()})
        assert found == parts[1]
        assert dist.get_world_size() == 2
        workers.check_weights(nlp)
        model.layers[0].get_param("W")[0] += rank
        with pytest.raises(ValueError, match=r"E629.*workers \[1\].*other weights"):
            workers.check_weights(nlp)
        with pytest.raises(ValueError, match=r"E629.*other batches"):
            workers.share([SimpleNamespace(reference=SimpleNamespace(text=f"text {rank}"))])
        optimizer(("elsewhere", "lost"), numpy.ones(2, dtype="float32"), numpy.ones(2, dtype="float32"))
        with pytest.raises(ValueError, match=r"E626.*lost"):
            workers.sum_gradients(nlp, optimizer)


def test_weights_of_which_only_one_worker_has_a_gradient(tmp_path):
    multiprocessing.spawn(_sum_in_process, args=((tmp_path / "meeting").as_uri(),), nprocs=2)
