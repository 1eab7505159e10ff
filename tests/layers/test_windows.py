import numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_attention.layers.windows import central_windows, cut_windows, expand_ranges

sizes = st.integers(1, 12).flatmap(lambda capacity: st.tuples(st.just(capacity), st.integers(1, capacity)))


def test_cut_by_hand():
    assert cut_windows(0, 4, 2).tolist() == [[0, 0]]
    assert cut_windows(4, 4, 2).tolist() == [[0, 4]]
    assert cut_windows(5, 4, 3).tolist() == [[0, 3], [2, 5]]
    assert cut_windows(10, 4, 3).tolist() == [[0, 4], [3, 7], [6, 10]]


@settings(max_examples=100, deadline=None)
@given(n_pieces=st.integers(0, 80), sizes=sizes)
def test_windows_cover_everything_and_none_is_inside_another(n_pieces, sizes):
    capacity, stride = sizes
    windows = cut_windows(n_pieces, capacity, stride)
    covered = set().union(*(range(a, b) for a, b in windows))
    assert covered == set(range(n_pieces))
    assert ((windows[:, 1] - windows[:, 0]) <= capacity).all()
    assert (numpy.diff(windows[:, 0]) > 0).all()
    assert (numpy.diff(windows[:, 1]) > 0).all()
    assert (numpy.diff(windows[:, 0]) <= stride).all()
    assert (windows[:-1, 1] - windows[1:, 0] == capacity - stride).all()
    lengths = windows[:, 1] - windows[:, 0]
    assert lengths.max() - lengths.min() <= 1


token_lengths = st.lists(st.integers(0, 9), max_size=25)


@settings(max_examples=100, deadline=None)
@given(lengths=token_lengths, sizes=sizes)
# Windows [0, 5) and [2, 7) overlap in three pieces; a token of four, [1, 5), fits only the first.
@example(lengths=[1, 4, 2], sizes=(5, 3))
@example(lengths=[2, 4, 1], sizes=(5, 2))
def test_every_piece_has_one_window_that_contains_it_and_tokens_stay_whole(lengths, sizes):
    capacity, stride = sizes
    last = numpy.cumsum(lengths, dtype="int64")
    first = last - numpy.array(lengths, dtype="int64")
    n_pieces = int(sum(lengths))
    windows = cut_windows(n_pieces, capacity, stride)
    owner = central_windows(windows, first, last, n_pieces)
    assert owner.shape == (n_pieces,)
    for piece, window in enumerate(owner):
        assert windows[window, 0] <= piece < windows[window, 1]
    for a, b in zip(first, last, strict=True):
        if any(start <= a and b <= end for start, end in windows):
            assert len(set(owner[a:b])) <= 1


@settings(max_examples=100, deadline=None)
@given(n_pieces=st.integers(1, 80), sizes=sizes)
def test_tokens_of_one_piece_get_their_most_central_window(n_pieces, sizes):
    windows = cut_windows(n_pieces, *sizes)
    first = numpy.arange(n_pieces)
    owner = central_windows(windows, first, first + 1, n_pieces)

    def from_edge(piece: int, window: int) -> int:
        # The ends of the document are no edges: nothing is cut off there.
        start, end = windows[window]
        left = n_pieces if start == 0 else piece - start
        right = n_pieces if end == n_pieces else end - 1 - piece
        return min(left, right)

    for piece in range(n_pieces):
        holding = [w for w, (start, end) in enumerate(windows) if start <= piece < end]
        # Rounding down the middle of an overlap may cost one piece.
        assert from_edge(piece, owner[piece]) >= max(from_edge(piece, w) for w in holding) - 1


def test_token_longer_than_a_window_is_spread():
    windows = cut_windows(10, 4, 4)
    owner = central_windows(windows, numpy.array([0]), numpy.array([10]), 10)
    assert sorted(set(owner)) == [0, 1, 2]


def test_tokens_without_pieces_do_not_disturb():
    windows = cut_windows(6, 4, 2)
    first, last = numpy.array([0, 1, 1, 3, 6]), numpy.array([1, 1, 3, 6, 6])
    owner = central_windows(windows, first, last, 6)
    assert owner[1] == owner[2]
    assert owner[3] == owner[4] == owner[5]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)), max_size=10))
def test_expand_ranges_equals_a_loop(ranges):
    starts, lengths = numpy.array(ranges, dtype="int64").reshape(-1, 2).T
    expected = [i for start, length in ranges for i in range(start, start + length)]
    assert expand_ranges(starts, lengths).tolist() == expected
