"""Counts by label against hand-counted cases and against spaCy's scorer."""

import pytest
from spacy.scorer import Scorer, get_ner_prf

from spacy_attention.evaluation.labels import class_scores, entity_scores, label_scores


def test_shares_over_nothing_are_none():
    assert label_scores(0, 0, 0) == {"tp": 0, "fp": 0, "fn": 0, "p": None, "r": None, "f": None}
    assert label_scores(0, 1, 0) == {"tp": 0, "fp": 1, "fn": 0, "p": 0.0, "r": None, "f": 0.0}
    assert label_scores(3, 1, 2)["f"] == pytest.approx(2 / 3)


def test_entities_by_hand(make_example):
    examples = [
        make_example(([(0, 1, "P"), (4, 6, "Q")], {}), ([(0, 1, "P"), (4, 5, "Q")], {})),
        make_example(([(0, 1, "P")], {}), ([(0, 1, "Q")], {})),
        make_example(([(0, 1, "P")], {}), (None, {})),
    ]
    scores = entity_scores(examples)
    assert {label: (s["tp"], s["fp"], s["fn"]) for label, s in scores.items()} == {
        "P": (1, 1, 0),
        "Q": (0, 1, 2),
    }


def test_classes_by_hand(make_example):
    right = make_example(([], {"a": 0.9, "b": 0.1}), ([], {"a": 1.0, "b": 0.0}))
    wrong = make_example(([], {"a": 0.9, "b": 0.1}), ([], {"a": 0.0, "b": 1.0}))
    skipped = make_example(([], {"a": 0.9, "b": 0.1}), ([], {}))
    scores = class_scores([right, wrong, skipped], exclusive=True)
    assert {label: (s["tp"], s["fp"], s["fn"]) for label, s in scores.items()} == {
        "a": (1, 1, 0),
        "b": (0, 0, 1),
    }


def test_entities_equal_spacy_on_200_random_docs(random_examples):
    spacy_scores = get_ner_prf(random_examples)["ents_per_type"]
    ours = entity_scores(random_examples)
    assert ours.keys() == spacy_scores.keys() == {"P", "Q"}
    for label, expected in spacy_scores.items():
        assert {key: ours[label][key] for key in "prf"} == pytest.approx(expected)


def test_classes_equal_spacy_on_200_random_docs(random_examples):
    spacy_scores = Scorer.score_cats(random_examples, "cats", labels=list("abc"), multi_label=False, threshold=0.0)
    ours = class_scores(random_examples, exclusive=True)
    for label, expected in spacy_scores["cats_f_per_type"].items():
        assert {key: ours[label][key] for key in "prf"} == pytest.approx(expected)
