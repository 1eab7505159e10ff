"""Making a component standalone: from the backbone outward, then save, load, train."""

import numpy
import pytest
import spacy

from spacy_attention.training.optimizer import create_adamw

from .. import helpers
from ..helpers import BACKBONE, ENCODER, NER, STOCK_LISTENER, TEXTCAT

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


def test_stock_listener_cannot_be_replaced(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    model = nlp.get_factory_meta("tagger").default_config["model"]
    nlp.add_pipe("tagger", config={"model": {**model, "tok2vec": STOCK_LISTENER}})
    with pytest.raises(NotImplementedError, match=r"E110.*transformer-listener.*spacy-attention.Listener.v1"):
        nlp.replace_listeners(BACKBONE, "tagger", PATH)


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
