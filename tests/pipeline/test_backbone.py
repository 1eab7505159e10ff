"""What the backbone writes on documents, and what it costs."""

import numpy
import pytest
import spacy
import torch
from spacy.tokens import Doc, DocBin
from thinc.api import NumpyOps

from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT, add_backbone, build, initialize

TEXTS = ["Ann Lee wants her money back", "", "  ", "thanks", "My order 4711 never arrived"]


@pytest.fixture
def nlp(tiny_checkpoint):
    made = build(tiny_checkpoint, [BACKBONE, TEXTCAT, NER, ENCODER])
    initialize(made)
    return made


def test_report(nlp):
    docs = list(nlp.pipe(TEXTS))
    for doc in docs:
        report = doc._.backbone_report
        assert set(report) == {"pieces", "windows", "tokens_without_pieces", "special_text", "truncated_pieces"}
        assert report["windows"] == bool(len(doc))
        assert report["truncated_pieces"] == 0
        assert report["pieces"] == (doc._.trf_data.model_output.last_hidden_state.shape[1] - 1 if len(doc) else 0)
    assert docs[2]._.backbone_report["tokens_without_pieces"] == 1


def test_truncated_document(tiny_checkpoint):
    nlp = spacy.blank("en")
    add_backbone(nlp, tiny_checkpoint, window=8, stride=6, truncate=True)
    nlp.initialize()
    report = nlp("thanks a lot for nothing at all Ann , thanks")._.backbone_report
    assert report["windows"] == 1
    assert report["pieces"] == 6
    assert report["truncated_pieces"] > 0
    assert report["tokens_without_pieces"] > 0


def test_a_document_does_not_keep_its_batch_alive(nlp):
    for doc in nlp.pipe([*TEXTS, "thanks a lot " * 300]):
        if len(doc):
            for array in (doc._.trf_data.model_output.last_hidden_state, doc.tensor):
                owner = array
                while isinstance(owner.base, numpy.ndarray):
                    owner = owner.base
                assert owner.nbytes == array.nbytes > 0


@pytest.mark.parametrize("one_by_one", [True, False])
def test_documents_can_be_stored_after_the_pipeline_ran(nlp, one_by_one):
    docs = [nlp(text) for text in TEXTS] if one_by_one else list(nlp.pipe(TEXTS))
    bundle = DocBin(store_user_data=True, docs=docs)
    for doc, again in zip(docs, DocBin().from_bytes(bundle.to_bytes()).get_docs(nlp.vocab), strict=True):
        alone = Doc(nlp.vocab).from_bytes(doc.to_bytes())
        for copy in (again, alone):
            assert copy._.backbone_report == doc._.backbone_report
            assert [ent._.confidence for ent in copy.ents] == [ent._.confidence for ent in doc.ents]
            if len(doc):
                expected = doc._.trf_data.model_output.last_hidden_state
                numpy.testing.assert_array_equal(copy._.trf_data.model_output.last_hidden_state, expected)


def test_pipe_keeps_the_order_and_hands_what_fails_to_the_error_handler(nlp, monkeypatch):
    backbone = nlp.get_pipe(BACKBONE)
    backbone.cfg["max_batch_items"] = 6  # the longest text goes alone
    predict, failed = backbone.predict, []

    def fail_on_long(docs):
        if any(len(doc) > 5 for doc in docs):
            raise RuntimeError("no memory left")
        return predict(docs)

    docs = [nlp.make_doc(text) for text in TEXTS]
    assert [doc.text for doc in backbone.pipe(docs, batch_size=3)] == TEXTS
    monkeypatch.setattr(backbone, "predict", fail_on_long)
    with pytest.raises(RuntimeError, match="no memory left"):
        list(backbone.pipe(docs))
    backbone.set_error_handler(lambda name, pipe, docs, error: failed.extend(doc.text for doc in docs))
    assert [doc.text for doc in backbone.pipe(docs)] == TEXTS[1:]
    assert failed == TEXTS[:1]


def count_operations(monkeypatch, run) -> tuple[int, int]:
    """RETURNS: torch operations, and calls of Thinc's array operations."""
    calls = []
    with monkeypatch.context() as patch:
        for name in dir(NumpyOps):
            method = getattr(NumpyOps, name)
            if callable(method) and not name.startswith("_"):
                patch.setattr(NumpyOps, name, lambda *args, _f=method, **kwargs: (calls.append(1), _f(*args, **kwargs))[1])
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            run()
    return sum(event.count for event in profile.key_averages()), len(calls)


@pytest.mark.parametrize("name", [BACKBONE, TEXTCAT, NER, ENCODER])
def test_operations_do_not_grow_with_the_number_of_documents(nlp, monkeypatch, name):
    """Ready for a GPU: no operation per document or token on the device; in one micro-batch each."""
    nlp.get_pipe(BACKBONE).model.attrs["budget"] = 10**6
    model = nlp.get_pipe(name).model
    counts = []
    for n in (16, 256):
        docs = [nlp.make_doc(text) for text in (TEXTS * n)[:n]]
        if name != BACKBONE:
            nlp.get_pipe(BACKBONE).set_annotations(docs, nlp.get_pipe(BACKBONE).predict(docs))
        counts.append(count_operations(monkeypatch, lambda docs=docs: model.predict(docs)))
    (few_torch, few_arrays), (many_torch, many_arrays) = counts
    assert few_torch > 5
    assert many_torch <= 1.5 * few_torch
    assert many_arrays <= 1.5 * few_arrays
