"""The batches are those of spaCy's own loop, and come again from the same beginning."""

import itertools
import random

import pytest
import spacy
from spacy.training import Example
from spacy.training.loop import create_train_batches

from spacy_attention.training.batches import make_batches
from spacy_attention.training.random_state import OwnRandom, get_random_state, set_random_state

NLP = spacy.blank("en")


def corpus(nlp):
    for n in range(17):
        doc = nlp.make_doc(f"text {n}")
        yield Example(doc, doc)


def growing():
    """A batcher with a memory: its batches grow over the epochs."""
    sizes = itertools.count(2)

    def batcher(examples):
        examples = iter(examples)
        while batch := list(itertools.islice(examples, next(sizes))):
            yield batch

    return batcher


def texts(batches, steps):
    return [(epoch, [eg.text for eg in batch]) for epoch, batch in itertools.islice(batches, steps)]


def ours(steps, *, max_epochs=0, disturb=False):
    batches = make_batches(NLP, corpus, growing(), max_epochs=max_epochs, own_random=OwnRandom(random.getstate()))
    found = []
    for _ in range(steps):
        found += texts(batches, 1)
        if disturb:
            random.random()
    return found


@pytest.mark.parametrize("max_epochs", [0, 2, -1])
def test_as_in_spacys_loop(max_epochs):
    random.seed(1)
    expected = texts(create_train_batches(NLP, corpus, growing(), max_epochs), 12)
    random.seed(1)
    assert ours(12, max_epochs=max_epochs) == expected
    assert len({epoch for epoch, _ in expected}) > 1


def test_what_others_draw_changes_nothing():
    random.seed(1)
    expected = ours(12)
    random.seed(1)
    assert ours(12, disturb=True) == expected


def test_an_end_after_the_last_epoch():
    assert {epoch for epoch, _ in ours(50, max_epochs=2)} == {0, 1}


def test_an_empty_corpus():
    with pytest.raises(ValueError, match="E625"):
        next(make_batches(NLP, lambda nlp: [], growing(), max_epochs=0, own_random=OwnRandom(random.getstate())))


def test_random_states_come_back():
    import numpy
    import torch

    state = get_random_state()

    def draw():
        return random.random(), random.gauss(0, 1), numpy.random.normal(size=3).tolist(), torch.rand(3).tolist()

    expected = draw()
    assert draw() != expected
    set_random_state(state)
    assert draw() == expected
