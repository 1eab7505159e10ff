"""`min_confidence` and `candidates` of the entity recognizer."""

import pytest
import spacy

from .. import helpers
from ..helpers import BACKBONE, NER, TEXTCAT

TEXT = "please ask Bob Stone about order 17 today, and Ann Lee about 4711"


@pytest.fixture
def unsure(make_nlp):
    """Entities everywhere, none of them sure."""
    nlp = make_nlp([BACKBONE, TEXTCAT, NER])
    helpers.initialize(nlp)
    module = nlp.get_pipe(NER).model.get_ref("layer").shims[0].module
    module.linear.weight.data *= 8.0
    module.linear.bias.data[0] -= 1.0
    return nlp


def confidences(doc):
    return [ent._.confidence for ent in doc.ents]


def test_candidates_are_the_most_probable_spans(unsure):
    doc = unsure(TEXT)
    before = doc.to_bytes()
    group = unsure.get_pipe(NER).candidates(doc, k=20)
    scores = group.attrs["scores"]
    assert len(group) == len(scores) == 20
    assert scores == sorted(scores, reverse=True)
    assert all(isinstance(score, float) and 0.0 < score <= 1.0 for score in scores)
    found = {(span.start, span.end, span.label_): score for span, score in zip(group, scores, strict=True)}
    assert len(found) == 20
    for ent in doc.ents:
        if ent._.confidence > scores[-1]:
            assert found[ent.start, ent.end, ent.label_] == pytest.approx(ent._.confidence, abs=1e-12)
    assert doc.to_bytes() == before


def test_candidates_of_odd_documents(unsure):
    ner = unsure.get_pipe(NER)
    for text, expected in (("", []), (" \n ", []), ("Ann", ["Ann"])):
        doc = unsure(text)
        assert [span.text for span in ner.candidates(doc, k=1)] == expected


def test_candidates_need_a_document_of_the_pipeline(unsure):
    with pytest.raises(ValueError, match="E204"):
        unsure.get_pipe(NER).candidates(unsure.make_doc(TEXT))
    with pytest.raises(ValueError, match="E310"):
        unsure.get_pipe(NER).candidates(unsure(TEXT), k=0)


def test_no_entity_is_weaker_than_min_confidence(unsure):
    ner = unsure.get_pipe(NER)
    usual = sorted(confidences(unsure(TEXT)))
    assert len(usual) > 3
    # Between two of them: at one of them, rounding would decide.
    between = sum(usual[len(usual) // 2 :][:2]) / 2
    for least in (0.2, 0.5, between):
        ner.cfg["min_confidence"] = least
        doc = unsure(TEXT)
        assert all(confidence >= least for confidence in confidences(doc))
        assert doc.spans[NER].attrs["scores"] == confidences(doc)
        # From one half on, spans this probable cannot overlap: all of them are entities.
        if least >= 0.5:
            group = ner.candidates(doc, k=1000)
            sure = {span for span, score in zip(group, group.attrs["scores"], strict=True) if score >= least}
            assert set(doc.ents) == sure


def test_what_is_sure_stays_and_zero_changes_nothing(unsure):
    ner = unsure.get_pipe(NER)
    usual = unsure(TEXT)
    weakest = min(confidences(usual))
    ner.cfg["min_confidence"] = weakest
    assert [(e.start, e.end, e.label_) for e in unsure(TEXT).ents] == [(e.start, e.end, e.label_) for e in usual.ents]
    ner.cfg["min_confidence"] = 1.0
    assert not unsure(TEXT).ents


def test_min_confidence_is_saved(unsure, tmp_path):
    unsure.get_pipe(NER).cfg["min_confidence"] = 0.4
    unsure.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    assert loaded.get_pipe(NER).cfg["min_confidence"] == 0.4
    assert confidences(loaded(TEXT)) == pytest.approx(confidences(unsure(TEXT)), abs=1e-6)


@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_min_confidence_outside_0_and_1(make_nlp, value):
    with pytest.raises(ValueError, match="E309"):
        spacy.blank("en").add_pipe(NER, config={"min_confidence": value})
