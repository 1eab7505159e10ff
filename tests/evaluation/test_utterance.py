"""Whole-utterance accuracy against hand-counted cases."""

import pytest

from spacy_attention.evaluation.utterance import (
    class_accuracy,
    compared_entities,
    has_entities_annotated,
    is_exclusive,
    predicted_classes,
    utterance_accuracy,
)

YES, NO = {"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}
GUESS = {"a": 0.7, "b": 0.3}
ENT = [(4, 6, "PERSON")]


def test_exclusive_scores_sum_to_one(make_doc):
    assert is_exclusive([make_doc(cats=GUESS), make_doc()])
    assert not is_exclusive([make_doc(cats=GUESS), make_doc(cats={"a": 0.7, "b": 0.7})])


@pytest.mark.parametrize(
    ("cats", "exclusive", "expected"),
    [
        ({"a": 0.4, "b": 0.3, "c": 0.3}, True, {"a"}),
        ({"a": 0.4, "b": 0.3, "c": 0.3}, False, set()),
        ({"a": 0.5, "b": 0.9, "c": 0.49}, False, {"a", "b"}),
        ({}, True, set()),
    ],
)
def test_predicted_classes(make_doc, cats, exclusive, expected):
    assert predicted_classes(make_doc(cats=cats), exclusive=exclusive) == expected


def test_utterance_needs_classes_and_entities(make_example):
    examples = [
        make_example((ENT, GUESS), (ENT, YES)),  # right
        make_example((ENT, GUESS), (ENT, NO)),  # class wrong
        make_example(([], GUESS), (ENT, YES)),  # entity missed
        make_example(([(4, 5, "PERSON")], GUESS), (ENT, YES)),  # bounds wrong
        make_example(([(4, 6, "DATE")], GUESS), (ENT, YES)),  # label wrong
    ]
    assert utterance_accuracy(examples, exclusive=True) == pytest.approx(0.2)
    assert class_accuracy(examples, exclusive=True) == pytest.approx(0.8)


def test_unannotated_kinds_are_not_compared(make_example):
    only_classes = make_example((ENT, GUESS), (None, YES))
    only_entities = make_example((ENT, GUESS), (ENT, {}))
    nothing = make_example((ENT, GUESS), (None, {}))
    assert utterance_accuracy([only_classes, only_entities, nothing], exclusive=True) == 1.0
    assert class_accuracy([only_entities, nothing], exclusive=True) is None
    assert utterance_accuracy([nothing], exclusive=True) is None


def test_multilabel_set_must_be_equal(make_example):
    gold = {"a": 1.0, "b": 1.0}
    examples = [
        make_example(([], {"a": 0.9, "b": 0.6}), ([], gold)),
        make_example(([], {"a": 0.9, "b": 0.4}), ([], gold)),
        make_example(([], {"a": 0.1, "b": 0.4}), ([], {"a": 0.0, "b": 0.0})),
    ]
    assert utterance_accuracy(examples, exclusive=False) == pytest.approx(2 / 3)


def test_prediction_on_a_missing_token_is_ignored(make_doc, make_example):
    eg = make_example((ENT, {}), ([], {}))
    eg.reference = make_doc([], missing=[5])
    assert compared_entities(eg) == (set(), set())


def test_annotation_of_none_is_annotation(make_doc):
    assert has_entities_annotated(make_doc([]))
    assert not has_entities_annotated(make_doc(None))
