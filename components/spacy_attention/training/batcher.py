"""`spacy-attention.batch_by_pieces.v1`: batches of texts of like length, as large as a number of word pieces allows."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from ..checkpoints import find_checkpoint, missing_checkpoint_message
from ..errors import Errors

ItemT = TypeVar("ItemT")


def create_batch_by_pieces(
    name: str, *, pieces: int, buffer: int = 1024
) -> Callable[[Iterable[Doc | Example]], Iterator[list[Doc | Example]]]:
    """Make a batcher that counts as the backbone does: in word pieces.

    name (str): folder of a checkpoint, or its name, as in the backbone; looked up when the first batch is made.
    pieces (int): word pieces per batch, special ones included, at least 1; a longer document has a batch of its own.
    buffer (int): documents that are sorted by length together, at least 1.
    RETURNS (Callable): documents or examples in, lists of them out; see `batch_by_pieces`.
    RAISES (ValueError): E601 for `pieces` or `buffer` below 1.
    """
    for field, found in (("pieces", pieces), ("buffer", buffer)):
        if found < 1:
            raise ValueError(Errors.E601.format(field=field, found=found))
    return partial(batch_by_pieces, count=PieceCounter(name), pieces=pieces, buffer=buffer)


def batch_by_pieces(
    items: Iterable[ItemT], *, count: Callable[[Sequence[ItemT]], list[int]], pieces: int, buffer: int
) -> Iterator[list[ItemT]]:
    """Group documents of like length, in random order. Each comes out once, whatever its length.

    All batches but the last are at least half full: what a buffer leaves for a smaller one waits for the next buffer.

    items (Iterable): any.
    count (Callable): gives the number of pieces of each of several items; called once per buffer.
    pieces (int): per batch; an item that has more is alone.
    buffer (int): items that are sorted together.
    YIELDS (list): a batch. The order is that of Python's `random`, which `[training] seed` sets.
    """
    rest: list[tuple[int, ItemT]] = []
    for group in minibatch(items, buffer):
        sized = rest + list(zip(count(group), group, strict=True))
        random.shuffle(sized)
        sized.sort(key=itemgetter(0), reverse=True)
        batches, rest = _fill(sized, pieces)
        random.shuffle(batches)
        yield from batches
    if rest:
        yield [item for _, item in rest]


def _fill(sized: list[tuple[int, ItemT]], pieces: int) -> tuple[list[list[ItemT]], list[tuple[int, ItemT]]]:
    """Cut a sorted list into batches. RETURNS (tuple): those, and the end of the list if it is less than half a batch."""
    batches: list[list[ItemT]] = []
    batch: list[tuple[int, ItemT]] = []
    total = 0
    # From the longest down, so that what is too long is passed first, and what remains at the end is small.
    for n, item in sized:
        if batch and total + n > pieces:
            batches.append([item for _, item in batch])
            batch, total = [], 0
        batch.append((n, item))
        total += n
    if 2 * total < pieces:
        return batches, batch
    return [*batches, [item for _, item in batch]], []


class PieceCounter:
    """Counts the word pieces of texts, special ones included.

    name (str): of a checkpoint; looked up at the first call.
    """

    def __init__(self, name: str):
        self.name = name

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Of the checkpoint. RAISES (ValueError): see `read_tokenizer`."""
        return read_tokenizer(self.name)

    def __call__(self, items: Sequence[Doc | Example]) -> list[int]:
        """items (Sequence): documents, or examples, of which the predicted ones count. RETURNS (list[int]): pieces of each."""
        docs = (item.predicted if isinstance(item, Example) else item for item in items)
        return [len(encoding) for encoding in self.tokenizer.encode_batch([doc.text for doc in docs])]


def read_tokenizer(name: str) -> Tokenizer:
    """Read the tokenizer of a checkpoint, and switch off what its file says of truncation, padding and special tokens in a text.

    name (str): see `find_checkpoint`.
    RETURNS (Tokenizer): it leaves out no part of a text.
    RAISES (ValueError): E101 to E103 when the checkpoint cannot be found, E104 when it has no fast tokenizer.
    """
    source = find_checkpoint(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, use_fast=True, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as err:
        is_found = Path(source).is_dir()
        raise ValueError(Errors.E104.format(name=name) if is_found else missing_checkpoint_message(name)) from err
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(Errors.E104.format(name=name))
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    return backend
