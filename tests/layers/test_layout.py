import numpy
import pytest
import spacy
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from spacy_attention.layers.grouping import Passes
from spacy_attention.layers.layout import Layout, lay_out
from spacy_attention.layers.micro_batches import make_micro_batches
from spacy_attention.layers.pieces import SpecialIds, prepare_tokenizer
from spacy_attention.layers.report import make_reports

NLP = spacy.blank("en")
PAD, BEGIN, END = 90, 91, 92


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """One piece per word; an id says which letter it is."""
    words = Tokenizer(WordLevel({"?": 0, **{letter: i for i, letter in enumerate("abcdefgh", 1)}}, "?"))
    words.pre_tokenizer = Whitespace()
    return prepare_tokenizer(PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?"))


def layout_of(tokenizer, texts, *, capacity=4, stride=2, truncate=False) -> Layout:
    return lay_out(tokenizer, [NLP.make_doc(text) for text in texts], capacity=capacity, stride=stride, truncate=truncate)


TEXTS = ["a b", "", "  ", "a b c d e f g", "h"]


def test_rows_and_ranges_count_over_the_batch(tokenizer):
    layout = layout_of(tokenizer, TEXTS)
    assert layout.n_tokens.tolist() == [2, 0, 1, 7, 1]
    assert layout.n_pieces.tolist() == [2, 0, 0, 7, 1]
    assert layout.n_rows.tolist() == [3, 0, 1, 8, 2]
    assert layout.row_starts.tolist() == [0, 3, 3, 4, 12]
    assert layout.pieces_per_token.tolist() == [1, 1, 0, *[1] * 7, 1]
    rows = layout.token_rows[layout.pieces_per_token > 0].tolist()
    assert rows == [1, 2, 5, 6, 7, 8, 9, 10, 11, 13]


def test_windows_of_a_batch_are_those_of_its_documents(tokenizer):
    layout = layout_of(tokenizer, TEXTS)
    assert layout.windows.per_doc.tolist() == [1, 0, 1, 3, 1]
    assert layout.windows.starts.tolist() == [0, 2, 2, 4, 6, 9]
    assert layout.windows.lengths.tolist() == [2, 0, 4, 4, 3, 1]
    assert layout.windows.owner.tolist() == [0, 0, 2, 2, 2, 3, 3, 4, 4, 5]


@pytest.mark.parametrize(("packed", "multiple"), [(True, 1), (True, 8), (False, 8)])
@pytest.mark.parametrize("budget", [1, 12, 1000])
@pytest.mark.parametrize("special", [SpecialIds([BEGIN], [END], PAD), SpecialIds([], [], PAD), SpecialIds([], [END], PAD)])
def test_every_row_comes_from_its_piece_and_every_window_is_wrapped(tokenizer, budget, special, packed, multiple):
    layout = layout_of(tokenizer, TEXTS)
    found = numpy.full(int(layout.n_rows.sum()), -1)
    windows = []
    passes = Passes(longest=6, budget=budget, packed=packed, block_cost=2, crooked_cost=0.5, multiple=multiple)
    for ids, mask, positions, source, target, blocks, _ in make_micro_batches(layout, special, passes):
        n_cells = sum(block.cells for block in blocks)
        assert n_cells <= budget or sum(block.windows for block in blocks) == 1
        assert packed or len(blocks) == 1
        found[target] = ids[source]
        start = 0
        for block in blocks:
            end = start + block.cells
            rows, kept, columns = (x[start:end].reshape(block[:2]) for x in (ids, mask.astype(bool), positions))
            assert block.padded == (not kept.all())
            assert (columns == numpy.arange(block.length)).all()
            windows.extend(row[k].tolist() for row, k in zip(rows, kept, strict=True))
            start = end
        assert start == n_cells
        assert len(ids) == len(mask) == len(positions) == (-(-n_cells // multiple) * multiple if packed else n_cells)
        assert not mask[n_cells:].any()
        assert (ids[mask == 0] == PAD).all()
    first = special.before[0] if special.before else None
    empty = first or (special.after or [PAD])[0]
    assert found.tolist() == [first or 1, 1, 2, empty, first or 1, *range(1, 8), first or 8, 8]
    texts = [[1, 2], [], [1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7], [8]]
    expected = [[*special.before, *text, *special.after] or [PAD] for text in texts]
    assert sorted(windows) == sorted(expected)


def test_reports_count_what_was_read(tokenizer):
    reports = make_reports(layout_of(tokenizer, TEXTS))
    assert [report["pieces"] for report in reports] == [2, 0, 0, 7, 1]
    assert [report["windows"] for report in reports] == [1, 0, 1, 3, 1]
    assert [report["tokens_without_pieces"] for report in reports] == [0, 0, 1, 0, 0]
    assert not any(report["truncated_pieces"] or report["special_text"] for report in reports)


def test_truncation_is_counted_and_leaves_tokens_without_pieces(tokenizer):
    layout = layout_of(tokenizer, TEXTS, truncate=True)
    assert layout.windows.per_doc.tolist() == [1, 0, 1, 1, 1]
    reports = make_reports(layout)
    assert [report["truncated_pieces"] for report in reports] == [0, 0, 0, 3, 0]
    assert [report["tokens_without_pieces"] for report in reports] == [0, 0, 1, 3, 0]
    assert layout.pieces_per_token.tolist() == [1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 1]


def test_empty_batch(tokenizer):
    layout = layout_of(tokenizer, [])
    assert make_micro_batches(layout, SpecialIds([], [], PAD), Passes(6, 100, True, 2, 0.5)) == []
    assert make_reports(layout) == []
