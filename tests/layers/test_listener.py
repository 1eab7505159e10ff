import copy
from types import SimpleNamespace

import numpy
import pytest
import spacy
from thinc.api import Model
from thinc.types import Ragged

from spacy_attention.layers.listener import Delivery, get_link, listener_layer

NLP = spacy.blank("en")
DOCS = [NLP.make_doc("one two"), NLP.make_doc("")]


def vectors(value: float) -> Ragged:
    return Ragged(numpy.full((2, 3), value, dtype="float32"), numpy.array([2, 0], dtype="int32"))


def bound_listener() -> Model:
    listener = listener_layer("nearest")
    source = Model("source", lambda model, X, is_train: (X, lambda dY: dY), dims={"nO": 3})
    get_link(listener).upstream = SimpleNamespace(name="up", model=source, read_vectors=lambda docs, document_row: vectors(1.0))
    return listener


def test_unbound_listener():
    listener = listener_layer("encoder_2")
    for run in (listener.initialize, lambda: listener.predict(DOCS)):
        with pytest.raises(ValueError, match=r"E201\].*encoder_2"):
            run()


def test_error_shows_blocks_without_stray_braces():
    with pytest.raises(ValueError, match="E201") as caught:
        listener_layer("nearest").initialize()
    assert "${components.tok2vec.model.encode.width}" in str(caught.value)
    assert '{"@layers":"reduce_mean.v1"}' in str(caught.value)


def test_width_comes_from_upstream():
    listener = bound_listener()
    listener.initialize()
    assert listener.get_dim("nO") == 3


def test_predict_reads_what_is_stored_even_when_a_batch_waits():
    listener = bound_listener()
    get_link(listener).delivery = Delivery(DOCS, vectors(2.0), lambda d: None)
    assert (listener.predict(DOCS).dataXd == 1.0).all()


def test_update_reads_the_delivery_and_sends_its_gradient_once():
    listener, seen = bound_listener(), []
    get_link(listener).delivery = Delivery(DOCS, vectors(2.0), seen.append)
    Y, backprop = listener(DOCS, is_train=True)
    assert (Y.dataXd == 2.0).all()
    backprop(vectors(5.0))
    assert len(seen) == 1
    assert (seen[0].dataXd == 5.0).all()
    Y, backprop = listener(DOCS, is_train=True)
    assert (Y.dataXd == 1.0).all()
    backprop(vectors(5.0))
    assert len(seen) == 1


@pytest.mark.parametrize("asked", [DOCS[:1], DOCS[::-1], [NLP.make_doc("one two"), DOCS[1]]])
def test_other_documents_than_upstream_was_updated_with(asked):
    listener = bound_listener()
    get_link(listener).delivery = Delivery(DOCS, vectors(2.0), lambda d: None)
    with pytest.raises(ValueError, match="E202"):
        listener(asked, is_train=True)


@pytest.mark.parametrize("duplicate", [Model.copy, copy.deepcopy])
def test_copy_is_unbound_and_keeps_its_upstream_name(duplicate):
    listener = bound_listener()
    get_link(listener).upstream_name = "encoder_2"
    copied = get_link(duplicate(listener))
    assert copied is not get_link(listener)
    assert copied.upstream is None
    assert copied.upstream_name == "encoder_2"
    assert get_link(listener).upstream is not None


def test_other_layers_have_no_link():
    assert get_link(Model("other", lambda model, X, is_train: (X, lambda dY: dY))) is None


@pytest.mark.parametrize("factor", [0.0, 0.25, 1.0])
def test_grad_factor_weighs_what_goes_upstream(factor):
    listener, seen = bound_listener(), []
    listener.attrs["grad_factor"] = factor
    get_link(listener).delivery = Delivery(DOCS, vectors(2.0), seen.append)
    Y, backprop = listener(DOCS, is_train=True)
    d_vectors = vectors(4.0)
    backprop(d_vectors)
    assert (Y.dataXd == 2.0).all()
    assert (seen[0].dataXd == 4.0 * factor).all()
    # The caller's gradient is its own.
    assert (d_vectors.dataXd == 4.0).all()
