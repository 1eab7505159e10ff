import random
import shutil

import numpy
import pytest
import spacy
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.training import Example
from thinc.api import fix_random_seed

from spacy_attention.training import batcher as module
from spacy_attention.training.batcher import PieceCounter, batch_by_pieces, create_batch_by_pieces, read_tokenizer

from .. import helpers

Item = tuple[int, int]


def sizes_of(items: list[Item]) -> list[int]:
    return [size for _, size in items]


def batches_of(sizes: list[int], *, pieces: int, buffer: int) -> list[list[Item]]:
    """The items are numbered, so that those of one size differ."""
    return list(batch_by_pieces(enumerate(sizes), count=sizes_of, pieces=pieces, buffer=buffer))


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 12), max_size=60),
    pieces=st.integers(1, 30),
    buffer=st.integers(1, 20),
    seed=st.integers(0, 9),
)
def test_every_item_once_within_the_limit_and_no_small_batch_but_the_last(sizes, pieces, buffer, seed):
    random.seed(seed)
    batches = batches_of(sizes, pieces=pieces, buffer=buffer)
    assert sorted(item for batch in batches for item in batch) == list(enumerate(sizes))
    assert all(batches)
    totals = [sum(sizes_of(batch)) for batch in batches]
    assert all(total <= pieces or len(batch) == 1 for total, batch in zip(totals, batches, strict=True))
    assert all(2 * total >= pieces for total in totals[:-1])


def test_batches_by_hand():
    """Of one buffer: 9 is too long for any batch, and what remains at the end comes last."""
    *full, last = map(sizes_of, batches_of([2, 9, 1, 5, 0, 2, 3, 3, 1], pieces=8, buffer=9))
    assert sorted(full) == [[3, 2, 2, 1], [5, 3], [9]]
    assert last == [1, 0]


def test_small_rest_of_a_buffer_waits_for_the_next():
    """3, 3 and 2 leave 2 over, which goes with the next 2 and 2; only the last batch is small."""
    assert [sizes_of(batch) for batch in batches_of([3, 3, 2, 2, 2, 2], pieces=6, buffer=3)] == [[3, 3], [2, 2, 2], [2]]


def test_pieces_are_counted_once_per_buffer():
    counted = []

    def count(items):
        counted.append(len(items))
        return sizes_of(items)

    list(batch_by_pieces(enumerate([3, 1, 1, 5, 2, 4, 1]), count=count, pieces=6, buffer=3))
    assert counted == [3, 3, 1]


def test_no_more_than_a_buffer_is_taken_ahead():
    """A corpus can be a stream without an end."""
    taken = []
    endless = ((taken.append(i) or i, 2) for i in iter(int, 1))
    batches = batch_by_pieces(endless, count=sizes_of, pieces=4, buffer=10)
    assert [len(next(batches)) for _ in range(6)] == [2] * 6
    assert len(taken) == 20


def test_one_seed_one_order():
    sizes = [int(n) for n in numpy.random.default_rng(0).integers(1, 9, 100)]
    orders = []
    for seed in (0, 0, 1):
        fix_random_seed(seed)
        orders.append(batches_of(sizes, pieces=20, buffer=50))
    assert orders[0] == orders[1] != orders[2]
    # Not only are the batches in another order: those of one length are with others.
    assert sorted(map(sorted, orders[0])) != sorted(map(sorted, orders[2]))
    # A second pass, with no seed in between, is in an order of its own.
    assert batches_of(sizes, pieces=20, buffer=50) != orders[2]


def test_long_texts_do_not_come_first():
    for _ in range(3):
        longest = [max(sizes_of(batch)) for batch in batches_of(list(range(1, 60)), pieces=100, buffer=100)]
        assert longest != sorted(longest, reverse=True)


def padding(batches: list[list[int]]) -> float:
    """Share of cells without a piece when each batch is padded to its longest."""
    cells = sum(max(batch) * len(batch) for batch in batches)
    return 1 - sum(map(sum, batches)) / cells


def test_lengths_within_a_batch_are_alike():
    sizes = [int(n) for n in numpy.random.default_rng(0).lognormal(3, 0.8, 1000) + 3]
    sorted_ones = [sizes_of(batch) for batch in batches_of(sizes, pieces=1000, buffer=500)]
    random_ones = [sizes[i : i + 30] for i in range(0, 1000, 30)]
    assert padding(random_ones) > 0.5
    assert padding(sorted_ones) < 0.15


# With the tokenizer of a checkpoint

TEXTS = ["", "a", "Ann Lee wants her money back", "[SEP] [MASK]", "My order 4711 never arrived " * 30, " \t\n", "zqxj 🙂"]


def whole_count(checkpoint, text: str) -> int:
    """Pieces of a text, by another way; what is written like a special token is text."""
    tokenizer = transformers.BertTokenizerFast.from_pretrained(checkpoint)
    return len(tokenizer(text, split_special_tokens=True, truncation=False).input_ids)


def test_special_pieces_count_and_special_text_is_text(tiny_checkpoint):
    nlp = spacy.blank("en")
    found = PieceCounter(str(tiny_checkpoint))([nlp.make_doc(text) for text in TEXTS])
    assert found == [whole_count(tiny_checkpoint, text) for text in TEXTS]
    assert found[0] == 2
    assert found[3] > 4
    assert found[4] > 100


def test_truncation_and_padding_of_the_file_are_off(tiny_checkpoint, tmp_path):
    shutil.copytree(tiny_checkpoint, tmp_path / "limited")
    backend = transformers.BertTokenizerFast.from_pretrained(tiny_checkpoint).backend_tokenizer
    backend.enable_truncation(6)
    backend.enable_padding(length=9)
    backend.save(str(tmp_path / "limited" / "tokenizer.json"))
    docs = [spacy.blank("en").make_doc(text) for text in TEXTS]
    assert PieceCounter(str(tmp_path / "limited"))(docs) == PieceCounter(str(tiny_checkpoint))(docs)


def test_examples_and_documents_of_a_checkpoint(tiny_checkpoint):
    nlp = spacy.blank("en")
    docs = [nlp.make_doc(text) for text in TEXTS * 3]
    examples = [Example(doc, nlp.make_doc(doc.text)) for doc in docs]
    batcher = create_batch_by_pieces(str(tiny_checkpoint), pieces=40, buffer=8)
    orders = []
    for items in (docs, examples):
        fix_random_seed(0)
        orders.append(list(batcher(items)))
    assert [[example.predicted for example in batch] for batch in orders[1]] == orders[0]
    assert sorted(map(id, docs)) == sorted(id(doc) for batch in orders[0] for doc in batch)
    alone = [batch for batch in orders[0] if any(len(doc) > 100 for doc in batch)]
    assert [len(batch) for batch in alone] == [1, 1, 1]
    assert list(batcher([])) == []


def test_tokenizer_is_looked_up_for_the_first_batch_and_only_once(tiny_checkpoint, tmp_path, monkeypatch):
    batcher = create_batch_by_pieces(str(tmp_path / "later"), pieces=40)
    shutil.copytree(tiny_checkpoint, tmp_path / "later")
    looked_up = []
    monkeypatch.setattr(module, "read_tokenizer", lambda name: looked_up.append(name) or read_tokenizer(name))
    docs = [spacy.blank("en").make_doc(text) for text in TEXTS]
    batches = batcher(docs)
    assert looked_up == []
    assert len(list(batches)) == len(list(batcher(docs)))
    assert looked_up == [str(tmp_path / "later")]


@pytest.mark.parametrize(("arguments", "found"), [({"pieces": 0}, "'pieces'.*0"), ({"pieces": 8, "buffer": -2}, "'buffer'.*-2")])
def test_arguments_out_of_range(arguments, found):
    block = {"@batchers": "spacy-attention.batch_by_pieces.v1", "name": "someone/model", **arguments}
    with pytest.raises(ValueError, match=rf"E601.*{found}"):
        spacy.registry.resolve({"batcher": block})


def test_checkpoint_that_is_nowhere():
    # Two slashes are no name on the hub, so nothing asks the network.
    with pytest.raises(ValueError, match=r"E103\].*no/such/folder"):
        read_tokenizer("no/such/folder")


def test_checkpoint_without_a_fast_tokenizer(tiny_checkpoint, monkeypatch):
    slow = transformers.BertTokenizer.from_pretrained(tiny_checkpoint)
    for answer in (lambda *args, **kwargs: slow, lambda *args, **kwargs: open("/no/such/file")):
        monkeypatch.setattr(module.AutoTokenizer, "from_pretrained", answer)
        with pytest.raises(ValueError, match=rf"E104\].*{tiny_checkpoint}"):
            read_tokenizer(str(tiny_checkpoint))
