"""Making a component standalone: from the backbone outward, then save, load, train."""

import numpy
import pytest
import spacy

from spacy_attention.training.optimizer import create_adamw

from .. import helpers
from ..helpers import BACKBONE, ENCODER, NER, STOCK_LISTENER, TEXTCAT
from .test_set_ups import STOCK_HEADS, add_stock_head, stock_examples, stock_outputs

TEXTS = [text for text, _, _ in helpers.SENTENCES]
PATH = ["model.tok2vec"]


def outputs_of(nlp):
    return list(nlp.pipe([*TEXTS, "", " "]))


def assert_same(nlp, expected):
    for one, other in zip(outputs_of(nlp), expected, strict=True):
        helpers.assert_same_outputs(one, other, atol=1e-6)


def check_alone(nlp, expected, tmp_path, *, train):
    """The same outputs before and after saving, and a copy of its own of every weight that moves in training."""
    assert_same(nlp, expected)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded.config == nlp.config
    assert_same(loaded, expected)
    before = helpers.weights_of(loaded)
    totals = helpers.train(loaded, helpers.make_examples(loaded), create_adamw(2e-3), 4)
    assert totals[-1] < totals[0]
    after = helpers.weights_of(loaded)
    still = {key for key in before if numpy.array_equal(before[key], after[key])}
    assert all("pooler" in key for key in still if key.split("/")[0] in train), still
    return loaded


@pytest.mark.parametrize("head", [TEXTCAT, NER])
def test_head_on_the_backbone(make_nlp, tmp_path, head):
    nlp = make_nlp([BACKBONE, head])
    helpers.initialize(nlp)
    expected = outputs_of(nlp)
    nlp.replace_listeners(BACKBONE, head, PATH)
    assert nlp.get_pipe(BACKBONE).listening_components == []
    block = nlp.get_pipe_config(head)["model"]["tok2vec"]
    assert block["@architectures"] == "spacy-attention.StandaloneBackbone.v1"
    nlp.remove_pipe(BACKBONE)
    loaded = check_alone(nlp, expected, tmp_path, train=[head])
    assert len(helpers.torch_shims(loaded.get_pipe(head).model)) == 2


def test_from_the_backbone_outward(trained, tmp_path):
    """First the backbone into the encoder, then the encoder into each head."""
    expected = outputs_of(trained)
    trained.replace_listeners(BACKBONE, ENCODER, PATH)
    assert_same(trained, expected)
    for head in (TEXTCAT, NER):
        trained.replace_listeners(ENCODER, head, PATH)
    assert trained.get_pipe(ENCODER).listening_components == []
    trained.remove_pipe(ENCODER)
    trained.remove_pipe(BACKBONE)
    assert trained.pipe_names == [TEXTCAT, NER]
    loaded = check_alone(trained, expected, tmp_path, train=[TEXTCAT, NER])
    # Backbone, encoder and output layer in each.
    assert [len(helpers.torch_shims(loaded.get_pipe(name).model)) for name in (TEXTCAT, NER)] == [3, 3]


def test_encoder_alone_keeps_its_heads(trained, tmp_path):
    expected = outputs_of(trained)
    trained.replace_listeners(BACKBONE, ENCODER, PATH)
    trained.remove_pipe(BACKBONE)
    check_alone(trained, expected, tmp_path, train=[ENCODER, TEXTCAT, NER])


def test_one_head_alone_and_the_other_shared(make_nlp, tmp_path):
    nlp = make_nlp([BACKBONE, TEXTCAT, NER])
    helpers.initialize(nlp)
    expected = outputs_of(nlp)
    nlp.replace_listeners(BACKBONE, NER, PATH)
    check_alone(nlp, expected, tmp_path, train=[BACKBONE, TEXTCAT, NER])


def test_encoder_inside_a_head(tiny_checkpoint, tmp_path):
    """The listener is one level deeper."""
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, NER, helpers.encoder_block())
    helpers.initialize(nlp)
    expected = outputs_of(nlp)
    nlp.replace_listeners(BACKBONE, NER, ["model.tok2vec.tok2vec"])
    nlp.remove_pipe(BACKBONE)
    check_alone(nlp, expected, tmp_path, train=[NER])


def test_copies_do_not_share_weights(make_nlp):
    nlp = make_nlp([BACKBONE, TEXTCAT, NER])
    helpers.initialize(nlp)
    for head in (TEXTCAT, NER):
        nlp.replace_listeners(BACKBONE, head, PATH)
    shims = [shim for name in nlp.pipe_names for shim in helpers.torch_shims(nlp.get_pipe(name).model)]
    backbones = [shim for shim in shims if shim.component == "backbone"]
    assert len({shim.id for shim in backbones}) == 3
    assert len({p.data_ptr() for shim in backbones for p in shim.module.parameters()}) == sum(
        1 for shim in backbones for _ in shim.module.parameters()
    )


@pytest.mark.parametrize(
    ("name", "pooling"),
    [*((name, "reduce_mean.v1") for name in [*STOCK_HEADS, "textcat_multilabel"]), ("tagger", "reduce_max.v1")],
)
def test_stock_head_with_its_own_copy(tiny_checkpoint, tmp_path, name, pooling):
    """Its own pooling stays; saved, loaded and trained further without the shared backbone."""
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    add_stock_head(nlp, name, pooling={"@layers": pooling}, grad_factor=0.5)
    examples = stock_examples(nlp)
    nlp.initialize(lambda: examples)
    helpers.train(nlp, examples, create_adamw(3e-3), 4)
    expected = stock_outputs(nlp)
    nlp.replace_listeners(BACKBONE, name, PATH)
    assert nlp.get_pipe(BACKBONE).listening_components == []
    nlp.remove_pipe(BACKBONE)
    block = nlp.get_pipe_config(name)["model"]["tok2vec"]
    assert (block["pooling"], block["grad_factor"]) == ({"@layers": pooling}, 0.5)
    assert stock_outputs(nlp) == expected
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded.config == nlp.config
    assert stock_outputs(loaded) == expected
    before = helpers.weights_of(loaded)
    assert before
    losses = helpers.train(loaded, stock_examples(loaded), create_adamw(3e-3), 12)
    assert losses[-1] < losses[0]
    after = helpers.weights_of(loaded)
    assert all("pooler" in key for key in before if numpy.array_equal(before[key], after[key]))


def test_initialize_a_stock_head_with_its_own_copy(tiny_checkpoint):
    """Its config alone is enough to start over."""
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    for name in ("tagger", "textcat"):
        add_stock_head(nlp, name)
        nlp.replace_listeners(BACKBONE, name, PATH)
    nlp.remove_pipe(BACKBONE)
    anew = spacy.util.load_model_from_config(nlp.config)
    examples = stock_examples(anew)
    anew.initialize(lambda: examples)
    losses = helpers.train(anew, examples, create_adamw(3e-3), 8)
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("head", ["tagger", NER])
@pytest.mark.parametrize("grad_factor", [0.0, 0.5])
def test_grad_factor_stays_with_the_copy(tiny_checkpoint, head, grad_factor):
    """What kept a component from moving the backbone keeps it from moving its copy."""
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    if head == NER:
        helpers.add_head(nlp, NER, {**helpers.LISTENER, "grad_factor": grad_factor})
    else:
        add_stock_head(nlp, head, grad_factor=grad_factor)
    examples = stock_examples(nlp)
    helpers.initialize(nlp, examples)
    helpers.train(nlp, examples, create_adamw(3e-3), 2)
    shared = helpers.of_component(helpers.gradients_of(nlp, examples), BACKBONE)
    nlp.replace_listeners(BACKBONE, head, PATH)
    for model in (nlp, spacy.util.load_model_from_config(nlp.config).from_bytes(nlp.to_bytes())):
        alone = helpers.of_component(helpers.gradients_of(model, examples), head)
        assert shared.keys()
        for key, expected in shared.items():
            numpy.testing.assert_allclose(alone[key.replace(BACKBONE, head, 1)], expected, atol=1e-5)
        assert any(value.any() for value in shared.values()) == bool(grad_factor)


def test_our_components_with_stock_listeners(tiny_checkpoint, tmp_path):
    """A head with a stock listener, and an encoder inside a head, where the listener is one level deeper."""
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, TEXTCAT, STOCK_LISTENER)
    helpers.add_head(nlp, NER, helpers.encoder_block(STOCK_LISTENER))
    helpers.initialize(nlp)
    expected = outputs_of(nlp)
    nlp.replace_listeners(BACKBONE, TEXTCAT, PATH)
    nlp.replace_listeners(BACKBONE, NER, ["model.tok2vec.tok2vec"])
    nlp.remove_pipe(BACKBONE)
    check_alone(nlp, expected, tmp_path, train=[TEXTCAT, NER])


def test_sourced_stock_head_with_its_own_copy(tiny_checkpoint, tmp_path):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    add_stock_head(nlp, "tagger")
    examples = stock_examples(nlp)
    nlp.initialize(lambda: examples)
    helpers.train(nlp, examples, create_adamw(3e-3), 12)
    nlp.to_disk(tmp_path)
    expected = [[token.tag_ for token in doc] for doc in nlp.pipe(TEXTS)]
    assert len({tag for tags in expected for tag in tags}) == 2
    other = spacy.blank("en")
    helpers.add_backbone(other, tiny_checkpoint)
    helpers.add_head(other, TEXTCAT)
    config = other.config.copy()
    config["nlp"]["pipeline"] = [BACKBONE, TEXTCAT, "tagger"]
    config["components"]["tagger"] = {"source": str(tmp_path), "replace_listeners": PATH}
    other = spacy.util.load_model_from_config(config)
    assert other.get_pipe(BACKBONE).listening_components == [TEXTCAT]
    frozen = ["tagger"]
    with other.select_pipes(disable=frozen):
        helpers.initialize(other)
    before = helpers.weights_of(other)
    helpers.train(other, helpers.make_examples(other), create_adamw(3e-3), 4, exclude=frozen)
    after = helpers.weights_of(other)
    moved = {key.split("/")[0] for key in before if not numpy.array_equal(before[key], after[key])}
    assert moved == {BACKBONE, TEXTCAT}
    assert [[token.tag_ for token in doc] for doc in other.pipe(TEXTS)] == expected


def test_frozen_head_with_its_own_copy(make_nlp, tmp_path):
    """As `replace_listeners` in a training config does for sourced components."""
    nlp = make_nlp([BACKBONE, NER])
    helpers.initialize(nlp)
    nlp.to_disk(tmp_path)
    expected = outputs_of(nlp)
    other = make_nlp([BACKBONE])
    config = other.config.copy()
    config["nlp"]["pipeline"] = [BACKBONE, NER]
    config["components"][NER] = {"source": str(tmp_path), "replace_listeners": PATH}
    other = spacy.util.load_model_from_config(config)
    assert other.get_pipe(BACKBONE).listening_components == []
    for one, wanted in zip((other.get_pipe(NER)(other.make_doc(text)) for text in TEXTS), expected, strict=False):
        helpers.assert_same_outputs(one, wanted, atol=1e-6)
