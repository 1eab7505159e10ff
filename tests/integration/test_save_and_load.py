"""Overfit, save, load: into an object built with another seed, without the checkpoint, and in a process that imports nothing."""

import json
import os
import subprocess
import sys

import numpy
import pytest
import spacy
from spacy.training import Example

from spacy_attention.training.optimizer import create_adamw

from .. import helpers
from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT

PIPELINE = [BACKBONE, ENCODER, TEXTCAT, NER]
TEXTS = [text for text, _, _ in helpers.SENTENCES]


@pytest.fixture(scope="module")
def overfit(tiny_checkpoint):
    """A pipeline that knows its six training texts by heart."""
    nlp = helpers.build(tiny_checkpoint, PIPELINE)
    examples = helpers.make_examples(nlp)
    nlp.initialize(lambda: examples)
    before = helpers.weights_of(nlp)
    helpers.train(nlp, examples, create_adamw(2e-3), 25)
    after = helpers.weights_of(nlp)
    for name in PIPELINE:
        assert any(not numpy.array_equal(before[key], after[key]) for key in before if key.startswith(name))
    return nlp


def test_the_training_texts_are_learned(overfit):
    for text, ents, cat in helpers.SENTENCES:
        doc = overfit(text)
        assert max(doc.cats, key=doc.cats.__getitem__) == cat
        assert [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents] == ents
        assert all(ent._.confidence > 0.5 for ent in doc.ents)
    scores = overfit.evaluate(helpers.make_examples(overfit))
    assert (scores["ents_f"], scores["cats_macro_f"], scores["utterance_acc"]) == (1.0, 1.0, 1.0)


def other_seed(checkpoint, initialized):
    nlp = helpers.build(checkpoint, PIPELINE)
    if initialized:
        helpers.initialize(nlp, seed=7)
    return nlp


def assert_equal(found, expected):
    for one, other in zip(found.pipe(TEXTS), expected.pipe(TEXTS), strict=True):
        helpers.assert_same_outputs(one, other)
    weights, wanted = helpers.weights_of(found), helpers.weights_of(expected)
    assert weights.keys() == wanted.keys()
    assert all(numpy.array_equal(weights[key], wanted[key]) for key in wanted)


@pytest.mark.parametrize("initialized", [False, True])
def test_disk_into_another_seed(overfit, tiny_checkpoint, tmp_path, initialized):
    overfit.to_disk(tmp_path)
    assert_equal(other_seed(tiny_checkpoint, initialized).from_disk(tmp_path), overfit)


@pytest.mark.parametrize("initialized", [False, True])
def test_bytes_into_another_seed(overfit, tiny_checkpoint, initialized):
    assert_equal(other_seed(tiny_checkpoint, initialized).from_bytes(overfit.to_bytes()), overfit)


@pytest.mark.parametrize("name", PIPELINE)
def test_bytes_of_one_component(overfit, tiny_checkpoint, name):
    nlp = other_seed(tiny_checkpoint, initialized=True).from_bytes(overfit.to_bytes())
    helpers.shake(nlp, seed=3)
    for pipe_name, pipe in nlp.pipeline:
        pipe.from_bytes(overfit.get_pipe(pipe_name).to_bytes())
    assert nlp.get_pipe(name).cfg == overfit.get_pipe(name).cfg
    assert_equal(nlp, overfit)


def test_saved_twice_is_the_same(overfit, tmp_path):
    overfit.to_disk(tmp_path / "once")
    spacy.load(tmp_path / "once").to_disk(tmp_path / "twice")
    for path in sorted((tmp_path / "once").rglob("*")):
        other = tmp_path / "twice" / path.relative_to(tmp_path / "once")
        if path.is_file() and path.parent.name in PIPELINE:
            assert other.read_bytes() == path.read_bytes(), path.name


def test_a_loaded_pipeline_trains_on(overfit, tmp_path):
    overfit.to_disk(tmp_path)
    nlp = spacy.load(tmp_path)
    before = helpers.weights_of(nlp)
    expected = helpers.gradients_of(overfit, helpers.make_examples(overfit))
    helpers.assert_close(helpers.gradients_of(nlp, helpers.make_examples(nlp)), expected)
    optimizer = create_adamw(1e-3)
    nlp.resume_training(sgd=optimizer)
    helpers.train(nlp, helpers.make_examples(nlp), optimizer, 1)
    after = helpers.weights_of(nlp)
    assert {key.split("/")[0] for key in before if not numpy.array_equal(before[key], after[key])} == set(PIPELINE)


def test_loads_without_the_checkpoint_and_without_an_import(overfit, tiny_checkpoint, tmp_path):
    """In another process, in which nothing of ours is imported by hand and the checkpoint's folder is gone."""
    overfit.to_disk(tmp_path / "model")
    hidden = tiny_checkpoint.with_name("hidden")
    program = (
        "import json, sys, spacy\n"
        "nlp = spacy.load(sys.argv[1])\n"
        "docs = nlp.pipe(json.loads(sys.argv[2]))\n"
        "print(json.dumps([[d.cats, [[e.start, e.end, e.label_, e._.confidence] for e in d.ents]] for d in docs]))\n"
    )
    tiny_checkpoint.rename(hidden)
    try:
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "model"), json.dumps(TEXTS)],
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        hidden.rename(tiny_checkpoint)
    assert run.returncode == 0, run.stderr
    for (cats, ents), doc in zip(json.loads(run.stdout.splitlines()[-1]), overfit.pipe(TEXTS), strict=True):
        assert cats == pytest.approx(doc.cats, abs=1e-6)
        assert [ent[:3] for ent in ents] == [[e.start, e.end, e.label_] for e in doc.ents]
        assert [ent[3] for ent in ents] == pytest.approx([e._.confidence for e in doc.ents], abs=1e-6)


def test_sourced_components(overfit):
    """A pipeline put together from the components of another says the same."""
    nlp = spacy.blank("en")
    for name in PIPELINE:
        nlp.add_pipe(name, source=overfit)
    assert_equal(nlp, overfit)


def test_sourced_head_on_a_new_backbone(overfit, tiny_checkpoint, tmp_path):
    """It listens to the backbone of the pipeline it came into, and sends its gradient there."""
    overfit.to_disk(tmp_path)
    source = spacy.load(tmp_path)
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    nlp.get_pipe(BACKBONE).initialize(list)
    nlp.add_pipe(NER, source=source)
    gradients = helpers.gradients_of(nlp, helpers.make_examples(nlp))
    assert abs(helpers.of_component(gradients, BACKBONE)[f"{BACKBONE}/transformer.embeddings.LayerNorm.bias"]).max() > 1e-3
    assert nlp(TEXTS[0]).spans[NER] is not None


def test_sourced_in_a_config(overfit, tmp_path):
    """As in a training config: frozen backbone and recognizer from a trained pipeline, a new classifier."""
    overfit.to_disk(tmp_path)
    nlp = spacy.blank("en")
    config = nlp.config.copy()
    config["nlp"]["pipeline"] = [BACKBONE, ENCODER, NER, TEXTCAT]
    config["components"] = {name: {"source": str(tmp_path)} for name in (BACKBONE, ENCODER, NER)}
    config["components"][TEXTCAT] = overfit.get_pipe_config(TEXTCAT)
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    with nlp.select_pipes(enable=[TEXTCAT, BACKBONE, ENCODER]):
        nlp.initialize(lambda: [Example.from_dict(nlp.make_doc("a b"), {"cats": {"new": 1.0, "old": 0.0}})])
    doc = nlp(TEXTS[0])
    assert set(doc.cats) == {"new", "old"}
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Ann Lee", "PERSON")]
