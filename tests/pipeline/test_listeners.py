"""Which component a listener reads from, and what happens when there is none, or it has not run."""

import numpy
import pytest
import spacy

from spacy_attention.layers.listener import get_link

from .. import helpers
from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT


def upstream_of(nlp, name):
    (link,) = [link for link in map(get_link, nlp.get_pipe(name).model.walk()) if link is not None]
    return None if link.upstream is None else link.upstream.name


def test_nearest_before_the_component_wins(make_nlp):
    nlp = make_nlp([BACKBONE, TEXTCAT, ENCODER, NER])
    nlp._link_components()
    assert [upstream_of(nlp, name) for name in (TEXTCAT, ENCODER, NER)] == [BACKBONE, BACKBONE, ENCODER]
    assert nlp.get_pipe(BACKBONE).listening_components == [TEXTCAT, ENCODER]
    assert nlp.get_pipe(ENCODER).listening_components == [NER]


def test_upstream_by_name(make_nlp):
    nlp = make_nlp([BACKBONE, ENCODER, TEXTCAT, NER], upstreams={TEXTCAT: BACKBONE})
    nlp._link_components()
    assert [upstream_of(nlp, name) for name in (TEXTCAT, NER)] == [BACKBONE, ENCODER]


def test_removed_encoder_leaves_the_backbone(make_nlp):
    nlp = make_nlp([BACKBONE, ENCODER, TEXTCAT, NER])
    nlp.remove_pipe(ENCODER)
    helpers.initialize(nlp)
    assert [upstream_of(nlp, name) for name in (TEXTCAT, NER)] == [BACKBONE, BACKBONE]
    assert helpers.accumulate(nlp, helpers.make_examples(nlp))[NER] > 0
    assert nlp("Ann Lee").cats


def test_what_was_trained_on_an_encoder_does_not_move_to_the_backbone(trained):
    trained.remove_pipe(ENCODER)
    with pytest.raises(ValueError, match="E204"):
        trained("Ann Lee")


def test_two_backbones(tiny_checkpoint):
    """Each head has its own; a disabled one does not disturb the other."""
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint, name="one")
    helpers.add_backbone(nlp, tiny_checkpoint, name="two")
    helpers.add_head(nlp, NER, helpers.listen_to("one"))
    helpers.add_head(nlp, TEXTCAT)
    helpers.initialize(nlp)
    assert [upstream_of(nlp, name) for name in (NER, TEXTCAT)] == ["one", "two"]
    gradients = helpers.gradients_of(nlp, helpers.make_examples(nlp))
    assert helpers.of_component(gradients, "one")
    assert helpers.of_component(gradients, "two")


@pytest.mark.parametrize("factory", [ENCODER, TEXTCAT, NER])
def test_nothing_to_listen_to(factory):
    nlp = spacy.blank("en")
    (helpers.add_encoder if factory == ENCODER else lambda n: helpers.add_head(n, factory))(nlp)
    with pytest.raises(ValueError, match="E201") as info:
        helpers.initialize(nlp)
    for part in ("attention_backbone", "[model.tok2vec]", "spacy-transformers.TransformerListener.v1", "nearest"):
        assert part in str(info.value)


def test_stock_components_are_nothing_to_listen_to(make_nlp):
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    helpers.add_head(nlp, NER)
    with pytest.raises(ValueError, match="E201"):
        helpers.initialize(nlp)


def test_upstream_of_an_unknown_name(make_nlp):
    nlp = make_nlp([BACKBONE, NER], upstreams={NER: "nobody"})
    with pytest.raises(ValueError, match=r"E201.*nobody"):
        helpers.initialize(nlp)


def test_a_shared_component_after_its_listener_does_not_count(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_head(nlp, NER)
    helpers.add_backbone(nlp, tiny_checkpoint)
    with pytest.raises(ValueError, match="E201"):
        helpers.initialize(nlp)


def test_components_with_different_examples(trained):
    examples = helpers.make_examples(trained)
    trained.get_pipe(BACKBONE).update(examples)
    with pytest.raises(ValueError, match="E202"):
        trained.get_pipe(ENCODER).update(examples[:2])
    with pytest.raises(ValueError, match="E202"):
        trained.get_pipe(ENCODER).update(helpers.fresh(trained, examples))


def test_frozen_backbone_that_annotates(trained):
    examples = helpers.make_examples(trained)
    frozen = {"exclude": [BACKBONE], "annotates": [BACKBONE]}
    expected = helpers.gradients_of(trained, examples)
    helpers.accumulate(trained, examples, **frozen)
    found = helpers.Recorder().finish(trained, exclude=[BACKBONE])
    assert not helpers.of_component(found, BACKBONE)
    helpers.assert_close(found, {key: value for key, value in expected.items() if not key.startswith(BACKBONE + "/")})


@pytest.mark.parametrize("frozen", [[BACKBONE], [BACKBONE, ENCODER], [ENCODER], [BACKBONE, ENCODER, TEXTCAT]])
def test_frozen_weights_stay_and_the_others_move(trained, frozen):
    from spacy_attention.training.optimizer import create_adamw

    before = helpers.weights_of(trained)
    examples = helpers.make_examples(trained)
    # What a component that annotates listens to must annotate as well.
    annotates = [BACKBONE, *frozen]
    totals = helpers.train(trained, examples, create_adamw(5e-3), 5, exclude=frozen, annotates=annotates)
    assert totals[-1] < totals[0]
    after = helpers.weights_of(trained)
    moved = {key.split("/")[0] for key in before if not numpy.array_equal(before[key], after[key])}
    listening = set(trained.pipe_names) - set(frozen)
    if frozen == [ENCODER]:
        # Nothing sends a gradient through a frozen encoder.
        listening -= {BACKBONE}
    assert moved == listening


@pytest.mark.parametrize("frozen", [BACKBONE, ENCODER])
def test_frozen_without_annotating(make_nlp, frozen):
    nlp = make_nlp([BACKBONE, ENCODER, TEXTCAT, NER])
    helpers.initialize(nlp)
    with pytest.raises(ValueError, match=rf"E204.*{frozen}.*annotating_components"):
        helpers.accumulate(nlp, helpers.make_examples(nlp), exclude=[frozen])


def test_freezing_in_a_second_phase(trained):
    """A batch that a head did not take in the first phase does not stand in its way in the second."""
    examples = helpers.make_examples(trained)
    helpers.accumulate(trained, examples, exclude=[NER])
    helpers.Recorder().finish(trained, exclude=[NER])
    losses = helpers.accumulate(trained, examples[:3], exclude=[BACKBONE, ENCODER], annotates=[BACKBONE, ENCODER])
    assert losses[NER] > 0


def test_disabled_upstream_in_prediction(trained):
    with trained.select_pipes(disable=[ENCODER]), pytest.raises(ValueError, match="E204.*attention_encoder"):
        trained("Ann Lee")
    with trained.select_pipes(disable=[BACKBONE]), pytest.raises(ValueError, match="E204.*attention_backbone"):
        trained("Ann Lee")


def test_annotating_while_training_changes_no_gradient(trained):
    examples = helpers.make_examples(trained)
    expected = helpers.gradients_of(trained, examples)
    helpers.assert_close(helpers.gradients_of(trained, examples, annotates=trained.pipe_names), expected)
