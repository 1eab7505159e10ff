"""Documents and examples built by hand."""

import random

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

TEXT = ["pay", "the", "bill", "of", "Ann", "Lee", "today"]


@pytest.fixture
def vocab():
    return spacy.blank("en").vocab


@pytest.fixture
def make_doc(vocab):
    """Build a document from entities as (start, end, label) in tokens, and classes with scores."""

    def make(ents=(), cats=None, missing=()):
        doc = Doc(vocab, words=TEXT)
        spans = [Span(doc, start, end, label=label) for start, end, label in ents or ()]
        default = "outside" if ents is not None else "missing"
        doc.set_ents(spans, missing=[doc[i : i + 1] for i in missing], default=default)
        doc.cats = dict(cats or {})
        return doc

    return make


@pytest.fixture
def make_example(make_doc):
    """Build an example from two pairs of entities and classes: the prediction, the gold."""

    def make(guess, gold):
        return Example(make_doc(*guess), make_doc(*gold))

    return make


@pytest.fixture
def random_examples(make_example):
    """200 examples with random entities, some of them without any, and random exclusive classes."""
    rng = random.Random(0)

    def side(*, gold):
        bounds = sorted(rng.sample(range(len(TEXT) + 1), 4))
        spans = [(bounds[0], bounds[1], rng.choice("PQ")), (bounds[2], bounds[3], rng.choice("PQ"))]
        scores = [rng.random() for _ in "abc"]
        best = scores.index(max(scores))
        cats = {x: float(i == best) if gold else s / sum(scores) for i, (x, s) in enumerate(zip("abc", scores, strict=True))}
        return rng.choice([spans, spans[:1], []]), cats

    return [make_example(side(gold=False), side(gold=True)) for _ in range(200)]
