"""What the guard says of trainings that go wrong; each is provoked."""

import random

import numpy
import pytest
import spacy
from spacy.tokens import DocBin, Span
from spacy.training import Example
from thinc.api import Adam, PyTorchWrapper
from torch import nn

from spacy_attention.cli.train import train
from spacy_attention.training import loop
from spacy_attention.training.batches import make_batches
from spacy_attention.training.guard import GradientWatch, check_averages, check_losses, warn_of_chance, warn_of_unknown_labels
from spacy_attention.training.optimizer import create_adamw
from spacy_attention.training.random_state import OwnRandom

from .. import helpers
from ..helpers import NER, TEXTCAT
from .tiny_training import write_config


TOK2VEC = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "pretrained_vectors": None,
    "width": 8,
    "depth": 1,
    "embed_size": 10,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": False,
}


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_loss_that_is_not_finite(loss):
    with pytest.raises(ValueError, match=rf"E624.*step 7: the loss of {NER} is {loss}.*learn_rate"):
        check_losses({TEXTCAT: 1.0, NER: loss}, 7)
    check_losses({TEXTCAT: 1.0, NER: 1e30}, 7)


def test_a_rate_that_is_far_too_high(tiny_checkpoint, tmp_path):
    """Not a loss made up: one that a real training comes to. What was saved before can be loaded."""
    config = write_config(tmp_path, tiny_checkpoint, max_steps=60, eval_frequency=100)
    overrides = {
        f"training.optimizer.{name}": {"@schedules": "constant.v1", "rate": 1e30} for name in ("learn_rate", "head_rate")
    }
    with pytest.raises(ValueError, match=r"E6(24|32).*learn_rate"):
        train(config, tmp_path / "out", overrides=overrides, silent=True)
    weights = helpers.weights_of(spacy.load(tmp_path / "out" / "model-best"))
    assert all(numpy.isfinite(value).all() for value in weights.values())


def test_labels_that_only_dev_has(trained):
    known = helpers.make_examples(trained)
    unknown = Example.from_dict(
        trained.make_doc("Ann Lee moved to Rome"), {"cats": {"travel": 1.0, "refund": 0.0}, "entities": [(17, 21, "CITY")]}
    )
    with pytest.warns(UserWarning, match="W601") as caught:
        warn_of_unknown_labels(trained, [*known, unknown, unknown])
    texts = [str(w.message) for w in caught]
    assert len(texts) == 2
    assert any("{'travel': 2}" in text and TEXTCAT in text for text in texts)
    assert any("{'CITY': 2}" in text and NER in text for text in texts)


def test_labels_of_which_none_is_known(trained):
    """As with `person` in one corpus and `PERSON` in the other."""
    texts = [("Ann Lee moved to Rome", {"cats": {"Refund": 1.0}, "entities": [(0, 7, "Person")]})]
    with pytest.warns(UserWarning, match="W601") as caught:
        warn_of_unknown_labels(trained, [Example.from_dict(trained.make_doc(text), gold) for text, gold in texts])
    assert [("'Refund': 1" in str(w.message), "'Person': 1" in str(w.message)) for w in caught] == [(True, False), (False, True)]


def test_labels_that_rules_know(trained, recwarn):
    """Rules know few labels and need not know more; what they know nobody has to learn."""
    ruler = trained.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "ORDER", "pattern": "SO-1"}])
    try:
        order = Example.from_dict(trained.make_doc("Where is SO-1"), {"entities": [(9, 13, "ORDER")]})
        warn_of_unknown_labels(trained, [*helpers.make_examples(trained), order])
    finally:
        trained.remove_pipe("entity_ruler")
    assert not recwarn.list


def test_averages_that_would_reach_nothing():
    nlp = spacy.blank("en")
    tagger = nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": TOK2VEC}})
    check_averages(nlp, create_adamw(0.1, use_averages=True), [])
    nlp.add_pipe("textcat").model.layers.append(PyTorchWrapper(nn.Linear(2, 2)))
    check_averages(nlp, create_adamw(0.1), [])
    check_averages(nlp, create_adamw(0.1, use_averages=True), ["textcat"])
    for optimizer in (create_adamw(0.1, use_averages=True), Adam(0.1, use_averages=True)):
        with pytest.raises(ValueError, match=r"E634.*textcat.*use_averages = false"):
            check_averages(nlp, optimizer, [])
    assert tagger.is_trainable


def test_labels_that_train_has_as_well(trained, recwarn):
    warn_of_unknown_labels(trained, helpers.make_examples(trained))
    assert not recwarn.list


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ({"cats_macro_f": 0.25, "cats_f_per_type": dict.fromkeys("abcd"), "ents_f": 0.4}, ["cats_macro_f"]),
        ({"cats_macro_f": 0.6, "cats_f_per_type": dict.fromkeys("abcd"), "ents_f": 0.0}, ["ents_f"]),
        ({"cats_macro_f": 0.26, "cats_f_per_type": dict.fromkeys("abcd"), "ents_f": 0.1}, []),
        ({"cats_macro_f": None, "ents_f": None}, []),
    ],
)
def test_scores_at_chance(scores, found, recwarn):
    warn_of_chance(scores, 2e-9, 400)
    texts = [str(w.message) for w in recwarn.list]
    assert len(texts) == bool(found)
    assert all("W602" in text and "step 400" in text and "2e-09" in text and "head_rate" in text for text in texts)
    assert all(name in text for text in texts for name in found)


def test_a_rate_that_is_far_too_low(tiny_checkpoint, tmp_path, monkeypatch):
    """Said once, at the first evaluation that is late enough."""
    monkeypatch.setattr(loop, "CHANCE_AFTER", 3)
    config = write_config(tmp_path, tiny_checkpoint, max_steps=6, eval_frequency=2)
    # Whole sentences, which weights that do not move never find by accident.
    docs = [eg.reference for eg in helpers.make_examples(spacy.blank("en"))]
    for doc in docs:
        doc.set_ents([Span(doc, 0, len(doc), label="PERSON")])
    DocBin(docs=docs).to_disk(tmp_path / "dev.spacy")
    overrides = {f"training.optimizer.{name}": 1e-12 for name in ("learn_rate", "head_rate")}
    overrides["paths.dev"] = str(tmp_path / "dev.spacy")
    with pytest.warns(UserWarning, match=r"W602.*step 4.*'ents_f': 0.0.*rate of the backbone is 1e-12") as caught:
        train(config, tmp_path / "out", overrides=overrides, silent=True)
    assert len(caught) == 1


@pytest.mark.parametrize("without", ["entities", "cats"])
def test_a_head_without_gradient(trained, without):
    """The annotation of one head is missing in every batch."""
    examples = helpers.make_examples(trained)
    for eg in examples:
        if without == "cats":
            eg.reference.cats = {}
        else:
            eg.reference.set_ents([], default="missing")
    watch = GradientWatch([TEXTCAT, NER])
    with pytest.warns(UserWarning, match="W603") as caught:
        for step in range(51):
            helpers.accumulate(trained, helpers.fresh(trained, examples)) if step in (0, 50) else None
            watch.look(trained, step)
    (text,) = [str(w.message) for w in caught]
    assert f"['{TEXTCAT if without == 'cats' else NER}']" in text
    assert "51 updates" in text


def test_a_batcher_that_leaves_documents_out():
    nlp = spacy.blank("en")

    def corpus(nlp):
        return [Example(doc, doc) for doc in map(nlp.make_doc, ["short", "a much longer text than that", "short too"])]

    def batcher(examples):
        return ([eg] for eg in examples if len(eg.reference) < 4)

    batches = make_batches(nlp, corpus, batcher, max_epochs=2, own_random=OwnRandom(random.getstate()))
    with pytest.warns(UserWarning, match=r"W604.*1 of 3 documents.*discard_oversize") as caught:
        assert len(list(batches)) == 4
    assert len(caught) == 1
