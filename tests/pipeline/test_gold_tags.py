"""The annotation of an example as possible tags: the fast way equals spaCy's alignment."""

import random

import numpy
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_attention.nn.tags import allowed_tags, tag_names
from spacy_attention.pipeline.gold_tags import gold_tags, is_annotated

LABELS = ["A", "B", "C"]
COLUMNS = {tag: i for i, tag in enumerate(tag_names(LABELS))}


@pytest.fixture(scope="module")
def vocab():
    return spacy.blank("en").vocab


def random_doc(vocab, rng, words=None):
    words = words or [rng.choice(["x", "yy", "zz", "w1"]) for _ in range(rng.randint(0, 12))]
    doc = Doc(vocab, words=words, spaces=[rng.random() < 0.7 for _ in words])
    start, ents, missing = 0, [], []
    while start < len(doc):
        length = min(rng.randint(1, 4), len(doc) - start)
        kind = rng.choice(["entity", "entity", "outside", "missing"])
        if kind == "entity":
            ents.append(Span(doc, start, start + length, label=rng.choice(LABELS)))
        elif kind == "missing":
            missing.append(doc[start : start + length])
        start += length
    doc.set_ents(ents, missing=missing)
    return doc


def by_alignment(example):
    return allowed_tags(example.get_aligned_ner(), COLUMNS)


@pytest.mark.parametrize("seed", range(60))
def test_fast_way_equals_alignment(vocab, seed):
    rng = random.Random(seed)
    doc = random_doc(vocab, rng)
    predicted = Doc(vocab, words=[t.text for t in doc], spaces=[bool(t.whitespace_) for t in doc])
    example = Example(predicted, doc)
    found = gold_tags(example, LABELS)
    assert found.shape == (len(doc), 13)
    assert found.any(axis=1).all()
    if is_annotated(doc):
        numpy.testing.assert_array_equal(found, by_alignment(example))
    else:
        assert found.all()


@pytest.mark.parametrize("seed", range(30))
def test_other_tokens_go_through_alignment(vocab, seed):
    """The predicted document cuts each character apart."""
    rng = random.Random(seed)
    doc = random_doc(vocab, rng, words=["yy", "zz", "w1", "yy", "x"])
    while not is_annotated(doc):
        doc = random_doc(vocab, rng, words=["yy", "zz", "w1", "yy", "x"])
    letters = [(letter, i == len(t.text) - 1 and bool(t.whitespace_)) for t in doc for i, letter in enumerate(t.text)]
    predicted = Doc(vocab, words=[x for x, _ in letters], spaces=[space for _, space in letters])
    found = gold_tags(Example(predicted, doc), LABELS)
    assert found.shape == (len(letters), 13)
    offset = numpy.cumsum([0] + [len(t.text) for t in doc])
    for ent in doc.ents:
        rows = found[offset[ent.start] : offset[ent.end]]
        label = LABELS.index(ent.label_)
        expected = ["B", *["I"] * (len(rows) - 2), "L"] if len(rows) > 1 else ["U"]
        assert [tag_names(LABELS)[row.argmax()] for row in rows] == [f"{x}-{LABELS[label]}" for x in expected]
        assert (rows.sum(axis=1) == 1).all()


def test_partial_annotation_by_hand(vocab):
    doc = Doc(vocab, words=list("abcdef"))
    doc.set_ents([Span(doc, 1, 4, label="B")], missing=[doc[4:5]])
    found = gold_tags(Example(Doc(vocab, words=list("abcdef")), doc), LABELS)
    names = [{tag_names(LABELS)[i] for i in numpy.flatnonzero(row)} for row in found]
    assert names == [{"O"}, {"B-B"}, {"I-B"}, {"L-B"}, set(tag_names(LABELS)), {"O"}]


def test_annotated_or_not(vocab):
    unknown, none = Doc(vocab, words=["a", "b"]), Doc(vocab, words=["a", "b"])
    none.set_ents([])
    assert (is_annotated(unknown), is_annotated(none)) == (False, True)
    assert gold_tags(Example(Doc(vocab, words=["a", "b"]), unknown), LABELS).all()
    found = gold_tags(Example(Doc(vocab, words=["a", "b"]), none), LABELS)
    assert found[:, 0].all()
    assert found.sum() == 2


@pytest.mark.parametrize("words", [["a", "b"], ["a b"]])
def test_unknown_label(vocab, words):
    doc = Doc(vocab, words=["a", "b"])
    doc.set_ents([Span(doc, 0, 2, label="NEW")])
    with pytest.raises(KeyError, match="-NEW"):
        gold_tags(Example(Doc(vocab, words=words, spaces=[True, True][: len(words)]), doc), LABELS)


def test_empty_document(vocab):
    example = Example(Doc(vocab), Doc(vocab))
    assert gold_tags(example, LABELS).shape == (0, 13)
