"""Documents of every shape, alone and in the middle of a batch, in training and in `nlp.pipe`."""

import math

import pytest
from spacy.training import Example

from .. import helpers
from ..helpers import BACKBONE, ENCODER, NER, TEXTCAT

LONG = " ".join(f"item {i} for Ann costs {i % 97}" for i in range(334))
ODD = {
    "empty": "",
    "space": " ",
    "whitespace": "\n\n  \t ",
    "one token": "Ann",
    "no pieces": "\u200b",
    "unknown": "漢字 🙂 ☃",
    "special": "[CLS] Ann [SEP] [PAD]",
    "2,000 tokens": LONG,
}
ORDINARY = [text for text, _, _ in helpers.SENTENCES[:2]]


def odd_example(nlp, text):
    ents = [(text.index("Ann"), text.index("Ann") + 3, "PERSON")] if "Ann" in text else []
    return Example.from_dict(nlp.make_doc(text), {"entities": ents, "cats": dict.fromkeys(helpers.LABELS, 0.0) | {"thanks": 1.0}})


def test_long_document_is_long(trained):
    doc = trained.make_doc(LONG)
    assert len(doc) >= 2000
    trained.get_pipe(BACKBONE)(doc)
    # Longer than the checkpoint's 512 positions, and nothing is cut.
    assert doc._.trf_data.align.lengths.shape == (len(doc),)
    assert doc._.trf_data.align.lengths.min() == 1
    assert doc._.trf_data.model_output.last_hidden_state.shape[1] > 2000


@pytest.mark.parametrize("name", ODD)
def test_predict_alone_and_in_a_batch(trained, name):
    texts = [ORDINARY[0], ODD[name], ORDINARY[1]]
    together = list(trained.pipe(texts))
    for text, doc in zip(texts, together, strict=True):
        assert doc.text == text
        helpers.assert_same_outputs(doc, trained(text), atol=1e-5)
        assert math.isfinite(sum(doc.cats.values()))
        assert sum(doc.cats.values()) == pytest.approx(1.0, abs=1e-5)
        assert doc.has_annotation("ENT_IOB")
        assert all(0.0 <= ent._.confidence <= 1.0 for ent in doc.ents)
        assert len(doc.tensor) == len(doc)
    assert len(together[1]._.trf_data.align.lengths) == len(together[1])


@pytest.mark.parametrize("name", ODD)
def test_gradient_in_a_batch_is_the_sum_of_the_gradients_alone(trained, name):
    ordinary = helpers.make_examples(trained)[:2]
    odd = odd_example(trained, ODD[name])
    batch = [ordinary[0], odd, ordinary[1]]
    losses = helpers.accumulate(trained, [odd])
    assert all(math.isfinite(loss) for loss in losses.values())
    alone = helpers.Recorder().finish(trained)
    expected = helpers.add_up(alone, helpers.gradients_of(trained, ordinary))
    helpers.assert_close(helpers.gradients_of(trained, batch), expected)


def test_whole_batch_of_empty_documents(trained):
    docs = list(trained.pipe(["", "", ""]))
    assert [set(doc.cats) for doc in docs] == [set(helpers.LABELS)] * 3
    losses = helpers.accumulate(trained, [odd_example(trained, "")] * 2)
    assert losses[NER] == 0.0
    assert losses[TEXTCAT] > 0.0
    gradients = helpers.Recorder().finish(trained)
    assert abs(gradients[f"{TEXTCAT}/linear.bias"]).max() > 0.1


def test_no_documents(trained):
    assert list(trained.pipe([])) == []
    for name in (BACKBONE, ENCODER, TEXTCAT, NER):
        assert trained.get_pipe(name).model.predict([]) is not None


def test_batch_size_does_not_change_the_outputs(trained):
    texts = [*ORDINARY, *(ODD[name] for name in ODD if name != "2,000 tokens"), *ORDINARY]
    one_by_one = list(trained.pipe(texts, batch_size=1))
    for doc, expected in zip(trained.pipe(texts, batch_size=4), one_by_one, strict=True):
        helpers.assert_same_outputs(doc, expected, atol=1e-5)


def test_prediction_has_no_dropout(trained):
    for name in (ENCODER, TEXTCAT, NER):
        for node in trained.get_pipe(name).model.walk():
            if "dropout_rate" in node.attrs:
                node.attrs["dropout_rate"] = 0.9
    first = trained(ORDINARY[0])
    helpers.accumulate(trained, helpers.make_examples(trained), drop=0.9)
    helpers.assert_same_outputs(trained(ORDINARY[0]), first)
    shims = [shim for _, pipe in trained.pipeline for shim in helpers.torch_shims(pipe.model)]
    assert len(shims) == 4
    assert not any(module.training for shim in shims for module in shim.module.modules())


def test_special_looking_text_stays_text(trained):
    doc = trained(ODD["special"])
    ids = set(doc._.trf_data.wordpieces.input_ids.reshape(-1).tolist())
    tokenizer = trained.get_pipe(BACKBONE).model.shims[0].tokenizer
    assert not ids & set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
