"""A frozen backbone reads each document once, and its rows are those of prediction."""

import os

import numpy
import pytest
import spacy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_attention.layers import vector_cache
from spacy_attention.layers.vector_cache import CacheSettings, FileStore, MemoryStore, VectorCache
from spacy_attention.models.backbone import build_transformer_backbone
from spacy_attention.training.optimizer import create_adamw

from .. import helpers
from ..helpers import BACKBONE, NER, TEXTCAT

MAKE_DOC = spacy.blank("en").make_doc
TEXTS = ["Ann Lee wants her money back", "", " ", "Ann", "Ann Lee wants her money back", "word " * 600]


def store_of(kind, limit, folder):
    return MemoryStore(limit) if kind == "memory" else FileStore(limit, folder)


@pytest.fixture(params=["memory", "file"])
def kind(request):
    return request.param


def rows_of_size(n):
    return numpy.full((n, 4), n, dtype="float32")


def test_what_was_used_least_recently_goes(kind, tmp_path):
    store = store_of(kind, 3 * rows_of_size(2).nbytes, tmp_path)
    for key in (b"a", b"b", b"c"):
        store.put(key, rows_of_size(2))
    assert store.get(b"a") is not None
    store.put(b"d", rows_of_size(2))
    assert store.get(b"b") is None
    assert all(store.get(key) is not None for key in (b"a", b"c", b"d"))
    # What is larger than everything that may be kept pushes nothing out.
    store.put(b"large", rows_of_size(9))
    assert store.get(b"large") is None
    assert all(store.get(key) is not None for key in (b"a", b"c", b"d"))


@pytest.mark.parametrize("kind", ["memory", "file"])
@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(0, 6), max_size=30), limit=st.integers(1, 20))
def test_never_more_than_the_limit(kind, sizes, limit, tmp_path_factory):
    store = store_of(kind, limit * 16, tmp_path_factory.mktemp("store"))
    kept = {}
    for i, size in enumerate(sizes):
        key = bytes([i])
        store.put(key, rows_of_size(size))
        kept[key] = size
        found = {key: store.get(key) for key in kept}
        assert sum(rows.nbytes for rows in found.values() if rows is not None) <= limit * 16
        assert all(rows is None or numpy.array_equal(rows, rows_of_size(kept[key])) for key, rows in found.items())


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no open file")
def test_the_file_has_no_name_that_a_killed_process_could_leave(tmp_path):
    store = FileStore(1000, tmp_path / "new")
    store.put(b"a", rows_of_size(3))
    assert not list((tmp_path / "new").iterdir())
    assert numpy.array_equal(store.get(b"a"), rows_of_size(3))


def test_the_file_goes_with_the_store_where_it_must_keep_its_name(tmp_path, monkeypatch):
    def refuse(path):
        monkeypatch.undo()
        raise PermissionError

    monkeypatch.setattr(vector_cache.os, "unlink", refuse)
    store = FileStore(1000, tmp_path / "new")
    assert len(list((tmp_path / "new").iterdir())) == 1
    del store
    assert not list((tmp_path / "new").iterdir())


def test_only_what_is_missing_is_computed(kind, tmp_path):
    cache = VectorCache(CacheSettings(1, None if kind == "memory" else str(tmp_path)))
    asked = []

    def compute(docs):
        asked.append([doc.text for doc in docs])
        return [rows_of_size(len(doc) + 1) for doc in docs]

    docs = [MAKE_DOC(text) for text in ("a b", "c", "a b", "")]
    for _ in range(2):
        assert [len(rows) for rows in cache.read(docs, "one", compute)] == [3, 2, 3, 1]
    cache.read([MAKE_DOC("c"), MAKE_DOC("d")], "one", compute)
    cache.read([MAKE_DOC("c")], "other", compute)
    assert asked == [["a b", "c", ""], ["d"], ["c"]]


def test_texts_that_differ_in_spaces_only():
    """Their tokens are alike, their pieces may not be."""
    cache = VectorCache(CacheSettings(1))
    docs = [MAKE_DOC("no-one"), MAKE_DOC("no - one")]
    assert [token.text for token in docs[0]] == [token.text for token in docs[1]]
    found = cache.read(docs, 0, lambda docs: [numpy.full((1, 1), len(doc.text), dtype="float32") for doc in docs])
    assert [rows.item() for rows in found] == [6, 8]


@pytest.fixture
def make_model(tiny_checkpoint, kind, tmp_path):
    """Frozen whole, with dropout, which the cache leaves out."""

    def make(**changed):
        cache = {"megabytes": 8, "folder": None if kind == "memory" else str(tmp_path)}
        arguments = {"frozen_layers": 2, "cache": cache, "precision": "float32", "window": 128, "stride": 100, **changed}
        model = build_transformer_backbone(str(tiny_checkpoint), **arguments)
        model.initialize()
        return model

    return make


def counted(model):
    """RETURNS: a list that grows by one with every forward pass of the checkpoint."""
    passes = []
    model.shims[0].transformer.register_forward_hook(lambda *args: passes.append(1))
    return passes


def test_rows_are_those_of_prediction(make_model):
    model = make_model()
    docs = [MAKE_DOC(text) for text in TEXTS]
    expected = model.predict(docs)
    passes = counted(model)
    for order in (docs, docs[::-1], docs[1:3], [MAKE_DOC(TEXTS[0])]):
        batch, backprop = model.begin_update(order)
        for doc, data in zip(order, batch.doc_data, strict=True):
            own = expected.doc_data[[d.text for d in docs].index(doc.text)]
            if len(doc):
                numpy.testing.assert_allclose(data.model_output.last_hidden_state, own.model_output.last_hidden_state, atol=1e-5)
                assert numpy.array_equal(data.align.lengths, own.align.lengths)
        backprop(numpy.ones_like(batch.rows))
    assert len(passes) <= 8  # those of the first batch: a long document has several windows
    assert all(parameter.grad is None for parameter in model.shims[0].module.parameters())


def test_all_is_forgotten_when_a_weight_changes(make_model):
    model = make_model()
    docs = [MAKE_DOC(TEXTS[0])]
    before = model.begin_update(docs)[0].rows.copy()
    with torch.no_grad():
        next(model.shims[0].module.parameters()).mul_(1.5)
    after = model.begin_update(docs)[0].rows
    assert not numpy.allclose(before, after, atol=1e-3)
    numpy.testing.assert_allclose(after, model.predict(docs).rows, atol=1e-5)


def test_what_learns_is_not_kept(make_model):
    model = make_model(frozen_layers=1)
    passes = counted(model)
    for _ in range(2):
        model.begin_update([MAKE_DOC(TEXTS[0])])
    assert len(passes) == 2


def test_heads_learn_the_same_with_and_without(tiny_checkpoint):
    ends = []
    for cache in (None, {"megabytes": 8}):
        nlp = spacy.blank("en")
        helpers.add_backbone(nlp, tiny_checkpoint, frozen_layers=2, cache=cache)
        helpers.add_head(nlp, TEXTCAT)
        helpers.add_head(nlp, NER)
        helpers.initialize(nlp)
        losses = helpers.train(nlp, helpers.make_examples(nlp), create_adamw(5e-3), 6)
        assert losses[-1] < losses[0]
        ends.append(helpers.weights_of(nlp))
    helpers.assert_close(ends[1], ends[0], atol=1e-5)
    assert any(key.startswith(BACKBONE) for key in ends[0])


@pytest.mark.parametrize(
    ("cache", "field"), [({"megabytes": 0}, "cache.megabytes"), ({"folder": 3}, "cache.folder"), ({"size": 3}, "cache")]
)
def test_wrong_arguments(cache, field):
    with pytest.raises(ValueError, match=rf"E106.*{field}"):
        build_transformer_backbone("x", cache=cache)
