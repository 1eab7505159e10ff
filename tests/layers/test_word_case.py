"""Case features against cases written out by hand."""

import numpy
import pytest
import spacy

from spacy_attention.layers.word_case import KINDS, N_FEATURES, case_features, word_kinds

NLP = spacy.blank("en")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Find me The Seven-Ups", [4, 1, 2, 2, 0, 2]),
        ("a DVD of 3 iPhones", [4, 3, 1, 0, 0]),
        # The only capital starts the text: case says nothing.
        ("Find the thing", [0, 0, 0]),
        ("find the thing", [0, 0, 0]),
        # Numbers and signs in front do not count as the first word.
        ("1. the Thing", [0, 0, 4, 2]),
        ("PLAY SOME JAZZ", [4, 3, 3]),
        ("play 北京 in Oslo", [4, 0, 1, 2]),
        ("123 !", [0, 0]),
        (" ", [0]),
    ],
)
def test_word_kinds(text, kinds):
    assert word_kinds(NLP(text)).tolist() == kinds


def test_features_are_those_of_the_word_before_the_word_and_the_word_after():
    doc = NLP("see The Who")
    one_hot = numpy.eye(KINDS, dtype="float32")
    nothing = numpy.zeros(KINDS, dtype="float32")
    first, title = one_hot[4], one_hot[2]
    expected = [[nothing, first, title], [first, title, title], [title, title, nothing]]
    found = case_features([doc])
    assert found.dtype == numpy.float32
    numpy.testing.assert_array_equal(found, [numpy.concatenate(row) for row in expected])


def test_documents_do_not_see_each_other():
    docs = [NLP("see The Who"), NLP(""), NLP("Find Al now"), NLP(" ")]
    alone = numpy.concatenate([case_features([doc]) for doc in docs])
    numpy.testing.assert_array_equal(case_features(docs), alone)


@pytest.mark.parametrize("docs", [[], [NLP("")]])
def test_no_tokens(docs):
    assert case_features(docs).shape == (0, N_FEATURES)
