"""Entities that nest and overlap."""

import warnings

import pytest
import spacy
import torch
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_attention.evaluation.predict import predict
from spacy_attention.evaluation.report import make_report
from spacy_attention.training.calibrate import calibrate

from .. import helpers
from ..helpers import BACKBONE, NER

# Text and spans in characters: one inside another, two that overlap, one span with two labels.
NESTED = [
    ("the mayor of New York resigned", [(0, 21, "PERSON"), (13, 21, "PLACE")]),
    ("Ann Lee and Bob called", [(0, 7, "PERSON"), (12, 15, "PERSON"), (0, 15, "GROUP")]),
    ("Paris won", [(0, 5, "PLACE"), (0, 5, "GROUP")]),
    ("it rained all day", []),
    ("New York City Hall", [(0, 13, "PLACE"), (9, 18, "PLACE")]),
]


def examples_of(nlp, texts=NESTED, key="sc"):
    found = []
    for text, spans in texts:
        doc = nlp.make_doc(text)
        if spans is not None:
            doc.spans[key] = [doc.char_span(start, end, label=label) for start, end, label in spans]
        found.append(Example(nlp.make_doc(text), doc))
    return found


def build(checkpoint, examples=None, **config):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, checkpoint)
    helpers.add_head(nlp, NER, nested=True, **config)
    optimizer = helpers.initialize(nlp, examples or examples_of(nlp))
    return nlp, optimizer


@pytest.fixture
def learned(tiny_checkpoint):
    nlp, optimizer = build(tiny_checkpoint)
    optimizer.learn_rate = 0.01
    helpers.train(nlp, examples_of(nlp), optimizer, 60)
    return nlp


def char_spans(doc, key=NER):
    return {(span.start_char, span.end_char, span.label_) for span in doc.spans[key]}


def test_overfit_save_and_load(learned, tmp_path):
    scores = learned.evaluate(examples_of(learned))
    assert scores["spans_sc_f"] == 1.0
    assert scores["spans_sc_unannotated"] == 0
    learned.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    for text, spans in NESTED:
        doc, again = learned(text), loaded(text)
        assert char_spans(doc) == char_spans(again) == set(spans)
        assert again.spans[NER].attrs["scores"] == pytest.approx(doc.spans[NER].attrs["scores"], abs=1e-5)
        assert not doc.ents


def test_probabilities_survive(learned):
    doc = learned(NESTED[0][0])
    scores = doc.spans[NER].attrs["scores"]
    assert all(isinstance(score, float) and 0.5 <= score <= 1.0 for score in scores)
    for copy in (Doc(learned.vocab).from_bytes(doc.to_bytes()), next(DocBin(docs=[doc]).get_docs(learned.vocab))):
        assert copy.spans[NER].attrs["scores"] == scores
        assert char_spans(copy) == char_spans(doc)


def test_probability_is_the_sigmoid_of_its_score_and_candidates_are_sorted(learned):
    ner, doc = learned.get_pipe(NER), learned(NESTED[1][0])
    probabilities = torch.as_tensor(ner.model.predict([doc])).sigmoid()
    group = ner.candidates(doc, k=4)
    expected = probabilities.flatten().topk(4).values.tolist()
    assert group.attrs["scores"] == pytest.approx(expected, abs=1e-6)
    assert len(ner.candidates(doc, k=10_000)) == int((probabilities >= 1e-6).sum())
    with pytest.raises(ValueError, match="E310"):
        ner.candidates(doc, k=0)


def test_min_confidence(learned):
    ner = learned.get_pipe(NER)
    scores = sorted(score for text, _ in NESTED for score in learned(text).spans[NER].attrs["scores"])
    ner.cfg["min_confidence"] = scores[2]
    assert sorted(score for text, _ in NESTED for score in learned(text).spans[NER].attrs["scores"]) == scores[2:]


def test_what_is_not_annotated_adds_nothing(tiny_checkpoint):
    nlp, _ = build(tiny_checkpoint)
    unknown, none = examples_of(nlp, [("it rained", None), ("it rained", [])])
    ner = nlp.get_pipe(NER)
    for eg in (unknown, none):
        nlp.get_pipe(BACKBONE)(eg.predicted)
    scores = ner.model.predict([unknown.predicted])
    loss, gradient = ner.get_loss([unknown], scores)
    assert loss == 0.0
    assert not gradient.any()
    loss, gradient = ner.get_loss([none], scores)
    assert loss == pytest.approx(torch.nn.functional.softplus(torch.as_tensor(scores)).sum().item(), rel=1e-5)
    assert (gradient > 0).all()


def test_loss_by_hand_in_a_batch(tiny_checkpoint):
    nlp, _ = build(tiny_checkpoint)
    ner, examples = nlp.get_pipe(NER), examples_of(nlp)
    assert ner.cfg["max_length"] == 5
    for eg in examples:
        nlp.get_pipe(BACKBONE)(eg.predicted)
    loss, _ = ner.get_loss(examples, ner.model.predict([eg.predicted for eg in examples]))
    expected = 0.0
    for eg, (_, spans) in zip(examples, NESTED, strict=True):
        logits = iter(ner.model.predict([eg.predicted]))
        for start in range(len(eg.predicted)):
            for end in range(start + 1, min(start + 5, len(eg.predicted)) + 1):
                span = eg.predicted[start:end]
                gold = [float((span.start_char, span.end_char, label) in spans) for label in ner.labels]
                row = torch.as_tensor(next(logits))
                expected += torch.nn.functional.binary_cross_entropy_with_logits(row, torch.tensor(gold), reduction="sum").item()
        assert next(logits, None) is None
    assert loss == pytest.approx(expected, rel=1e-5)


def test_other_tokens_in_the_gold(tiny_checkpoint):
    nlp, _ = build(tiny_checkpoint)
    reference = Doc(nlp.vocab, words=["New", "York", "City", "Ha", "ll"], spaces=[True, True, True, False, False])
    reference.spans["sc"] = [spacy.tokens.Span(reference, 0, 3, "PLACE"), spacy.tokens.Span(reference, 2, 5, "PLACE")]
    same = examples_of(nlp, [NESTED[4]])[0]
    other = Example(nlp.make_doc(reference.text), reference)
    ner = nlp.get_pipe(NER)
    torch.testing.assert_close(ner._gold([other], refuse=True), ner._gold([same], refuse=True))


def test_initialize_counts_the_tokens_of_the_pipeline(tiny_checkpoint):
    blank = spacy.blank("en")
    reference = Doc(blank.vocab, words=["New-York", "won"])
    reference.spans["sc"] = [spacy.tokens.Span(reference, 0, 1, "PLACE")]
    nlp, _ = build(tiny_checkpoint, [Example(blank.make_doc(reference.text), reference)])
    assert nlp.get_pipe(NER).cfg["max_length"] == 3
    # Once more with shorter spans: what is built stays.
    nlp.initialize(lambda: examples_of(nlp, [("Paris won", [(0, 5, "PLACE")])]))
    assert nlp.get_pipe(NER).cfg["max_length"] == 3
    nlp("Paris won")


def test_gold_with_scores_of_its_own_is_only_gold(learned):
    (eg,) = examples_of(learned, [NESTED[1]])
    for scores in (torch.ones(3).numpy(), [0.5]):
        eg.reference.spans["sc"].attrs["scores"] = scores
        assert learned.evaluate([eg])["spans_sc_f"] == 1.0


def test_odd_documents(learned):
    for text in ("", " ", "\n\n", "word", "Ann " * 500):
        doc = learned(text)
        for span in doc.spans[NER]:
            assert not span[0].is_space
            assert not span[-1].is_space
    docs = list(learned.pipe(["Paris won", "", " ", "Paris won"]))
    assert char_spans(docs[0]) == char_spans(docs[3]) == set(NESTED[2][1])
    assert list(learned.pipe([])) == []


def test_calibration(learned):
    examples = examples_of(learned)
    examples[0].reference.spans["sc"] = []
    calibrated = calibrate(learned, lambda nlp: helpers.fresh(nlp, examples))
    ner = calibrated.get_pipe(NER)
    assert ner.temperature > 1.0
    assert 0.0 < ner.cfg["threshold"] < 1.0
    before, after = (x.evaluate(helpers.fresh(x, examples)) for x in (learned, calibrated))
    assert after["spans_sc_f"] >= before["spans_sc_f"]
    assert after["spans_sc_brier"] < before["spans_sc_brier"]


def test_calibration_with_nothing_says_so(learned):
    with pytest.warns(UserWarning, match="W301"):
        assert calibrate(learned, lambda nlp: []).get_pipe(NER).temperature == 1.0


def test_calibration_leaves_out_what_can_never_be_predicted(learned):
    texts = ("a cat", [(2, 5, "ANIMAL")]), ("a b c d e f", [(0, 11, "PLACE")])
    found, expected = (
        calibrate(learned, lambda nlp, more=more: [*examples_of(learned), *examples_of(learned, more)]).get_pipe(NER)
        for more in (texts, [(text, []) for text, _ in texts])
    )
    assert found.temperature == expected.temperature != 1.0
    assert found.cfg["threshold"] == expected.cfg["threshold"]


def test_scores_by_hand(learned):
    (eg,) = examples_of(learned, [("Ann and Bob", [(0, 3, "A"), (8, 11, "A"), (0, 11, "B")])])
    predicted = learned.make_doc("Ann and Bob")
    spans = [predicted.char_span(0, 3, label="A"), predicted.char_span(4, 11, label="A"), predicted.char_span(0, 11, label="A")]
    predicted.spans[NER] = spacy.tokens.SpanGroup(predicted, name=NER, spans=spans, attrs={"scores": [0.9, 0.6, 0.7]})
    unknown = examples_of(learned, [("Bob", None)])[0]
    unknown.predicted.spans[NER] = [unknown.predicted[0:1]]
    scores = learned.get_pipe(NER).score([Example(predicted, eg.reference), unknown])
    assert scores["spans_sc_counts_per_type"] == {"A": {"tp": 1, "fp": 2, "fn": 1}, "B": {"tp": 0, "fp": 0, "fn": 1}}
    assert (scores["spans_sc_p"], scores["spans_sc_r"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert scores["spans_sc_unannotated"] == 1
    assert scores["spans_sc_ece"] == pytest.approx((0.1 + 0.6 + 0.7) / 3)


def test_bad_gold(tiny_checkpoint):
    nlp, _ = build(tiny_checkpoint)
    with pytest.raises(ValueError, match="E303.*ANIMAL"):
        helpers.accumulate(nlp, examples_of(nlp, [("a cat", [(2, 5, "ANIMAL")])]))
    with pytest.raises(ValueError, match="E319.*6 tokens"):
        helpers.accumulate(nlp, examples_of(nlp, [("one two three four five six", [(0, 27, "PLACE")])]))
    with pytest.raises(ValueError, match="E302.*other"):
        build(tiny_checkpoint, spans_key="other")
    nlp, _ = build(tiny_checkpoint, examples_of(spacy.blank("en"), key="other"), spans_key="other")
    assert nlp.get_pipe(NER).labels == ("GROUP", "PERSON", "PLACE")
    with pytest.raises(ValueError, match="E309"):
        build(tiny_checkpoint, min_confidence=2.0)


def test_gold_that_cuts_a_token_is_unknown_and_said(tiny_checkpoint):
    nlp, _ = build(tiny_checkpoint)
    ner = nlp.get_pipe(NER)
    reference = Doc(nlp.vocab, words=["New", "York", "Ci", "ty", "Hall"], spaces=[True, True, False, True, False])
    reference.spans["sc"] = [spacy.tokens.Span(reference, 0, 3, "PLACE"), spacy.tokens.Span(reference, 0, 2, "PERSON")]
    eg = Example(nlp.make_doc(reference.text), reference)
    with pytest.warns(UserWarning, match="W303.*'New York Ci'"):
        gold = ner._gold([eg], refuse=True)
    start, end, _ = ner._spans([eg.predicted])
    place, person = gold[:, ner.labels.index("PLACE")], gold[:, ner.labels.index("PERSON")]
    assert torch.equal(place.isnan(), start < 3)  # all that overlap "New York City"
    assert not place[start >= 3].any()
    assert torch.equal(person, ((start == 0) & (end == 2)).float())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ner._gold([eg], refuse=True)


def test_max_length_can_be_set(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, NER, nested=True)
    ner = nlp.get_pipe(NER)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="E320.*at least 1"):
            ner.initialize(lambda: examples_of(nlp), nlp=nlp, max_length=wrong)
    nlp.config["initialize"]["components"] = {NER: {"max_length": 7}}
    helpers.initialize(nlp, examples_of(nlp))
    assert ner.cfg["max_length"] == 7
    helpers.accumulate(nlp, examples_of(nlp, [("one two three four five six", [(0, 27, "PLACE")])]))
    with pytest.raises(ValueError, match="E320.*Expected 7"):
        ner.initialize(lambda: examples_of(nlp), nlp=nlp, max_length=8)


def test_whole_utterances_and_the_report_know_nested_spans(learned):
    examples = examples_of(learned)
    examples[0].reference.spans["sc"] = []
    # Entities without overlap, which nothing here predicts.
    examples[1].reference.set_ents([examples[1].reference[0:2]])
    scored = learned.evaluate(helpers.fresh(learned, examples))
    assert scored["utterance_acc"] == pytest.approx(4 / 5)
    report = make_report(learned, predict(learned, examples, progress=False))
    assert report["scores"]["utterance_acc"] == pytest.approx(4 / 5)
    assert report["per_label"]["spans"]["PLACE"] == {"tp": 3, "fp": 1, "fn": 0, "p": 0.75, "r": 1.0, "f": pytest.approx(6 / 7)}


def test_a_flat_recognizer_beside_a_nested_one_is_judged_too(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, NER, name="nested", nested=True)
    helpers.add_head(nlp, NER, name="flat")
    examples = examples_of(nlp)
    for eg in examples:
        eg.reference.set_ents([spacy.tokens.Span(eg.reference, 0, 1, "FIRST")])
    helpers.initialize(nlp, examples)
    nlp.get_pipe("flat").cfg["min_confidence"] = nlp.get_pipe("nested").cfg["min_confidence"] = 1.0
    unknown = Example(nlp.make_doc("it rained"), nlp.make_doc("it rained"))
    unknown.reference.spans["sc"] = []
    # Nothing is predicted: right where only nested spans are annotated, and there are none.
    report = make_report(nlp, predict(nlp, [*examples, unknown], progress=False))
    assert report["scores"]["utterance_acc"] == pytest.approx(1 / 6)
    unknown.reference.set_ents([], default="outside")
    assert make_report(nlp, predict(nlp, [unknown], progress=False))["scores"]["utterance_acc"] == 1.0


def test_a_cut_span_with_an_unknown_label_is_an_error(tiny_checkpoint):
    nlp, _ = build(tiny_checkpoint)
    reference = Doc(nlp.vocab, words=["Pa", "ris", "won"], spaces=[False, True, False])
    reference.spans["sc"] = [spacy.tokens.Span(reference, 0, 1, "PLCE")]
    with pytest.warns(UserWarning, match="W303"), pytest.raises(ValueError, match="E303.*PLCE"):
        nlp.get_pipe(NER)._gold([Example(nlp.make_doc(reference.text), reference)], refuse=True)


def test_candidates_of_a_model_gone_wrong(learned):
    module = learned.get_pipe(NER).model.get_ref("layer").shims[0].module
    with torch.no_grad():
        module.output.bias.fill_(torch.nan)
    assert not learned.get_pipe(NER).candidates(learned("Paris won"), k=5)
