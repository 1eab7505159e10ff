"""The same numbers as the stock `transformer` component, and as Hugging Face's own forward, on the same weights."""

import numpy
import pytest
import spacy
import torch
from spacy_transformers.layers.trfs2arrays import trfs2arrays
from thinc.api import reduce_mean
from transformers import AutoModel

from .. import helpers
from ..helpers import BACKBONE
from .test_set_ups import add_stock_transformer

# Each fits into one window of either side.
TEXTS = [
    *(text for text, _, _ in helpers.SENTENCES),
    "Well... (it's) \"done\" -- isn't it?! #1, 50% off; a/b & c.",
    "internationalization counterrevolutionaries antidisestablishmentarianism",
    # spaCy cuts these where the tokenizer does not: several tokens share a piece.
    "3m of rope, 2g each; cannot don't",
    "NV-48213 co-operate e-mail:ann@lee.com",
    "a",
    "?!",
]
SHARED_PIECE = "3m of rope, 2g each; cannot don't"
EMPTY = ["", TEXTS[0], ""]


@pytest.fixture
def ours(tiny_checkpoint):
    nlp = spacy.blank("en")
    helpers.add_backbone(nlp, tiny_checkpoint)
    nlp.initialize()
    return nlp


@pytest.fixture
def stock(tiny_checkpoint):
    nlp = spacy.blank("en")
    add_stock_transformer(nlp, tiny_checkpoint)
    nlp.initialize()
    return nlp


def run(pipe, docs, d_vectors=None):
    """Token vectors as a stock listener makes them, one array per document; with `d_vectors` their gradient goes back."""
    pool = trfs2arrays(reduce_mean(), grad_factor=1.0)
    batch, backprop_batch = pipe.model.begin_update(docs)
    vectors, backprop_pool = pool.begin_update(batch.doc_data)
    if d_vectors is not None:
        backprop_batch(batch.unsplit_by_doc([data.tensors for data in backprop_pool(list(d_vectors))]))
    return vectors


def gradients(module):
    return {name: p.grad.to_dense().numpy().copy() for name, p in module.named_parameters() if p.grad is not None}


def test_a_token_shares_its_piece(ours):
    data = ours(SHARED_PIECE)._.trf_data
    rows = [row for token in range(len(data.align.lengths)) for row in data.align[token].dataXd.reshape(-1)]
    assert len(set(rows)) < len(rows)
    assert max(data.align.lengths) > 1, "and there is a token of several pieces"


@pytest.mark.parametrize("texts", [TEXTS, EMPTY, *([text] for text in TEXTS[-6:])])
def test_token_vectors(ours, stock, texts):
    found = run(ours.get_pipe(BACKBONE), [ours.make_doc(text) for text in texts])
    expected = run(stock.get_pipe("transformer"), [stock.make_doc(text) for text in texts])
    assert max(abs(vectors).max() for vectors in expected if len(vectors)) > 0.1
    for text, one, other in zip(texts, found, expected, strict=True):
        assert len(one) == len(other) == len(ours.make_doc(text))
        if text:
            numpy.testing.assert_allclose(one, other, atol=1e-4, err_msg=text)


def test_our_listener_reads_the_same_vectors(ours, stock):
    docs = list(ours.pipe(TEXTS))
    found = ours.get_pipe(BACKBONE).read_vectors(docs).dataXd
    expected = numpy.concatenate(run(stock.get_pipe("transformer"), [stock.make_doc(text) for text in TEXTS]))
    numpy.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("texts", [TEXTS, [SHARED_PIECE], EMPTY])
def test_gradients_of_the_weights(ours, stock, texts):
    docs = [ours.make_doc(text) for text in texts]
    rng = numpy.random.default_rng(0)
    upstream = [rng.normal(size=(len(doc), helpers.WIDTH)).astype("float32") for doc in docs]
    run(ours.get_pipe(BACKBONE), docs, upstream)
    run(stock.get_pipe("transformer"), docs, upstream)
    found = gradients(ours.get_pipe(BACKBONE).model.shims[0].transformer)
    expected = gradients(stock.get_pipe("transformer").model.transformer)
    assert len(expected) > 30
    # The pooler is part of both and used by neither.
    assert found.keys() == expected.keys()
    largest = max(abs(value).max() for value in expected.values())
    for name, value in expected.items():
        # Keys of attention have a bias that changes nothing; its gradient is rounding.
        scale = max(abs(value).max(), 1e-3 * largest)
        numpy.testing.assert_allclose(found[name] / scale, value / scale, atol=1e-4, rtol=0, err_msg=name)


@pytest.mark.parametrize("text", TEXTS)
def test_hidden_states_of_the_same_ids(ours, tiny_checkpoint, text):
    data = ours(text)._.trf_data
    tokenizer = ours.get_pipe(BACKBONE).model.shims[0].tokenizer
    ids = [tokenizer.cls_token_id, *data.wordpieces.input_ids[0].tolist(), tokenizer.sep_token_id]
    model = AutoModel.from_pretrained(tiny_checkpoint).eval()
    with torch.inference_mode():
        expected = model(input_ids=torch.tensor([ids])).last_hidden_state[0, :-1]
    numpy.testing.assert_allclose(data.model_output.last_hidden_state[0], expected, atol=1e-5)


def test_hidden_states_in_a_padded_batch(ours, tiny_checkpoint):
    """Texts of very different lengths in one forward pass."""
    texts = ["Ann", " ".join(TEXTS[:6]), "thanks a lot"]
    model = AutoModel.from_pretrained(tiny_checkpoint).eval()
    tokenizer = ours.get_pipe(BACKBONE).model.shims[0].tokenizer
    for text, doc in zip(texts, ours.pipe(texts), strict=True):
        with torch.inference_mode():
            expected = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, :-1]
        numpy.testing.assert_allclose(doc._.trf_data.model_output.last_hidden_state[0], expected, atol=1e-5)
