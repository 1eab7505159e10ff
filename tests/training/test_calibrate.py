import warnings

import numpy
import pytest
import spacy
import torch
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config, registry

from spacy_attention.training.calibrate import calibrate, create_calibrate
from spacy_attention.training.in_order import create_in_order

from .. import helpers
from ..helpers import BACKBONE, NER, TEXTCAT
from .tiny_training import write_config


@pytest.fixture
def nlp(make_nlp):
    """Knows its examples by heart."""
    pipeline = make_nlp([BACKBONE, TEXTCAT, NER])
    optimizer = helpers.initialize(pipeline)
    optimizer.learn_rate = 0.01
    helpers.train(pipeline, helpers.make_examples(pipeline), optimizer, 40)
    return pipeline


def dev(nlp):
    """What the pipeline knows, but for one class and one entity."""
    examples = helpers.make_examples(nlp)
    examples[0].reference.cats = {"thanks": 1.0, "refund": 0.0, "delivery": 0.0}
    examples[1].reference.set_ents([])
    return examples


def sharpen(nlp, factor):
    for head in (TEXTCAT, NER):
        module = nlp.get_pipe(head).model.get_ref("layer").shims[0].module
        with torch.no_grad():
            for parameter in (*module.linear.parameters(), *([module.transitions] if head == NER else [])):
                parameter *= factor


def test_temperature_undoes_a_scale(nlp):
    once = calibrate(nlp, dev)
    sharpen(nlp, 2.0)
    twice = calibrate(nlp, dev)
    for head in (TEXTCAT, NER):
        cooler, warmer = once.get_pipe(head).temperature, twice.get_pipe(head).temperature
        assert cooler > 1.5
        assert warmer == pytest.approx(2.0 * cooler, rel=1e-2)


def test_calibrated_probabilities_have_the_least_loss(nlp):
    calibrated = calibrate(nlp, dev)

    def loss(pipeline, head):
        examples = [Example(pipeline(eg.text), eg.reference) for eg in dev(nlp)]
        if head == TEXTCAT:
            return -sum(numpy.log(eg.predicted.cats[max(eg.reference.cats, key=eg.reference.cats.get)]) for eg in examples)
        ner = pipeline.get_pipe(NER)
        emissions, transitions = (x / ner.temperature for x in ner.model.predict([eg.predicted for eg in examples]))
        return ner.get_loss(examples, (emissions, transitions))[0]

    for head in (TEXTCAT, NER):
        fitted = calibrated.get_pipe(head).temperature
        best = loss(calibrated, head)
        for other in (0.5 * fitted, 0.9 * fitted, 1.1 * fitted, 2.0 * fitted):
            calibrated.get_pipe(head).cfg["temperature"] = other
            assert loss(calibrated, head) > best
        calibrated.get_pipe(head).cfg["temperature"] = fitted


def test_the_pipeline_in_training_stays_as_it_is(nlp):
    texts = [eg.text for eg in dev(nlp)]
    before, config = [nlp(text).to_bytes() for text in texts], nlp.config.to_str()
    calibrated = calibrate(nlp, dev)
    assert [nlp(text).to_bytes() for text in texts] == before
    assert nlp.config.to_str() == config == calibrated.config.to_str()
    for head in (TEXTCAT, NER):
        assert calibrated.get_pipe(head).model is nlp.get_pipe(head).model
        assert "temperature" not in nlp.get_pipe(head).cfg
    # What is best stays best; how sure it is changes.
    for text in texts:
        doc, other = nlp(text), calibrated(text)
        assert [(e.start, e.end, e.label_) for e in doc.ents] == [(e.start, e.end, e.label_) for e in other.ents]
        assert doc._.classes == other._.classes
        assert doc.cats != other.cats


def test_calibration_is_saved(nlp, tmp_path):
    calibrated = calibrate(nlp, dev)
    calibrated.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    for head in (TEXTCAT, NER):
        assert loaded.get_pipe(head).temperature == calibrated.get_pipe(head).temperature != 1.0
    assert loaded("Ann Lee").cats == pytest.approx(calibrated("Ann Lee").cats, abs=1e-6)


def test_thresholds_where_several_classes_can_hold(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    helpers.add_head(nlp, TEXTCAT, exclusive=False)
    examples = helpers.make_examples(nlp)
    for eg in examples:
        eg.reference.cats = {**eg.reference.cats, "never": 0.0}
    helpers.initialize(nlp, examples)
    calibrated = calibrate(nlp, lambda _: helpers.fresh(nlp, examples))
    textcat = calibrated.get_pipe(TEXTCAT)
    # Nothing in dev says where the threshold of `never` should be.
    assert set(textcat.cfg["thresholds"]) == set(helpers.LABELS)
    before, after = nlp.evaluate(helpers.fresh(nlp, examples)), calibrated.evaluate(helpers.fresh(nlp, examples))
    for label in helpers.LABELS:
        assert after["cats_f_per_type"][label]["f"] >= before["cats_f_per_type"][label]["f"]
    assert after["cats_macro_f"] > before["cats_macro_f"]
    doc = calibrated("thanks a lot")
    least = {**textcat.cfg["thresholds"], "never": 0.5}
    assert doc._.classes[TEXTCAT] == [label for label, p in doc.cats.items() if p >= least[label]]


def test_what_can_never_be_predicted_is_left_out(nlp):
    strange = Example.from_dict(nlp.make_doc("a cat"), {"entities": [(2, 5, "ANIMAL")], "cats": {"pets": 1.0, "refund": 0.0}})
    expected, found = calibrate(nlp, dev), calibrate(nlp, lambda nlp: [*dev(nlp), strange])
    assert found.get_pipe(NER).temperature == pytest.approx(expected.get_pipe(NER).temperature, rel=1e-3)
    # That it is no refund is known, though, and counts.
    refund = Example.from_dict(nlp.make_doc("a cat"), {"cats": {"refund": 0.0}})
    counted = calibrate(nlp, lambda nlp: [*dev(nlp), refund]).get_pipe(TEXTCAT).temperature
    assert found.get_pipe(TEXTCAT).temperature == pytest.approx(counted, rel=1e-3)
    # Alone in a batch, and cats that no update would take.
    nlp.batch_size = 1
    strange.reference.cats = {"refund": 0.7, "thanks": 0.3}
    again = calibrate(nlp, lambda nlp: [*dev(nlp), strange])
    for head in (TEXTCAT, NER):
        assert again.get_pipe(head).temperature == pytest.approx(expected.get_pipe(head).temperature, rel=1e-3)


def test_the_examples_of_a_reader_stay_as_they_are(nlp):
    examples = dev(nlp)
    texts = [eg.predicted.text for eg in examples]
    once, twice = (calibrate(nlp, lambda nlp: examples) for _ in range(2))
    assert [eg.predicted.text for eg in examples] == texts
    assert not any(eg.predicted.cats or eg.predicted.ents for eg in examples)
    assert once.get_pipe(NER).temperature == twice.get_pipe(NER).temperature != 1.0


def test_a_component_between_two_heads_finds_the_predictions_of_the_first(nlp):
    seen = []

    @spacy.Language.component("reads_classes")
    def reads_classes(doc):
        seen.append(doc._.classes[TEXTCAT][0])
        return doc

    nlp.add_pipe("reads_classes", after=TEXTCAT)
    calibrate(nlp, dev)
    assert len(seen) == len(dev(nlp))


def test_without_annotation_it_says_so(nlp):
    unknown = [Example(nlp.make_doc("Ann"), nlp.make_doc("Ann"))]
    with pytest.warns(UserWarning, match="W301") as caught:
        calibrated = calibrate(nlp, lambda _: unknown)
    assert len(caught) == 2
    assert calibrated.get_pipe(NER).temperature == 1.0
    with pytest.warns(UserWarning, match="W301"):
        calibrate(nlp, lambda _: [])


def test_a_pipeline_without_heads_of_ours():
    nlp = spacy.blank("en")
    assert calibrate(nlp, lambda _: []) is nlp


def test_training_saves_a_calibrated_pipeline(tmp_path, tiny_checkpoint):
    config = load_config(write_config(tmp_path, tiny_checkpoint, max_steps=4, eval_frequency=2))
    pipeline = init_nlp(config)
    (tmp_path / "out").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(pipeline, tmp_path / "out")
    loaded = spacy.load(tmp_path / "out" / "model-last")
    for head in (TEXTCAT, NER):
        assert loaded.get_pipe(head).temperature != 1.0
        assert pipeline.get_pipe(head).temperature == 1.0


def test_several_callbacks_in_order():
    called = []
    make = lambda name: lambda nlp: (called.append(name), f"{nlp}{name}")[1]  # noqa: E731
    assert create_in_order(make("a"), make("b"))("nlp") == "nlpab"
    assert called == ["a", "b"]
    block = {"before": {"@callbacks": "spacy-attention.in_order.v1", "*": {}}}
    nlp = spacy.blank("en")
    assert registry.resolve(block)["before"](nlp) is nlp


def test_frozen_heads_stay_as_they_are(nlp):
    nlp.config["training"] = {"frozen_components": "${vars.frozen}"}
    nlp.config["vars"] = {"frozen": [NER]}
    calibrated = create_calibrate(dev)(nlp)
    assert calibrated.get_pipe(NER) is nlp.get_pipe(NER)
    assert calibrated.get_pipe(TEXTCAT).temperature != 1.0
