import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_attention.layers.alignment import align_offsets, token_offsets


@st.composite
def tokens(draw) -> tuple[list[int], list[int]]:
    """Tokens do not overlap; there may be gaps between them."""
    starts, ends, at = [], [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=12)):
        starts.append(at + gap)
        ends.append(at + gap + length)
        at = ends[-1]
    return starts, ends


@st.composite
def pieces(draw) -> tuple[list[int], list[int]]:
    """Pieces may overlap, as those of one emoji do, and leave gaps; neither starts nor ends ever decrease."""
    starts, ends = [], []
    for step, length in draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), max_size=20)):
        starts.append((starts[-1] if starts else 0) + step)
        ends.append(max(ends[-1] if ends else 0, starts[-1] + length))
    return starts, ends


@settings(max_examples=100, deadline=None)
@given(tokens=tokens(), pieces=pieces())
def test_equals_comparing_every_token_with_every_piece(tokens, pieces):
    first, last = align_offsets(*(numpy.array(x, dtype="int64") for x in (*tokens, *pieces)))
    found = [list(range(a, b)) for a, b in zip(first, last, strict=True)]
    expected = [
        [j for j, (c, d) in enumerate(zip(*pieces, strict=True)) if max(a, c) < min(b, d)] for a, b in zip(*tokens, strict=True)
    ]
    assert found == expected


@settings(max_examples=100, deadline=None)
@given(tokens=tokens(), pieces=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=12))
def test_no_piece_is_missed_when_offsets_go_back(tokens, pieces):
    starts = [a for a, _ in pieces]
    ends = [a + length for a, length in pieces]
    first, last = align_offsets(*(numpy.array(x, dtype="int64") for x in (*tokens, starts, ends)))
    assert (last >= first).all()
    for a, b, c, d in zip(*tokens, first, last, strict=True):
        assert [j for j in range(len(starts)) if max(a, starts[j]) < min(b, ends[j]) and not c <= j < d] == []


def test_empty_pieces_belong_to_no_token():
    """RoBERTa's tokenizer cuts the space off a piece that is nothing else."""
    starts, ends = numpy.array([0, 4]), numpy.array([3, 8])
    first, last = align_offsets(starts, ends, numpy.array([0, 0, 4, 4]), numpy.array([0, 3, 4, 8]))
    assert (first.tolist(), last.tolist()) == ([1, 3], [2, 4])


def test_by_hand():
    # Tokens "New", "York", an emoji no piece covers, "!"; the piece of "York" starts one character early.
    starts, ends = numpy.array([0, 4, 9, 11]), numpy.array([3, 8, 10, 12])
    first, last = align_offsets(starts, ends, numpy.array([0, 2, 3, 11]), numpy.array([2, 3, 8, 12]))
    assert (last - first).tolist() == [2, 1, 0, 1]
    assert first[[0, 1, 3]].tolist() == [0, 2, 3]


@pytest.mark.parametrize("text", ["", " ", "a", "two  words\tand\n\n a tail ", "naïve 😀😀 Zürich's"])
def test_token_offsets(text):
    doc = spacy.blank("en").make_doc(text)
    starts, ends = token_offsets(doc)
    assert starts.tolist() == [token.idx for token in doc]
    assert ends.tolist() == [token.idx + len(token) for token in doc]


def test_token_offsets_of_a_doc_made_from_words():
    doc = Doc(spacy.blank("en").vocab, words=["a", "bc", "!"], spaces=[True, False, False])
    assert [x.tolist() for x in token_offsets(doc)] == [[0, 2, 4], [1, 4, 5]]
