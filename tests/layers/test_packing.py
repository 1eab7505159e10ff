import numpy
from thinc.types import Ragged

from spacy_attention.layers.packing import to_ragged


def floats(*shape: int) -> numpy.ndarray:
    return numpy.random.default_rng(0).normal(size=shape).astype("float32")


def test_list_is_packed_and_its_gradient_unpacked():
    layer = to_ragged()
    # Stock layers give an empty document an array of width 0.
    X = [floats(2, 3), floats(0, 0), floats(1, 3)]
    Y, backprop = layer(X, is_train=True)
    numpy.testing.assert_array_equal(Y.dataXd, numpy.concatenate([X[0], X[2]]))
    assert Y.lengths.tolist() == [2, 0, 1]
    dX = backprop(Ragged(Y.dataXd * 2, Y.lengths))
    assert [len(dx) for dx in dX] == [2, 0, 1]
    numpy.testing.assert_array_equal(dX[0], X[0] * 2)
    numpy.testing.assert_array_equal(dX[2], X[2] * 2)


def test_ragged_goes_through():
    X = Ragged(floats(3, 2), numpy.array([1, 2], dtype="int32"))
    Y, backprop = to_ragged()(X, is_train=True)
    assert Y is X
    assert backprop(X) is X


def test_empty_documents_only():
    Y, backprop = to_ragged()([floats(0, 3)] * 2, is_train=True)
    assert Y.lengths.tolist() == [0, 0]
    assert len(Y.dataXd) == 0
    assert [len(dx) for dx in backprop(Y)] == [0, 0]
