"""Labels, bad input, confidences and losses of the two heads."""

import math

import numpy
import pytest
import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from .. import helpers
from ..helpers import BACKBONE, ENCODER, LABELS, NER, TEXTCAT

HEADS = [TEXTCAT, NER]
# A pipeline that finds entities without having learned any: the first bias favours U-ORDER.
TEXT = "My order 4711 never arrived"


def example(nlp, text=TEXT, **gold):
    return Example.from_dict(nlp.make_doc(text), gold)


# Labels


def test_labels_come_from_the_data(trained):
    assert trained.get_pipe(TEXTCAT).labels == ("delivery", "refund", "thanks")
    assert trained.get_pipe(NER).labels == ("ORDER", "PERSON")
    assert trained.get_pipe(NER).model.get_dim("nO") == 9
    assert trained.pipe_labels[NER] == ["ORDER", "PERSON"]


@pytest.mark.parametrize("head", HEADS)
def test_label_data_initializes_again(make_nlp, trained, head, tmp_path):
    data = trained.get_pipe(head).label_data
    path = tmp_path / "labels.json"
    srsly.write_json(path, data)
    nlp = make_nlp([BACKBONE, head])
    nlp.config["initialize"]["components"][head] = {
        "labels": {"@readers": "spacy.read_labels.v1", "path": str(path), "require": True}
    }
    nlp.initialize()
    assert nlp.get_pipe(head).labels == trained.get_pipe(head).labels
    assert nlp(TEXT) is not None


def test_labels_given_are_the_only_ones(make_nlp):
    nlp = make_nlp([BACKBONE, NER])
    nlp.config["initialize"]["components"][NER] = {"labels": ["ORDER"]}
    nlp.initialize(lambda: helpers.make_examples(nlp))
    assert nlp.get_pipe(NER).labels == ("ORDER",)


@pytest.mark.parametrize("head", HEADS)
def test_add_label_before_initialize(make_nlp, head):
    nlp = make_nlp([BACKBONE, head])
    pipe = nlp.get_pipe(head)
    assert pipe.labels == ()
    assert [pipe.add_label("ZEBRA"), pipe.add_label("ZEBRA")] == [1, 0]
    nlp.initialize(lambda: helpers.make_examples(nlp))
    assert pipe.labels[0] == "ZEBRA"
    assert len(pipe.labels) == (4 if head == TEXTCAT else 3)
    alone = make_nlp([BACKBONE, head])
    alone.get_pipe(head).add_label("ONLY")
    alone.initialize()
    assert alone.get_pipe(head).labels == ("ONLY",)


@pytest.mark.parametrize("head", HEADS)
def test_add_label_after_initialize(trained, head):
    pipe = trained.get_pipe(head)
    assert pipe.add_label(pipe.labels[0]) == 0
    with pytest.raises(ValueError, match=rf"E304.*NEW.*{head}"):
        pipe.add_label("NEW")
    assert "NEW" not in pipe.labels


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("label", ["", 3, None])
def test_a_label_is_a_string(make_nlp, head, label):
    with pytest.raises(ValueError, match=rf"E306.*{head}"):
        make_nlp([BACKBONE, head]).get_pipe(head).add_label(label)


@pytest.mark.parametrize("head", HEADS)
def test_training_data_without_labels(make_nlp, head):
    nlp = make_nlp([BACKBONE, head])
    with pytest.raises(ValueError, match=rf"E302.*{head}.*add_label") as info:
        nlp.initialize(lambda: [example(nlp)])
    assert ("doc.cats" if head == TEXTCAT else "entity") in str(info.value)
    with pytest.raises(ValueError, match="E302"):
        make_nlp([BACKBONE, head]).initialize()


def test_training_data_without_any_cats(make_nlp):
    nlp = make_nlp()
    examples = [example(nlp, entities=[(9, 13, "ORDER")])]
    with pytest.raises(ValueError, match="E302.*attention_textcat.*no text of the training data has a class"):
        nlp.initialize(lambda: examples)


def test_empty_training_file(make_nlp, tmp_path):
    DocBin().to_disk(tmp_path / "empty.spacy")
    nlp = make_nlp()
    corpus = spacy.training.Corpus(tmp_path / "empty.spacy")
    with pytest.raises(ValueError, match=r"E307.*empty.*paths.train"):
        nlp.initialize(lambda: corpus(nlp))


# Bad gold


def test_unknown_class_at_update(trained):
    bad = example(trained, cats={"delivery": 1.0, "weather": 0.0})
    with pytest.raises(ValueError, match=r"E303.*'weather'.*attention_textcat.*My order 4711.*delivery"):
        helpers.accumulate(trained, [*helpers.make_examples(trained), bad])


def test_unknown_entity_label_at_update(trained):
    bad = example(trained, entities=[(9, 13, "PLANET")])
    with pytest.raises(ValueError, match=r"E303.*'PLANET'.*attention_ner.*My order 4711.*PERSON"):
        helpers.accumulate(trained, [*helpers.make_examples(trained), bad])


def test_unknown_entity_label_at_update_with_other_tokens(trained):
    reference = Doc(trained.vocab, words=["My", "or", "der", "4711"], spaces=[True, False, True, False])
    reference.set_ents([Span(reference, 3, 4, label="PLANET")])
    bad = Example(trained.make_doc(reference.text), reference)
    with pytest.raises(ValueError, match=r"E303.*'PLANET'"):
        trained.get_pipe(NER).loss_and_gradient([bad], scores_for(trained, [bad]))


def scores_for(nlp, examples):
    tokens = sum(len(eg.predicted) for eg in examples)
    labels = len(nlp.get_pipe(NER).labels)
    generator = numpy.random.default_rng(0)
    return (
        generator.normal(size=(tokens, 4 * labels + 1)).astype("float32"),
        generator.normal(size=(labels + 1, labels + 1)).astype("float32"),
    )


def test_two_true_classes_when_exclusive(trained):
    bad = example(trained, cats={"delivery": 1.0, "refund": 1.0, "thanks": 0.0})
    with pytest.raises(ValueError, match=r"E305.*'delivery', 'refund'.*My order 4711.*exclusive = false"):
        helpers.accumulate(trained, [bad])


def test_overlapping_gold_entities(trained):
    """As `doc.ents` spaCy refuses them where they are written; as a group of spans they are refused at `update`."""
    with pytest.raises(ValueError, match="E103"):
        example(trained, entities=[(0, 8, "ORDER"), (3, 13, "ORDER")])
    reference = trained.make_doc(TEXT)
    reference.spans["sc"] = [Span(reference, 0, 2, label="ORDER"), Span(reference, 1, 3, label="PERSON")]
    with pytest.raises(ValueError, match=r"E308.*doc.spans\['sc'\].*attention_ner.*My order 4711"):
        helpers.accumulate(trained, [Example(trained.make_doc(TEXT), reference)])


# What is not annotated adds nothing


def test_no_annotation_no_loss(trained):
    losses = helpers.accumulate(trained, [example(trained)] * 2)
    assert losses[TEXTCAT] == pytest.approx(0.0, abs=1e-6)
    assert losses[NER] == pytest.approx(0.0, abs=1e-4)
    assert all(abs(value).max() < 1e-5 for value in helpers.Recorder().finish(trained).values())


def test_annotated_as_having_none_does(trained):
    assert helpers.accumulate(trained, [example(trained, entities=[])])[NER] > 0.1


def test_losses_by_hand(trained):
    """Against the probabilities that the heads themselves predict."""
    doc = trained(TEXT)
    p = doc.cats
    for cats, expected in [
        ({"delivery": 1.0}, -math.log(p["delivery"])),
        ({"delivery": 1.0, "refund": 0.0, "thanks": 0.0}, -math.log(p["delivery"])),
        ({"refund": 0.0}, -math.log(1 - p["refund"])),
        ({"refund": 0.0, "thanks": 0.0}, -math.log(p["delivery"])),
        ({}, 0.0),
    ]:
        losses = helpers.accumulate(trained, [example(trained, cats=cats)])
        assert losses[TEXTCAT] == pytest.approx(expected, abs=1e-5), cats


def test_multilabel_losses_by_hand(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, TEXTCAT, exclusive=False)
    helpers.initialize(nlp)
    p = nlp(TEXT).cats
    assert sum(p.values()) != pytest.approx(1.0, abs=1e-2)
    losses = helpers.accumulate(nlp, [example(nlp, cats={"delivery": 1.0, "thanks": 1.0, "refund": 0.0})])
    expected = -math.log(p["delivery"]) - math.log(p["thanks"]) - math.log(1 - p["refund"])
    assert losses[TEXTCAT] == pytest.approx(expected, abs=1e-5)
    # An absent label contributes nothing.
    losses = helpers.accumulate(nlp, [example(nlp, cats={"refund": 0.0})])
    assert losses[TEXTCAT] == pytest.approx(-math.log(1 - p["refund"]), abs=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max", "attention"])
def test_poolings_train(tiny_checkpoint, pooling):
    from spacy_attention.training.optimizer import create_adamw

    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, TEXTCAT, pooling=pooling)
    helpers.initialize(nlp)
    totals = helpers.train(nlp, helpers.make_examples(nlp), create_adamw(2e-3), 10)
    assert totals[-1] < 0.7 * totals[0]


def test_unknown_pooling(tiny_checkpoint):
    with pytest.raises(ValueError, match="E301.*mean.*'middle'"):
        helpers.add_head(spacy.blank("en"), TEXTCAT, pooling="middle")


@pytest.mark.parametrize("factory", HEADS)
def test_unknown_precision(factory):
    with pytest.raises(ValueError, match="E301.*'precision'.*auto.*'float16'"):
        helpers.add_head(spacy.blank("en"), factory, precision="float16")


def heads_in(precision, checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, checkpoint)
    for factory in HEADS:
        helpers.add_head(nlp, factory, precision=precision)
    helpers.initialize(nlp)
    return nlp


@pytest.mark.parametrize("factory", HEADS)
def test_bfloat16_is_close_and_float32_outside(tiny_checkpoint, factory):
    exact, lower = heads_in("float32", tiny_checkpoint), heads_in("bfloat16", tiny_checkpoint)

    def scores(nlp, is_train):
        docs = [nlp.get_pipe(BACKBONE)(nlp.make_doc(text)) for text, _, _ in helpers.SENTENCES]
        Y, _ = nlp.get_pipe(factory).model(docs, is_train)
        return Y if isinstance(Y, tuple) else (Y,)

    for is_train in (False, True):
        pairs = list(zip(scores(exact, is_train), scores(lower, is_train), strict=True))
        assert all(low.dtype == numpy.float32 for _, low in pairs)
        # In training a head computes in float32 on a CPU.
        assert all(numpy.array_equal(full, low) for full, low in pairs) == is_train
        for full, low in pairs:
            numpy.testing.assert_allclose(low, full, atol=0.02 * abs(full).max())


def test_heads_of_precision_bfloat16_train(tiny_checkpoint):
    from spacy_attention.training.optimizer import create_adamw

    nlp = heads_in("bfloat16", tiny_checkpoint)
    totals = helpers.train(nlp, helpers.make_examples(nlp), create_adamw(2e-3), 10)
    assert totals[-1] < 0.7 * totals[0]


def test_cats_of_other_components_stay(trained):
    doc = trained.make_doc(TEXT)
    doc.cats["from elsewhere"] = 0.25
    doc = trained(doc)
    assert doc.cats["from elsewhere"] == 0.25
    assert set(doc.cats) == {*LABELS, "from elsewhere"}
    assert all(type(value) is float for value in doc.cats.values())


# Confidences


@pytest.fixture
def finder(trained) -> Language:
    """Finds a one-token ORDER almost everywhere, with probabilities that are neither 0 nor 1."""
    from spacy_attention.nn.tags import tag_names

    (shim,) = helpers.torch_shims(trained.get_pipe(NER).model)
    column = tag_names(trained.get_pipe(NER).labels).index("U-ORDER")
    shim.module.linear.bias.data[column] += 4.0
    return trained


def test_confidence_is_a_python_float_and_equals_the_group(finder):
    doc = finder(TEXT)
    assert len(doc.ents) > 1
    confidences = [ent._.confidence for ent in doc.ents]
    assert all(type(p) is float and 0.0 <= p <= 1.0 for p in confidences)
    assert 0.0 < min(confidences) < 1.0
    group = doc.spans[NER]
    assert group.attrs["scores"] == confidences
    assert [(s.start, s.end, s.label) for s in group] == [(s.start, s.end, s.label) for s in doc.ents]
    # A span that is no entity has none.
    assert doc[0:2]._.confidence is None


def test_confidence_is_the_probability_of_the_span(finder):
    """Against the loss of a text in which only this span is annotated: -log of the same probability."""
    doc = finder(TEXT)
    for ent in doc.ents:
        reference = finder.make_doc(TEXT)
        others = [reference[i : i + 1] for i in range(len(doc)) if not ent.start <= i < ent.end]
        reference.set_ents([Span(reference, ent.start, ent.end, label=ent.label_)], missing=others)
        losses = helpers.accumulate(finder, [Example(finder.make_doc(TEXT), reference)])
        assert math.exp(-losses[NER]) == pytest.approx(ent._.confidence, abs=1e-5)


def confidences(doc):
    return [ent._.confidence for ent in doc.ents]


def test_confidence_survives_to_bytes(finder):
    doc = finder(TEXT)
    again = Doc(finder.vocab).from_bytes(doc.to_bytes(exclude=["tensor"]))
    assert confidences(again) == confidences(doc)
    assert again.spans[NER].attrs["scores"] == confidences(doc)


@pytest.mark.parametrize("store_user_data", [True, False])
def test_confidence_survives_docbin(finder, store_user_data):
    doc = finder(TEXT)
    binary = DocBin(docs=[doc], store_user_data=store_user_data).to_bytes()
    (again,) = DocBin().from_bytes(binary).get_docs(spacy.blank("en").vocab)
    assert again.spans[NER].attrs["scores"] == confidences(doc)
    assert [(s.start, s.end, s.label_) for s in again.spans[NER]] == [(s.start, s.end, s.label_) for s in doc.ents]
    assert confidences(again) == (confidences(doc) if store_user_data else [None] * len(doc.ents))


def test_confidence_survives_to_json(finder):
    doc = finder(TEXT)
    data = doc.to_json(underscore=["confidence"])
    srsly.json_dumps(data)
    stored = [entry["value"] for entry in data["underscore_span"]["confidence"]]
    assert sorted(stored) == sorted(confidences(doc))


def test_confidence_is_renewed(finder):
    doc = finder(TEXT)
    (shim,) = helpers.torch_shims(finder.get_pipe(NER).model)
    first = confidences(doc)
    keys = set(doc.user_data)
    shim.module.linear.bias.data[0] += 1.0
    doc = finder.get_pipe(NER)(doc)
    second = confidences(doc)
    assert second != first
    assert doc.spans[NER].attrs["scores"] == second
    # With an overwhelming O there is no entity, and nothing is left of those of before.
    shim.module.linear.bias.data[0] += 100.0
    doc = finder.get_pipe(NER)(doc)
    assert doc.ents == ()
    assert len(doc.spans[NER]) == 0
    assert doc.spans[NER].attrs["scores"] == []
    assert not [key for key in doc.user_data if key[:2] == ("._.", "confidence")]
    assert keys != set(doc.user_data)


def test_group_carries_the_name_of_the_component(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, NER, name="names")
    helpers.initialize(nlp)
    assert list(nlp(TEXT).spans) == ["names"]


def test_get_loss_equals_update(trained):
    examples = helpers.make_examples(trained)
    scores = scores_for(trained, examples)
    loss, gradient = trained.get_pipe(NER).get_loss(examples, scores)
    again, _ = trained.get_pipe(NER).loss_and_gradient(examples, scores)
    assert loss == again > 0
    assert [g.shape for g in gradient] == [s.shape for s in scores]


@pytest.mark.parametrize("name", [BACKBONE, ENCODER])
def test_shared_components_have_no_labels(trained, name):
    assert name not in trained.pipe_labels or trained.pipe_labels[name] == []
    with pytest.raises(NotImplementedError):
        trained.get_pipe(name).add_label("X")


@pytest.mark.parametrize("head", [TEXTCAT, NER])
def test_settings_come_back_from_disk_to_the_last_bit(make_nlp, tmp_path, head):
    """spaCy's reader of JSON makes 0.30000000000000004 of 0.3."""
    nlp = make_nlp([BACKBONE, head])
    helpers.initialize(nlp)
    settings = {"temperature": 3.66457, "threshold": 0.3, "thresholds": {"refund": 0.07}}
    nlp.get_pipe(head).cfg.update(settings)
    nlp.to_disk(tmp_path / "model")
    assert spacy.load(tmp_path / "model").get_pipe(head).cfg == nlp.get_pipe(head).cfg
    again = spacy.load(tmp_path / "model")
    again.get_pipe(head).cfg["temperature"] = 1.0
    again.from_bytes(nlp.to_bytes())
    assert again.get_pipe(head).cfg == nlp.get_pipe(head).cfg
    kept = nlp.get_pipe(head).cfg
    kept["temperature"] = 9.0
    nlp.get_pipe(head).from_disk(tmp_path / "model" / head, exclude=["cfg", "vocab"])
    assert nlp.get_pipe(head).temperature == 9.0
