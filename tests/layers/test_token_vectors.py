import numpy
import pytest
from spacy_transformers.data_classes import TransformerData
from thinc.api import NumpyOps
from thinc.types import Ragged
from transformers.file_utils import ModelOutput

from spacy_attention.layers.token_vectors import pool_pieces

WIDTH = 3
# Per document: number of rows, and for each token its rows. None is an empty document.
LAYOUT = [(4, [[1], [2, 3], []]), None, (1, [[], []]), (3, [[1, 2], [2]])]


def data_of(hidden: numpy.ndarray, tokens: list[list[int]]) -> TransformerData:
    flat = numpy.array([row for rows in tokens for row in rows], dtype="int32")
    align = Ragged(flat, numpy.array([len(rows) for rows in tokens], dtype="int32"))
    empty = TransformerData.empty()
    return TransformerData(empty.wordpieces, ModelOutput(last_hidden_state=hidden[None]), align)


@pytest.fixture
def batch() -> tuple[list[TransformerData], list[numpy.ndarray]]:
    random = numpy.random.default_rng(0)
    arrays, data = [], []
    for layout in LAYOUT:
        if layout is None:
            data.append(TransformerData.empty())
            continue
        rows, tokens = layout
        arrays.append(random.normal(size=(rows, WIDTH)).astype("float32"))
        data.append(data_of(arrays[-1], tokens))
    return data, arrays


def naive(arrays: list[numpy.ndarray]) -> numpy.ndarray:
    layouts = [layout for layout in LAYOUT if layout is not None]
    means = [
        array[rows].mean(0) if rows else numpy.zeros(WIDTH)
        for array, (_, tokens) in zip(arrays, layouts, strict=True)
        for rows in tokens
    ]
    return numpy.array(means, dtype="float64")


def test_equals_the_mean_of_each_token(batch):
    data, arrays = batch
    vectors, _ = pool_pieces(NumpyOps(), data, WIDTH)
    assert vectors.lengths.tolist() == [3, 0, 2, 2]
    assert vectors.dataXd.dtype == numpy.float32
    numpy.testing.assert_allclose(vectors.dataXd, naive(arrays), atol=1e-6)
    assert not vectors.dataXd[2:5].any()  # tokens without pieces


def test_gradient_equals_finite_differences_of_the_mean(batch):
    data, arrays = batch
    vectors, backprop = pool_pieces(NumpyOps(), data, WIDTH)
    d_rows = numpy.random.default_rng(1).normal(size=vectors.dataXd.shape).astype("float32")
    found = backprop(d_rows)
    packed = numpy.concatenate(arrays).astype("float64")
    ends = numpy.cumsum([len(x) for x in arrays])[:-1]
    expected = numpy.zeros_like(packed)
    for index in numpy.ndindex(*packed.shape):
        values = []
        for step in (1e-3, -1e-3):
            moved = packed.copy()
            moved[index] += step
            values.append((naive(numpy.split(moved, ends)) * d_rows).sum())
        expected[index] = (values[0] - values[1]) / 2e-3
    numpy.testing.assert_allclose(found, expected, atol=1e-4)
    assert not found[0].any()  # the document's own row


@pytest.mark.parametrize("data", [[], [TransformerData.empty()] * 2])
def test_nothing_but_empty_documents(data):
    vectors, backprop = pool_pieces(NumpyOps(), data, WIDTH)
    assert vectors.dataXd.shape == (0, WIDTH)
    assert vectors.lengths.tolist() == [0] * len(data)
    assert backprop(numpy.zeros((0, WIDTH), dtype="float32")).shape == (0, WIDTH)


def test_document_rows_come_first(batch):
    data, arrays = batch
    plain, _ = pool_pieces(NumpyOps(), data, WIDTH)
    vectors, backprop = pool_pieces(NumpyOps(), data, WIDTH, document_row=True)
    assert vectors.lengths.tolist() == [4, 1, 3, 3]
    own, rest = [0, 4, 5, 8], [1, 2, 3, 6, 7, 9, 10]
    expected = [arrays[0][0], numpy.zeros(WIDTH), arrays[1][0], arrays[2][0]]
    numpy.testing.assert_array_equal(vectors.dataXd[own], numpy.array(expected, dtype="float32"))
    numpy.testing.assert_array_equal(vectors.dataXd[rest], plain.dataXd)
    # The row of a document gets its own gradient; that of an empty one goes nowhere.
    d_rows = numpy.zeros_like(vectors.dataXd)
    d_rows[own] = [[1.0] * WIDTH, [2.0] * WIDTH, [3.0] * WIDTH, [4.0] * WIDTH]
    found = backprop(d_rows)
    assert found.sum(1).tolist() == [3.0, 0.0, 0.0, 0.0, 9.0, 12.0, 0.0, 0.0]


def test_document_rows_of_a_batch_without_tokens():
    vectors, backprop = pool_pieces(NumpyOps(), [TransformerData.empty()] * 2, WIDTH, document_row=True)
    assert vectors.lengths.tolist() == [1, 1]
    assert not vectors.dataXd.any()
    assert backprop(numpy.ones((2, WIDTH), "float32")).shape == (0, WIDTH)
