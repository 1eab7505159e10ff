"""Texts to word pieces, with a fast Hugging Face tokenizer."""

from typing import NamedTuple

import numpy
from numpy.typing import NDArray
from spacy.tokens import Doc
from transformers import PreTrainedTokenizerFast

Ints = NDArray[numpy.int64]


class Pieces(NamedTuple):
    """The pieces of one document, without the special ones at its ends.

    ids (Ints): (pieces,) vocabulary ids.
    starts, ends (Ints): (pieces,) character offsets in the text, ends exclusive.
    strings (list[str]): the pieces as written in the vocabulary.
    """

    ids: Ints
    starts: Ints
    ends: Ints
    strings: list[str]


class SpecialIds(NamedTuple):
    """Ids that the tokenizer puts around a text, and the one it pads with."""

    before: list[int]
    after: list[int]
    pad: int


def prepare_tokenizer(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """Switch off what would lose or change text: truncation and padding of the file, and special tokens written in a text.

    tokenizer (PreTrainedTokenizerFast): changed in place.
    RETURNS (PreTrainedTokenizerFast): the same.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    return tokenizer


def special_ids(tokenizer: PreTrainedTokenizerFast) -> SpecialIds:
    """tokenizer (PreTrainedTokenizerFast): any. RETURNS (SpecialIds): found by letting it wrap one letter."""
    probe = tokenizer.backend_tokenizer.encode("a", add_special_tokens=True)
    inner = [i for i, special in enumerate(probe.special_tokens_mask) if not special]
    pad = tokenizer.pad_token_id
    return SpecialIds(probe.ids[: inner[0]], probe.ids[inner[-1] + 1 :], 0 if pad is None else pad)


def encode_docs(tokenizer: PreTrainedTokenizerFast, docs: list[Doc]) -> list[Pieces]:
    """Cut the texts of a batch into pieces.

    tokenizer (PreTrainedTokenizerFast): from `prepare_tokenizer`.
    docs (list[Doc]): any.
    RETURNS (list[Pieces]): one entry per document.
    """
    encodings = tokenizer.backend_tokenizer.encode_batch([doc.text for doc in docs], add_special_tokens=False)
    pieces = []
    for encoding in encodings:
        offsets = numpy.array(encoding.offsets, dtype="int64").reshape(-1, 2)
        ids = numpy.array(encoding.ids, dtype="int64")
        pieces.append(Pieces(ids, offsets[:, 0], offsets[:, 1], encoding.tokens))
    return pieces
