"""Stock heads on our backbone when it is frozen, annotates, or comes from another pipeline; see also test_set_ups.py."""

import numpy
import pytest
import spacy

from spacy_attention.training.optimizer import create_adamw

from .. import helpers
from ..helpers import BACKBONE, TEXTCAT
from .test_set_ups import add_stock_head, stock_examples, stock_outputs, stock_pipeline

HEADS = ["tagger", "textcat", TEXTCAT]
FROZEN = {"exclude": [BACKBONE], "annotates": [BACKBONE]}


def without_backbone(gradients):
    return [value for key, value in gradients.items() if not key.startswith(BACKBONE + "/")]


def test_frozen_backbone_that_annotates(tiny_checkpoint):
    """The heads learn the same from vectors stored on documents as from those handed on in an update."""
    nlp = stock_pipeline(tiny_checkpoint, HEADS)
    examples = stock_examples(nlp)
    expected = without_backbone(helpers.gradients_of(nlp, examples))
    found = helpers.gradients_of(nlp, examples, **FROZEN)
    assert not helpers.of_component(found, BACKBONE)
    assert len(found) == len(expected)
    assert any(value.any() for value in expected)
    for one, other in zip(found.values(), expected, strict=True):
        numpy.testing.assert_allclose(one, other, atol=1e-5)


def test_frozen_weights_stay_and_the_heads_learn(tiny_checkpoint):
    nlp = stock_pipeline(tiny_checkpoint, HEADS)
    before = helpers.weights_of(nlp)
    totals = helpers.train(nlp, stock_examples(nlp), create_adamw(5e-3), 8, **FROZEN)
    assert totals[-1] < 0.9 * totals[0]
    after = helpers.weights_of(nlp)
    assert {key.split("/")[0] for key in before if not numpy.array_equal(before[key], after[key])} == {TEXTCAT}


def test_frozen_without_annotating_is_an_error(tiny_checkpoint):
    """Of spaCy's own listener; ours says E204."""
    nlp = stock_pipeline(tiny_checkpoint, ["tagger"])
    with pytest.raises(ValueError, match=r"E203.*annotating components"):
        helpers.accumulate(nlp, stock_examples(nlp), exclude=[BACKBONE])


def test_annotating_while_training_changes_no_gradient(tiny_checkpoint):
    nlp = stock_pipeline(tiny_checkpoint, HEADS)
    examples = stock_examples(nlp)
    expected = helpers.gradients_of(nlp, examples)
    found = helpers.gradients_of(nlp, examples, annotates=nlp.pipe_names)
    assert len(found) == len(expected)
    for one, other in zip(found.values(), expected.values(), strict=True):
        numpy.testing.assert_allclose(one, other, atol=1e-5)


@pytest.fixture
def trained(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    add_stock_head(nlp, "tagger")
    add_stock_head(nlp, "ner")
    examples = stock_examples(nlp)
    nlp.initialize(lambda: examples)
    helpers.train(nlp, examples, create_adamw(3e-3), 12)
    return nlp


def test_sourced_with_the_backbone(trained):
    nlp = spacy.blank("en")
    for name in trained.pipe_names:
        nlp.add_pipe(name, source=trained)
    assert stock_outputs(nlp) == stock_outputs(trained)
    # Long enough for spaCy's parser, which explores at random: in a few steps its loss may well rise.
    losses = helpers.train(nlp, stock_examples(nlp), create_adamw(3e-3), 16)
    assert losses[-1] < 0.8 * losses[0]


def test_sourced_in_a_config_frozen_beside_a_new_head(trained, tmp_path):
    """A trained backbone and a trained head keep their weights; a new head is trained on the same vectors."""
    trained.to_disk(tmp_path)
    expected = stock_outputs(trained)
    nlp = spacy.blank("en")
    add_stock_head(nlp, "textcat")
    config = nlp.config.copy()
    config["nlp"]["pipeline"] = [*trained.pipe_names, "textcat"]
    config["components"].update({name: {"source": str(tmp_path)} for name in trained.pipe_names})
    nlp = spacy.util.load_model_from_config(config)
    frozen = trained.pipe_names
    with nlp.select_pipes(disable=frozen):
        nlp.initialize(lambda: stock_examples(nlp))
    totals = helpers.train(nlp, stock_examples(nlp), create_adamw(5e-3), 8, exclude=frozen, annotates=[BACKBONE])
    assert totals[-1] < totals[0]
    with nlp.select_pipes(disable=["textcat"]):
        assert stock_outputs(nlp) == expected
    assert set(nlp("Ann Lee").cats) == set(helpers.LABELS)
