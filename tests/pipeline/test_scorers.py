"""Scores against hand-counted cases."""

import numpy
import pytest
import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_attention.evaluation.score_cats import make_textcat_scorer
from spacy_attention.evaluation.score_ents import make_ner_scorer
from spacy_attention.evaluation.utterance import make_utterance_scorer, utterance_accuracy

from .. import helpers
from ..helpers import NER, TEXTCAT

VOCAB = spacy.blank("en").vocab


def make_doc(cats=None, ents=None):
    """Five tokens; `ents` None means not annotated."""
    doc = Doc(VOCAB, words=list("abcde"))
    doc.cats = cats or {}
    if ents is not None:
        doc.set_ents([Span(doc, start, end, label=label) for start, end, label in ents])
    return doc


def case(gold, found):
    return Example(make_doc(*found), make_doc(*gold))


RIGHT = case(({"x": 1.0, "y": 0.0}, [(0, 2, "A")]), ({"x": 0.9, "y": 0.1}, [(0, 2, "A")]))
WRONG_CLASS = case(({"x": 1.0, "y": 0.0}, [(0, 2, "A")]), ({"x": 0.4, "y": 0.6}, [(0, 2, "A")]))
WRONG_LABEL = case(({"x": 1.0, "y": 0.0}, [(0, 2, "A")]), ({"x": 0.9, "y": 0.1}, [(0, 2, "B")]))
WRONG_SPAN = case(({"x": 1.0, "y": 0.0}, [(0, 2, "A")]), ({"x": 0.9, "y": 0.1}, [(0, 3, "A")]))
SPURIOUS = case(({"x": 1.0, "y": 0.0}, []), ({"x": 0.9, "y": 0.1}, [(0, 1, "A")]))
NO_GOLD_ENTS = case(({"x": 1.0, "y": 0.0}, None), ({"x": 0.9, "y": 0.1}, [(0, 1, "A")]))
NO_GOLD_CATS = case(({}, [(0, 2, "A")]), ({"x": 0.2, "y": 0.8}, [(0, 2, "A")]))
NO_GOLD = case(({}, None), ({"x": 0.2, "y": 0.8}, [(0, 2, "A")]))
NO_PREDICTION = case(({"x": 1.0, "y": 0.0}, []), ({}, []))


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        ([RIGHT], 1.0),
        ([WRONG_CLASS], 0.0),
        ([WRONG_LABEL], 0.0),
        ([WRONG_SPAN], 0.0),
        ([SPURIOUS], 0.0),
        ([NO_GOLD_ENTS], 1.0),
        ([NO_GOLD_CATS], 1.0),
        ([NO_PREDICTION], 0.0),
        ([NO_GOLD], None),
        ([], None),
        ([RIGHT, WRONG_CLASS, WRONG_LABEL, NO_GOLD, NO_GOLD_ENTS, NO_GOLD_CATS], 3 / 5),
    ],
)
def test_utterance_accuracy_exclusive(examples, expected):
    assert utterance_accuracy(examples, exclusive=True) == expected


@pytest.mark.parametrize(
    ("gold", "found", "expected"),
    [
        ({"x": 1.0, "y": 1.0}, {"x": 0.5, "y": 0.9, "z": 0.1}, 1.0),
        ({"x": 1.0, "y": 1.0}, {"x": 0.49, "y": 0.9}, 0.0),
        ({"x": 0.0, "y": 0.0}, {"x": 0.1, "y": 0.2}, 1.0),
        ({"x": 0.0, "y": 0.0}, {"x": 0.1, "y": 0.7}, 0.0),
        # Nothing is known of z.
        ({"x": 1.0, "y": 0.0}, {"x": 0.8, "y": 0.2, "z": 0.9}, 1.0),
    ],
)
def test_utterance_accuracy_multilabel(gold, found, expected):
    assert utterance_accuracy([case((gold, None), (found, None))], exclusive=False) == expected


def test_utterance_scorer_adds_to_its_base():
    scorer = make_utterance_scorer(lambda examples, **kwargs: {"n": len(list(examples)), **kwargs})
    assert scorer(iter([RIGHT, WRONG_SPAN]), labels=("A",)) == {"n": 2, "labels": ("A",), "utterance_acc": 0.5}


def test_cats_scores_by_hand():
    """x: two right, one wrongly y. y: one right. A document without cats does not count."""
    cases = [({"x": 1.0, "y": 0.0}, 0.9), ({"x": 1.0, "y": 0.0}, 0.8), ({"x": 1.0, "y": 0.0}, 0.3), ({"x": 0.0, "y": 1.0}, 0.4)]
    examples = [case((gold, None), ({"x": x, "y": 1 - x}, None)) for gold, x in cases]
    scores = make_textcat_scorer()([*examples, NO_GOLD], labels=("x", "y"), multi_label=False)
    assert scores["cats_micro_f"] == pytest.approx(3 / 4)
    assert scores["cats_f_per_type"]["x"] == pytest.approx({"p": 1.0, "r": 2 / 3, "f": 0.8})
    assert scores["cats_f_per_type"]["y"] == pytest.approx({"p": 0.5, "r": 1.0, "f": 2 / 3})
    assert scores["cats_macro_f"] == pytest.approx((0.8 + 2 / 3) / 2)
    assert scores["cats_score"] == scores["cats_macro_f"]


def test_cats_scores_count_and_calibrate():
    """x predicted at 0.9, 0.8 and 0.6, two of them right; y once, rightly; a text without prediction misses its x."""
    cases = [(1.0, 0.9), (1.0, 0.8), (0.0, 0.6), (0.0, 0.3)]
    examples = [case(({"x": x, "y": 1 - x}, None), ({"x": p, "y": 1 - p}, None)) for x, p in cases]
    scores = make_textcat_scorer()([*examples, NO_PREDICTION, NO_GOLD_CATS], labels=("x", "y"), multi_label=False)
    assert scores["cats_counts_per_type"] == {"x": {"tp": 2, "fp": 1, "fn": 1}, "y": {"tp": 1, "fp": 0, "fn": 1}}
    # Four predictions, so four bins of one.
    assert scores["cats_ece"] == pytest.approx((0.1 + 0.2 + 0.6 + 0.3) / 4)
    assert scores["cats_brier"] == pytest.approx(2 * (0.1**2 + 0.2**2 + 0.6**2 + 0.3**2) / 4)


def test_multilabel_cats_have_thresholds_of_their_own():
    gold = {"x": 1.0, "y": 1.0}
    examples = [
        case((gold, None), ({"x": 0.4, "y": 0.4, "z": 0.9}, None)),
        case(({"x": 0.0}, None), ({"x": 0.2, "y": 0.9}, None)),
    ]
    scores = make_textcat_scorer()(examples, labels=("x", "y", "z"), multi_label=True, threshold=0.5, thresholds={"x": 0.3})
    # Of z nothing is known, and of y only in the first.
    expected = {"x": {"tp": 1, "fp": 0, "fn": 0}, "y": {"tp": 0, "fp": 0, "fn": 1}, "z": {"tp": 0, "fp": 0, "fn": 0}}
    assert scores["cats_counts_per_type"] == expected
    assert scores["cats_brier"] == pytest.approx((0.6**2 + 0.6**2 + 0.2**2) / 3)
    assert scores["cats_auc_per_type"] == {"x": 1.0, "y": None, "z": None}


@pytest.mark.parametrize("multi_label", [False, True])
def test_cats_scores_equal_spacys_where_all_is_annotated(multi_label):
    generator = numpy.random.default_rng(0)
    examples = []
    for _ in range(60):
        found = generator.dirichlet([1.0] * 3)
        gold = generator.integers(0, 2, 3) if multi_label else numpy.eye(3)[generator.integers(3)]
        examples.append(
            case((dict(zip("xyz", gold.tolist(), strict=True)), None), (dict(zip("xyz", found.tolist(), strict=True)), None))
        )
    ours = make_textcat_scorer()(examples, labels="xyz", multi_label=multi_label)
    theirs = Scorer.score_cats(examples, "cats", labels=list("xyz"), multi_label=multi_label)
    for key, value in theirs.items():
        if key == "cats_f_per_type":
            assert all(ours[key][label] == pytest.approx(value[label]) for label in "xyz")
        else:
            assert ours[key] == (value if isinstance(value, str) else pytest.approx(value)), key


def test_a_class_that_only_dev_does_not_have():
    scores = make_textcat_scorer()([RIGHT], labels=("x", "y", "w"), multi_label=False)
    assert scores["cats_counts_per_type"]["w"] == {"tp": 0, "fp": 0, "fn": 0}


def test_ents_scores_count_and_calibrate():
    examples = [RIGHT, WRONG_LABEL, SPURIOUS, NO_GOLD_ENTS, NO_GOLD]
    for eg, confidence in zip(examples, (0.9, 0.6, 0.7, 0.1, None), strict=True):
        for ent in eg.predicted.ents:
            ent._.confidence = confidence
    scores = make_ner_scorer()(examples)
    assert scores["ents_counts_per_type"] == {"A": {"tp": 1, "fp": 1, "fn": 1}, "B": {"tp": 0, "fp": 1, "fn": 0}}
    assert scores["ents_unannotated"] == 2
    assert scores["ents_ece"] == pytest.approx((0.1 + 0.6 + 0.7) / 3)
    assert scores["ents_brier"] == pytest.approx((0.1**2 + 0.6**2 + 0.7**2) / 3)
    assert scores["ents_p"] == pytest.approx(1 / 3)
    assert scores["ents_per_type"].keys() == {"A", "B"}


def test_ents_scores_without_confidence_or_gold():
    scores = make_ner_scorer()([case(({}, [(0, 2, "A")]), ({}, [(0, 2, "A")]))])
    assert (scores["ents_f"], scores["ents_ece"], scores["ents_brier"]) == (1.0, None, None)
    scores = make_ner_scorer()([NO_GOLD])
    assert (scores["ents_f"], scores["ents_counts_per_type"], scores["ents_unannotated"]) == (None, {}, 1)


def test_default_score_weights_name_what_the_scorers_return(trained):
    scores = trained.evaluate(helpers.make_examples(trained))
    for head in (TEXTCAT, NER):
        weights = trained.get_factory_meta(head).default_score_weights
        assert weights
        assert weights.keys() <= scores.keys()
    assert 0.0 <= scores["utterance_acc"] <= 1.0
    assert scores["ents_f"] is not None
    assert scores["cats_score_desc"] == "macro F"


def test_evaluate_without_gold(trained):
    examples = [Example(trained.make_doc("Ann Lee"), trained.make_doc("Ann Lee")) for _ in range(2)]
    scores = trained.evaluate(examples)
    assert scores["utterance_acc"] is None
    assert scores["ents_f"] is None


def test_evaluate_some_without_cats(trained):
    examples = helpers.make_examples(trained)
    examples.append(Example.from_dict(trained.make_doc("Ann Lee"), {"entities": [(0, 7, "PERSON")]}))
    examples.append(Example.from_dict(trained.make_doc("Ann Lee"), {"cats": {"refund": 1.0}}))
    scores = trained.evaluate(examples)
    assert set(scores["cats_f_per_type"]) == set(helpers.LABELS)


def test_multilabel_threshold_reaches_the_scores(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, TEXTCAT, exclusive=False, threshold=0.0)
    helpers.initialize(nlp)
    # With threshold 0 every label of every text counts as predicted: six texts, two per class.
    scores = nlp.evaluate(helpers.make_examples(nlp))
    assert scores["cats_macro_r"] == 1.0
    assert scores["cats_micro_p"] == pytest.approx(1 / 3)
    assert scores["cats_score_desc"] == "macro AUC"


def test_no_scorer(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, NER, scorer=None)
    helpers.initialize(nlp)
    assert "ents_f" not in nlp.evaluate(helpers.make_examples(nlp))
