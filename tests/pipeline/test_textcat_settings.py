"""Poolings, weights of classes and tokens, smoothing, and several classifiers in one pipeline."""

import numpy
import pytest
import spacy
import torch
from spacy.training import Example

from .. import helpers
from ..helpers import BACKBONE, LABELS, LISTENER, NER, TEXTCAT

TEXTS = ["Ann Lee wants her money back", "", "thanks", " \n ", "My order 4711 never arrived " * 20]


def classifier(checkpoint, *, examples=None, encoder=False, window=256, **config):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, checkpoint, window=window, stride=window - 32)
    if encoder:
        helpers.add_encoder(nlp)
    helpers.add_head(nlp, TEXTCAT, **config)
    helpers.initialize(nlp, examples)
    return nlp


def with_cats(nlp, cats):
    return [Example.from_dict(nlp.make_doc(f"text {i}"), {"cats": x}) for i, x in enumerate(cats)]


@pytest.mark.parametrize("pooling", ["mean", "max", "attention", "cls", "label"])
def test_every_pooling_learns_saves_and_takes_odd_documents(tiny_checkpoint, tmp_path, pooling):
    nlp = classifier(tiny_checkpoint, pooling=pooling)
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.02
    helpers.train(nlp, helpers.make_examples(nlp), optimizer, 60)
    for eg in helpers.make_examples(nlp):
        assert max(nlp(eg.text).cats, key=nlp(eg.text).cats.get) == max(eg.reference.cats, key=eg.reference.cats.get)
    nlp.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    for doc, again in zip(nlp.pipe(TEXTS), map(loaded, TEXTS), strict=True):
        assert doc.cats == pytest.approx(again.cats, abs=1e-5)
        assert sum(doc.cats.values()) == pytest.approx(1.0, abs=1e-5)


def test_cls_reads_the_first_piece_alone_in_training_and_prediction(tiny_checkpoint):
    nlp = classifier(tiny_checkpoint, pooling="cls")
    doc = nlp("Ann Lee wants her money back")
    module = nlp.get_pipe(TEXTCAT).model.get_ref("layer").shims[0].module
    first = torch.as_tensor(doc._.trf_data.model_output.last_hidden_state[0, 0])
    expected = module.linear(first).softmax(-1).tolist()
    assert list(doc.cats.values()) == pytest.approx(expected, abs=1e-6)
    eg = helpers.make_examples(nlp)[0]
    loss = helpers.accumulate(nlp, [eg])[TEXTCAT]
    assert loss == pytest.approx(-numpy.log(nlp(eg.text).cats["refund"]), abs=1e-4)


def test_cls_beside_heads_on_tokens_adds_their_gradients(tiny_checkpoint):
    def gradients(*heads):
        nlp = spacy.blank("en")
        helpers.add_backbone(nlp, tiny_checkpoint)
        for head in (TEXTCAT, NER):
            helpers.add_head(nlp, head, pooling="cls" if head == TEXTCAT else None)
        helpers.initialize(nlp)
        examples = helpers.make_examples(nlp)
        nlp.get_pipe(BACKBONE).update(examples)
        for head in heads:
            nlp.get_pipe(head).update(examples)
        nlp.get_pipe(BACKBONE).send_gradients()
        (shim,) = helpers.torch_shims(nlp.get_pipe(BACKBONE).model)
        found = {name: p.grad for name, p in shim.module.named_parameters() if p.grad is not None}
        return {name: g.to_dense() for name, g in found.items()}

    together, textcat, ner = gradients(TEXTCAT, NER), gradients(TEXTCAT), gradients(NER)
    assert together
    for name, gradient in together.items():
        apart = textcat.get(name, torch.zeros_like(gradient)) + ner.get(name, torch.zeros_like(gradient))
        torch.testing.assert_close(gradient, apart, atol=1e-5, rtol=1e-4)


def test_cls_stands_alone_after_replacing_the_listener(tiny_checkpoint, tmp_path):
    nlp = classifier(tiny_checkpoint, pooling="cls")
    before = [doc.cats for doc in nlp.pipe(TEXTS)]
    nlp.replace_listeners(BACKBONE, TEXTCAT, ["model.tok2vec"])
    nlp.remove_pipe(BACKBONE)
    nlp.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    for cats, text in zip(before, TEXTS, strict=True):
        assert loaded(text).cats == pytest.approx(cats, abs=1e-5)


def test_rows_of_documents_where_there_are_none(tiny_checkpoint):
    with pytest.raises(ValueError, match="E207"):
        classifier(tiny_checkpoint, encoder=True, pooling="cls")
    with pytest.raises(ValueError, match="E311"):
        helpers.add_head(spacy.blank("en"), TEXTCAT, helpers.EMBED, pooling="cls")
    for add in (lambda nlp, x: helpers.add_head(nlp, NER, x), lambda nlp, x: helpers.add_encoder(nlp, x)):
        with pytest.raises(ValueError, match="E312"):
            add(spacy.blank("en"), {**LISTENER, "document_row": True})


@pytest.mark.parametrize("pooling", ["attention", "label"])
def test_weights_of_tokens(tiny_checkpoint, pooling):
    nlp = classifier(tiny_checkpoint, pooling=pooling, store_attention=True)
    module = nlp.get_pipe(TEXTCAT).model.get_ref("layer").shims[0].module
    for doc in nlp.pipe(TEXTS):
        weights = doc._.cats_attention
        assert set(weights) == set(LABELS)
        for label in LABELS:
            assert weights[label].shape == (len(doc),)
            assert weights[label].dtype == numpy.float32
            assert not len(doc) or weights[label].sum() == pytest.approx(1.0, abs=1e-5)
        again = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
        numpy.testing.assert_array_equal(again._.cats_attention["refund"], weights["refund"])
    # The class is the linear score of the mean that these weights give.
    doc = nlp(TEXTS[0])
    vectors = torch.as_tensor(nlp.get_pipe(BACKBONE).read_vectors([doc]).dataXd)
    logits = [
        torch.as_tensor(doc._.cats_attention[label]) @ vectors @ module.linear.weight[i] + module.linear.bias[i]
        for i, label in enumerate(LABELS)
    ]
    assert list(doc.cats.values()) == pytest.approx(torch.stack(logits).softmax(-1).tolist(), abs=1e-5)


def test_weights_of_tokens_are_only_stored_when_asked_for(tiny_checkpoint):
    assert classifier(tiny_checkpoint, pooling="label")("Ann")._.cats_attention is None
    with pytest.raises(ValueError, match="E318"):
        helpers.add_head(spacy.blank("en"), TEXTCAT, pooling="mean", store_attention=True)


CATS = [{"a": 1.0, "b": 0.0}] * 3 + [{"a": 0.0, "b": 1.0}]


def test_balanced_weights_by_hand(tiny_checkpoint):
    examples = with_cats(spacy.blank("en"), CATS)
    nlp = classifier(tiny_checkpoint, examples=examples, class_weights="balanced")
    # Four texts, two classes: 4 / (2 * 3) and 4 / (2 * 1).
    assert nlp.get_pipe(TEXTCAT).cfg["weights"][1] == pytest.approx([2 / 3, 2.0])
    loss = helpers.accumulate(nlp, examples)[TEXTCAT]
    cats = [nlp(eg.text).cats for eg in examples]
    expected = sum(-numpy.log(x["a"]) for x in cats[:3]) * 2 / 3 - 2.0 * numpy.log(cats[3]["b"])
    assert loss == pytest.approx(expected, rel=1e-3)


def test_balanced_weights_of_several_labels_by_hand(tiny_checkpoint):
    examples = with_cats(spacy.blank("en"), [{"a": 1.0, "b": 0.0}, {"a": 1.0}, {"a": 0.0, "b": 0.0}])
    nlp = classifier(tiny_checkpoint, examples=examples, exclusive=False, class_weights="balanced")
    # a: wrong once, right twice. b: wrong twice, right never, which has no weight to balance.
    assert nlp.get_pipe(TEXTCAT).cfg["weights"] == [pytest.approx([1.5, 0.5]), pytest.approx([0.75, 1.0])]


def test_weights_by_label_are_kept_and_checked(tiny_checkpoint, tmp_path):
    examples = with_cats(spacy.blank("en"), CATS)
    nlp = classifier(tiny_checkpoint, examples=examples, class_weights={"b": 5.0})
    assert nlp.get_pipe(TEXTCAT).cfg["weights"][1] == [1.0, 5.0]
    nlp.to_disk(tmp_path / "model")
    assert spacy.load(tmp_path / "model").get_pipe(TEXTCAT).cfg["weights"][1] == [1.0, 5.0]
    with pytest.raises(ValueError, match="E315"):
        classifier(tiny_checkpoint, examples=examples, class_weights={"c": 5.0})


@pytest.mark.parametrize(
    ("code", "config"),
    [
        ("E309", {"threshold": 1.1}),
        ("E309", {"threshold": -0.5}),
        ("E314", {"class_weights": "balance"}),
        ("E314", {"class_weights": {"a": -1.0}}),
        ("E317", {"label_smoothing": 1.0}),
        ("E317", {"label_smoothing": -0.1}),
    ],
)
def test_settings_that_cannot_be(code, config):
    with pytest.raises(ValueError, match=code):
        helpers.add_head(spacy.blank("en"), TEXTCAT, **config)


@pytest.mark.parametrize(
    ("code", "exclusive", "cats"),
    [
        ("E305", True, {"refund": 1.0, "thanks": 1.0}),
        ("E313", True, {"refund": 0.5}),
        ("E313", True, {"refund": 2.0}),
        ("E313", False, {"refund": 1.5}),
        ("E313", False, {"refund": float("nan")}),
        ("E303", True, {"praise": 1.0}),
    ],
)
def test_annotation_that_cannot_be(tiny_checkpoint, code, exclusive, cats):
    nlp = classifier(tiny_checkpoint, exclusive=exclusive)
    with pytest.raises(ValueError, match=code) as caught:
        nlp.update(with_cats(nlp, [{"refund": 1.0}, cats]))
    # Which text, which label, which component.
    assert all(part in str(caught.value) for part in ("text 1", next(iter(cats)), TEXTCAT))


def test_a_label_added_after_training(tiny_checkpoint):
    nlp = classifier(tiny_checkpoint)
    with pytest.raises(ValueError, match="E304.*praise|praise.*E304"):
        nlp.get_pipe(TEXTCAT).add_label("praise")


def two_classifiers(checkpoint, labels):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, checkpoint)
    for name in labels:
        helpers.add_head(nlp, TEXTCAT, name=name)
    nlp.config["initialize"]["components"] = {name: {"labels": x} for name, x in labels.items() if x}
    examples = with_cats(nlp, [{"late": 1.0, "broken": 0.0, "angry": 1.0, "calm": 0.0}, {"broken": 1.0, "calm": 1.0}])
    helpers.initialize(nlp, examples)
    return nlp, examples


def test_several_classifiers_keep_to_their_own_labels(tiny_checkpoint):
    labels = {"topic": ["late", "broken"], "tone": ["angry", "calm"]}
    nlp, examples = two_classifiers(tiny_checkpoint, labels)
    losses = helpers.accumulate(nlp, examples)
    assert losses["topic"] > 0.0
    assert losses["tone"] > 0.0
    doc = nlp("late again")
    assert list(doc.cats) == [*labels["topic"], *labels["tone"]]
    for name, own in labels.items():
        assert sum(doc.cats[label] for label in own) == pytest.approx(1.0, abs=1e-5)
        assert doc._.classes[name] == [max(own, key=doc.cats.get)]
    scores = nlp.evaluate(examples)
    assert set(scores["cats_f_per_type"]) == set(labels["tone"])
    with pytest.raises(ValueError, match="E303"):
        nlp.update(with_cats(nlp, [{"typo": 1.0}]))


def test_several_classifiers_with_the_same_labels(tiny_checkpoint):
    with pytest.raises(ValueError, match="E316"):
        two_classifiers(tiny_checkpoint, {"topic": None, "tone": None})


def test_smoothed_labels_are_less_sure(tiny_checkpoint):
    def surest(label_smoothing):
        nlp = classifier(tiny_checkpoint, label_smoothing=label_smoothing)
        optimizer = nlp.resume_training()
        optimizer.learn_rate = 0.02
        helpers.train(nlp, helpers.make_examples(nlp), optimizer, 60)
        return max(max(nlp(eg.text).cats.values()) for eg in helpers.make_examples(nlp))

    assert surest(0.0) > 0.95 > surest(0.3)


def test_labels_of_other_classifiers_that_no_text_of_the_sample_has(tiny_checkpoint, tmp_path):
    """As in training from a stream, and in training that goes on."""
    labels = {"topic": ["late", "broken"], "tone": ["angry", "calm", "sad"]}
    nlp, _ = two_classifiers(tiny_checkpoint, labels)
    nlp.to_disk(tmp_path / "model")
    for pipeline in (nlp, spacy.load(tmp_path / "model")):
        pipeline.resume_training()
        losses = pipeline.update(with_cats(pipeline, [{"sad": 1.0, "late": 1.0}]))
        assert losses["topic"] > 0.0
        assert losses["tone"] > 0.0
        with pytest.raises(ValueError, match="E303"):
            pipeline.update(with_cats(pipeline, [{"typo": 1.0}]))


def test_a_classifier_that_comes_later(tiny_checkpoint):
    nlp = classifier(tiny_checkpoint, name="topic", examples=with_cats(spacy.blank("en"), [{"late": 1.0, "broken": 0.0}]))
    examples = with_cats(nlp, [{"late": 1.0, "broken": 0.0, "angry": 1.0, "calm": 0.0}])
    later = helpers.add_head(nlp, TEXTCAT, name="tone") or nlp.get_pipe("tone")
    later.initialize(lambda: examples, nlp=nlp, labels=["angry", "calm"])
    losses = nlp.update(examples)
    assert losses["topic"] > 0.0
    assert losses["tone"] > 0.0


def test_scores_of_each_of_several_classifiers(tiny_checkpoint):
    nlp, examples = two_classifiers(tiny_checkpoint, {"topic": ["late", "broken"], "tone": ["angry", "calm"]})
    scores = nlp.evaluate(examples)
    predicted = [Example(nlp(eg.text), eg.reference) for eg in examples]
    for name, own in {"topic": {"late", "broken"}, "tone": {"angry", "calm"}}.items():
        assert set(scores[f"{name}_cats_f_per_type"]) == own
        right = [predicted[0].predicted._.classes[name] == [x for x in own if examples[0].reference.cats[x]]]
        right += [(predicted[1].predicted._.classes[name][0] in examples[1].reference.cats)]
        assert scores[f"{name}_cats_micro_r"] == sum(right) / 2
    alone = classifier(tiny_checkpoint)
    assert not any(key.startswith(TEXTCAT) for key in alone.evaluate(helpers.make_examples(alone)))


def test_a_stock_classifier_beside_ours_is_pointed_out(tiny_checkpoint):
    nlp = spacy.blank("en")
    nlp.add_pipe("textcat_multilabel", name="stock")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, TEXTCAT, name="ours")
    nlp.config["initialize"]["components"] = {"ours": {"labels": ["a", "b"]}, "stock": {"labels": ["c", "d"]}}
    with pytest.warns(UserWarning, match="W302.*stock"):
        helpers.initialize(nlp, with_cats(nlp, [{"a": 1.0, "b": 0.0, "c": 1.0}, {"b": 1.0}]))
    assert set(nlp("some text").cats) == {"a", "b", "c", "d"}
    # Also the one that no text has.
    assert nlp.get_pipe("ours").cfg["other_labels"] == ["c", "d"]


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_cls_needs_a_piece_before_the_text(family_folder, family):
    with pytest.raises(ValueError, match="E207.*GPT-2"):
        classifier(family_folder(family), pooling="cls", window=64)
