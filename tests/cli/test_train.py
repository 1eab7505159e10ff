"""`attention train`: the same as `spacy train`, and the same again after an interruption."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy
import pytest
import spacy
import torch
from spacy.cli.train import train as spacy_train
from spacy.tokens import DocBin
from thinc.api import Config
from typer.testing import CliRunner

from spacy_attention.cli import attention_cli
from spacy_attention.cli import train as train_module
from spacy_attention.cli.train import train
from spacy_attention.training import checkpoint, guard, loop, outputs
from spacy_attention.training.lock import alone_in

from .. import helpers
from ..helpers import BACKBONE
from ..training.tiny_training import write_config

STEPS = 7
STOCK_OPTIMIZER = """
[optimizer]
@optimizers = "Adam.v1"
beta1 = 0.9
beta2 = 0.999
L2_is_weight_decay = true
L2 = 0.01
grad_clip = 1.0
use_averages = true
eps = 0.00000001
learn_rate = 0.001
"""


class Killed(BaseException):
    """As an interruption that nothing catches."""


class Run(NamedTuple):
    """A config and what an uninterrupted training made of it."""

    config: Path
    output: Path


@pytest.fixture(scope="module", params=["AdamW.v1", "Adam.v1", "adapters", "pieces"])
def run(request, tiny_checkpoint, tmp_path_factory):
    """A few steps of three epochs, with dropout everywhere, evaluated now and then.

    By our optimizer; by Thinc's with averages; by ours with averages, adapters and layers that thaw; by ours with batches by pieces,
    that go through in two parts.
    """
    folder = tmp_path_factory.mktemp("train")
    optimizer = STOCK_OPTIMIZER if request.param == "Adam.v1" else None
    config = write_config(folder, tiny_checkpoint, optimizer=optimizer, max_steps=STEPS - 1, eval_frequency=3)
    if request.param == "adapters":
        changed = Config().from_disk(config, interpolate=False)
        changed["components"][BACKBONE]["model"]["lora"] = {"rank": 2, "dropout": 0.1}
        changed["training"]["optimizer"]["use_averages"] = True
        changed["training"]["before_update"] = {
            "@callbacks": "spacy-attention.thaw.v1",
            "frozen_layers": {"0": 2, "2": 1, "4": 0},
        }
        changed.to_disk(config)
    if request.param == "pieces":
        changed = Config().from_disk(config, interpolate=False)
        changed["training"]["batcher"] = {
            "@batchers": "spacy-attention.batch_by_pieces.v1",
            "name": str(tiny_checkpoint),
            "pieces": 30,
            "buffer": 4,
        }
        changed["training"]["accumulate_gradient"] = 2
        changed.to_disk(config)
    train(config, folder / "whole", silent=True)
    return Run(config, folder / "whole")


only_ours = pytest.mark.parametrize("run", ["AdamW.v1"], indirect=True)


def train_until(where, step, config, output, **options):
    """Train and die before that step has done anything (`before`), or when it is over but for its checkpoint and models (`after`)."""
    own_step = loop._step

    def killed(nlp, training, progress, epoch, batch):
        if where == "before" and progress.step == step:
            raise Killed
        result = own_step(nlp, training, progress, epoch, batch)
        if where == "after" and progress.step == step + 1:
            raise Killed
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_step", killed)
        with pytest.raises(Killed):
            train(config, output, checkpoint_every=2, silent=True, **options)


def assert_same_models(one, other):
    for name in ("model-best", "model-last"):
        found, expected = spacy.load(one / name), spacy.load(other / name)
        weights, expected_weights = helpers.weights_of(found), helpers.weights_of(expected)
        assert weights.keys() == expected_weights.keys()
        for key, value in weights.items():
            numpy.testing.assert_array_equal(value, expected_weights[key], err_msg=f"{name} {key}")
        assert found.meta["performance"] == expected.meta["performance"]


def test_the_same_as_spacy_train(run, tmp_path):
    spacy_train(run.config, tmp_path)
    assert_same_models(run.output, tmp_path)
    written = ["curve.svg", "metrics.json", "model-best", "model-last", "record.jsonl", "request.json"]
    assert sorted(path.name for path in run.output.iterdir()) == written


@pytest.mark.parametrize(("where", "step"), [("before", 5), ("after", 3)])
def test_interrupted_and_resumed(run, tmp_path, where, step):
    train_until(where, step, run.config, tmp_path)
    # What a process draws before it resumes must not matter.
    numpy.random.random(7)
    train(run.config, tmp_path, checkpoint_every=2, resume=True, silent=True)
    assert_same_models(tmp_path, run.output)


def without_time(event):
    return {key: value for key, value in event.items() if key not in ("seconds", "update_seconds", "scores")}


def read_record(output):
    return [json.loads(line) for line in (output / "record.jsonl").read_text().splitlines()]


@only_ours
def test_the_record(run):
    begin, *evaluations, end = read_record(run.output)
    assert (begin["event"], end["event"]) == ("begin", "end")
    assert [event["step"] for event in evaluations] == [0, 3, 6]
    data = run.config.with_name("data.spacy")
    assert begin["data"]["train"] == {"path": str(data), "sha256": hashlib.sha256(data.read_bytes()).hexdigest()}
    assert begin["seed"] == 0
    assert begin["versions"]["spacy"] == spacy.__version__
    assert begin["machine"]["torch_threads"] == torch.get_num_threads()
    assert Config().from_str(begin["config"])["training"]["max_steps"] == STEPS - 1
    best = max(evaluations, key=lambda event: event["score"])
    assert json.loads((run.output / "metrics.json").read_text()) == best
    meta = json.loads((run.output / "model-best" / "meta.json").read_text())
    assert meta["performance"]["ents_f"] == pytest.approx(best["scores"]["ents_f"])
    names = [element.text for element in ElementTree.parse(run.output / "curve.svg").iter() if element.tag.endswith("text")]
    assert any(name.startswith("cats_score ") for name in names)


@only_ours
def test_the_record_of_a_resumed_training(run, tmp_path):
    """Evaluations that come again stand there once, and what a kill left of a line is gone."""
    train_until("after", 3, run.config, tmp_path)
    with (tmp_path / "record.jsonl").open("a") as file_:
        file_.write('{"event": "evalu')
    train(run.config, tmp_path, checkpoint_every=2, resume=True, silent=True)
    events = read_record(tmp_path)
    assert [event["event"] for event in events] == ["begin", "evaluation", "resume", "evaluation", "evaluation", "end"]
    assert events[2]["step"] == 2
    expected = [event for event in read_record(run.output) if event["event"] == "evaluation"]
    assert [without_time(e) for e in events if e["event"] == "evaluation"] == [without_time(e) for e in expected]


@only_ours
def test_interrupted_again_and_again(run, tmp_path):
    """First before there is any checkpoint, last when all but the end is done."""
    for step in (1, 2, STEPS - 1):
        train_until("before", step, run.config, tmp_path, resume=step > 1)
    train(run.config, tmp_path, checkpoint_every=2, resume=True, silent=True)
    assert_same_models(tmp_path, run.output)


@only_ours
def test_the_last_two_checkpoints_are_kept(run, tmp_path, monkeypatch):
    """One every two steps, and one at the end of each epoch."""
    written, own = [], checkpoint.write_checkpoint

    def write(output, nlp, optimizer, progress, random_states):
        own(output, nlp, optimizer, progress, random_states)
        written.append(progress.step)
        assert [path.name for path in checkpoint.find_checkpoints(output)] == [f"step-{n}" for n in written[-2:]]

    monkeypatch.setattr(outputs, "write_checkpoint", write)
    train(run.config, tmp_path, checkpoint_every=2, silent=True)
    per_epoch = -(-len(helpers.SENTENCES) // 3)
    assert written == [n for n in range(1, STEPS) if n % 2 == 0 or n % per_epoch == 0]
    assert not (tmp_path / "checkpoints").exists()


@pytest.fixture
def unfinished(run, tmp_path):
    train_until("before", 3, run.config, tmp_path / "out")
    return tmp_path / "out"


@only_ours
def test_what_is_refused(run, unfinished):
    """Nothing of the unfinished training is touched."""
    before = sorted((path, path.stat().st_mtime_ns) for path in unfinished.rglob("*"))
    with pytest.raises(ValueError, match=r"E620.*step 2.*--resume"):
        train(run.config, unfinished, silent=True)
    with pytest.raises(ValueError, match=rf"E622.*config.training.max_steps is 50 now and was {STEPS - 1}"):
        train(run.config, unfinished, checkpoint_every=2, resume=True, overrides={"training.max_steps": 50}, silent=True)
    with pytest.raises(ValueError, match=r"E622.*checkpoint_every is 3 now and was 2"):
        train(run.config, unfinished, checkpoint_every=3, resume=True, silent=True)
    assert sorted((path, path.stat().st_mtime_ns) for path in unfinished.rglob("*")) == before


@only_ours
def test_other_data_is_refused(run, unfinished, tmp_path):
    """The same path, but not the same file."""
    data = run.config.with_name("data.spacy")
    before = data.read_bytes()
    docs = list(DocBin().from_disk(data).get_docs(spacy.blank("en").vocab))
    try:
        DocBin(docs=docs[1:]).to_disk(data)
        with pytest.raises(
            ValueError, match=r"E622.*data.train.sha256 is '\w{64}' now and was '\w{64}' when it began.*same data"
        ):
            train(run.config, unfinished, checkpoint_every=2, resume=True, silent=True)
    finally:
        data.write_bytes(before)


@only_ours
def test_every_digit_of_a_setting_counts(run, tmp_path):
    """The same command goes on, also with numbers that have many digits; another last digit is another setting."""
    overrides = {"training.optimizer.eps": 1e-12, "training.optimizer.head_rate": 0.000123456789012345}
    train_until("before", 3, run.config, tmp_path, overrides=overrides)
    changed = {**overrides, "training.optimizer.head_rate": 0.000123456789012346}
    with pytest.raises(ValueError, match=r"E622.*head_rate is 0.000123456789012346 now"):
        train(run.config, tmp_path, checkpoint_every=2, resume=True, overrides=changed, silent=True)
    train(run.config, tmp_path, checkpoint_every=2, resume=True, overrides=overrides, silent=True)
    assert spacy.load(tmp_path / "model-best").pipe_names


@only_ours
def test_two_at_once_are_refused(run, unfinished):
    """Seen from another process, as a lock is one of processes."""
    command = [
        sys.executable,
        "-m",
        "spacy",
        "attention",
        "train",
        str(run.config),
        "-o",
        str(unfinished),
        "--checkpoint-every",
        "2",
    ]
    with alone_in(unfinished, make=False):
        result = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "E635" in result.stdout
    train(run.config, unfinished, checkpoint_every=2, resume=True, silent=True)
    assert_same_models(unfinished, run.output)


@only_ours
def test_a_full_disk(run, unfinished):
    """Wherever it is met: what was there stays, the error says what to do, and then the training goes on."""
    sizes = sorted({path.stat().st_size for path in unfinished.rglob("*") if path.is_file()})
    # The smallest files of all are written elsewhere as well, for a moment, when a checkpoint is read.
    for size in sizes[-3:]:
        with helpers.at_most(size - 1), pytest.raises(OSError, match=r"E621.*--resume"):
            train(run.config, unfinished, checkpoint_every=2, resume=True, silent=True)
        assert spacy.load(unfinished / "model-best").pipe_names
    train(run.config, unfinished, checkpoint_every=2, resume=True, silent=True)
    assert_same_models(unfinished, run.output)


@only_ours
def test_killed_while_an_old_training_makes_room(run, tmp_path, monkeypatch):
    """What was there is taken away in single steps, and never counts as ended without its models."""
    train(run.config, tmp_path, checkpoint_every=2, silent=True)

    def die(output):
        raise Killed

    monkeypatch.setattr(train_module, "remove_models", die)
    with pytest.raises(Killed):
        train(run.config, tmp_path, checkpoint_every=2, silent=True)
    monkeypatch.undo()
    assert json.loads((tmp_path / "request.json").read_text())["finished"] is False
    train(run.config, tmp_path, checkpoint_every=2, resume=True, silent=True)
    assert_same_models(tmp_path, run.output)


@only_ours
def test_a_gradient_that_is_not_finite(run, unfinished, monkeypatch):
    """No loss tells of it; no weight and no checkpoint may get it."""
    own = loop.GradientWatch.look

    def spoil(self, nlp, step):
        own(self, nlp, step)
        for _, parameter in nlp.get_pipe(BACKBONE).model.shims[0].parameters():
            if parameter.ndim == 1:
                parameter.grad = torch.full_like(parameter, float("inf"))

    monkeypatch.setattr(loop.GradientWatch, "look", spoil)
    with pytest.raises(ValueError, match=r"E632.*norm of the gradient is inf.*learn_rate"):
        train(run.config, unfinished, checkpoint_every=2, resume=True, silent=True)
    monkeypatch.undo()
    train(run.config, unfinished, checkpoint_every=2, resume=True, silent=True)
    assert_same_models(unfinished, run.output)


@only_ours
@pytest.mark.parametrize("learned", [True, False])
def test_an_interruption_does_not_accuse_a_head(run, tmp_path, monkeypatch, recwarn, learned):
    """What had its gradient before it was interrupted need not have it again; what never had one is told of, once."""
    monkeypatch.setattr(guard, "WATCHED", 4)
    monkeypatch.setattr(guard, "_has_gradient", lambda model: learned)
    train_until("before", 3, run.config, tmp_path)
    monkeypatch.setattr(guard, "_has_gradient", lambda model: False)
    train(run.config, tmp_path, checkpoint_every=2, resume=True, silent=True)
    assert len([w for w in recwarn.list if "W603" in str(w.message)]) == (not learned)


def constant(config, **training):
    """A config whose weights do not move, so that no score is better than the first one."""
    changed = Config().from_disk(config, interpolate=False)
    changed["training"].update(max_steps=0, eval_frequency=1, **training)
    changed["training"]["optimizer"] = {"@optimizers": "spacy-attention.AdamW.v1", "learn_rate": 0.0, "head_rate": 0.0}
    path = config.with_name("constant.cfg")
    changed.to_disk(path)
    return path


@only_ours
@pytest.mark.parametrize(
    ("training", "steps"),
    [({"patience": 2, "max_epochs": 9}, 3), ({"patience": 0, "max_epochs": 2}, 2 * -(-len(helpers.SENTENCES) // 3))],
)
def test_where_it_stops(run, tmp_path, training, steps, capsys):
    """By patience or at the end of the epochs, as `spacy train` does."""
    config = constant(run.config, **training)
    train(config, tmp_path / "ours", silent=True)
    evaluations = [event for event in read_record(tmp_path / "ours") if event["event"] == "evaluation"]
    assert [event["step"] for event in evaluations] == list(range(steps))
    spacy_train(config, tmp_path / "spacys")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [int(row[1]) for row in rows if len(row) > 3 and row[0].isdigit() and row[1].isdigit()] == list(range(steps))
    assert_same_models(tmp_path / "ours", tmp_path / "spacys")


@only_ours
def test_nothing_to_resume(run, tmp_path):
    with pytest.raises(ValueError, match="E623"):
        train(run.config, tmp_path / "out", resume=True, silent=True)
    assert not (tmp_path / "out").exists()


@only_ours
def test_a_finished_training_is_left_alone(run):
    before = sorted((path, path.stat().st_mtime_ns) for path in run.output.rglob("*"))
    train(run.config, run.output, resume=True, silent=True)
    assert sorted((path, path.stat().st_mtime_ns) for path in run.output.rglob("*")) == before


@only_ours
def test_a_loss_that_is_no_number(run, unfinished, monkeypatch):
    """The error names step and component; what is on the disk is from before, and the training can be resumed."""
    own = loop.check_losses
    monkeypatch.setattr(loop, "check_losses", lambda losses, step: own({**losses, "attention_ner": float("nan")}, step))
    with pytest.raises(ValueError, match=r"E624.*step 2: the loss of attention_ner is nan.*learn_rate"):
        train(run.config, unfinished, checkpoint_every=2, resume=True, silent=True)
    monkeypatch.undo()
    train(run.config, unfinished, checkpoint_every=2, resume=True, silent=True)
    assert_same_models(unfinished, run.output)


@only_ours
def test_the_command(run, tmp_path):
    arguments = ["train", str(run.config), "-o", str(tmp_path / "out"), "--training.max_steps", "1"]
    result = CliRunner().invoke(attention_cli, arguments)
    assert result.exit_code == 0, result.output
    assert "Saved the pipelines" in result.output
    assert json.loads((tmp_path / "out" / "request.json").read_text())["finished"] is True
    result = CliRunner().invoke(attention_cli, ["train", str(run.config), "-o", str(tmp_path / "other"), "--resume"])
    assert result.exit_code == 1
    assert "E623" in result.output
