"""Evaluation in training gives spaCy's scores and keeps no vectors."""

import pytest
from spacy.training import Example

from spacy_attention.training import evaluation

from .. import helpers

WEIGHTS = {"cats_score": 0.5, "ents_f": 0.5, "ents_p": None}


@pytest.fixture
def corpus(trained):
    """More documents than a batch, of very different lengths; one of them empty."""
    texts = [(" ".join([text] * n), ents, label) for n in (1, 7, 2) for text, ents, label in helpers.SENTENCES]
    examples = helpers.make_examples(trained, texts)
    examples.append(Example(trained.make_doc(""), trained.make_doc("")))
    return examples


def test_the_same_scores_as_spacys(trained, corpus, monkeypatch):
    monkeypatch.setattr(trained, "batch_size", 4)
    expected = trained.evaluate(corpus)
    score, found = evaluation.create_evaluation(trained, lambda nlp: corpus, WEIGHTS)()
    speeds = found.pop("speed"), expected.pop("speed")
    assert min(speeds) > 0
    for name in ("cats_ece", "cats_brier", "ents_ece", "ents_brier"):
        # Made of probabilities, whose last digits depend on the batch.
        assert found.pop(name) == pytest.approx(expected.pop(name), abs=1e-6)
    assert found == {name: value for name, value in expected.items() if value is not None}
    assert score == pytest.approx((expected["cats_score"] + expected["ents_f"]) / 2)
    assert all(not eg.predicted.ents and not eg.predicted.cats for eg in corpus)


def test_no_vectors_are_kept(trained, corpus, monkeypatch):
    kept = []
    monkeypatch.setattr(evaluation.Scorer, "score", lambda self, examples: kept.extend(examples) or {})
    evaluation.create_evaluation(trained, lambda nlp: corpus, WEIGHTS)()
    assert len(kept) == len(corpus)
    assert any(eg.predicted.cats for eg in kept)
    for eg in kept:
        assert eg.predicted.tensor.size == 0
        assert eg.predicted._.trf_data is None
    lengths = [len(eg.predicted) for eg in kept]
    assert lengths == sorted(lengths)
