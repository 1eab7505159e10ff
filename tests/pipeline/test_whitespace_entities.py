"""Entities neither start nor end with whitespace, whatever the model would like."""

import numpy
import pytest
import spacy

from spacy_attention.pipeline.gold_tags import whitespace_bounds

from ..helpers import NER, make_examples

NLP = spacy.blank("en")


def test_which_tags_are_ruled_out():
    # O, B, I, L, U of two labels.
    bounds = [False, True, True, False, False, True, True, True, True]
    nothing = [False] * 9
    docs = [NLP("a  b"), NLP(""), NLP("\n")]
    assert [token.is_space for doc in docs for token in doc] == [False, True, False, True]
    numpy.testing.assert_array_equal(whitespace_bounds(docs, 2), [nothing, bounds, nothing, bounds])
    assert whitespace_bounds([], 2).shape == (0, 9)


@pytest.mark.parametrize("text", ["Ann  Lee  ", "  Ann\n\nLee", " \n "])
def test_prediction(trained, text):
    # Shaken weights find an entity wherever they may: every token would rather be anything than O.
    linear = trained.get_pipe(NER).model.get_ref("layer").shims[0].module.linear
    linear.bias.data[0] = -1e3
    doc = trained(text)
    for ent in doc.ents:
        assert not ent[0].is_space
        assert not ent[-1].is_space
        assert 0.0 <= ent._.confidence <= 1.0
    assert bool(doc.ents) == bool(text.strip())


def test_training_on_texts_with_whitespace_stays_finite(trained):
    examples = make_examples(trained)
    for eg in examples:
        assert trained.get_pipe(NER).get_loss([eg], trained.get_pipe(NER).model.predict([trained(eg.text)]))[0] < 1e4
    doc = trained.make_doc("Ann  Lee")
    loss = trained.update([spacy.training.Example(doc, doc.copy())], losses={})
    assert numpy.isfinite(list(loss.values())).all()
