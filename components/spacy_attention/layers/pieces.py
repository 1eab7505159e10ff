"""Texts to word pieces, with a fast Hugging Face tokenizer."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

Ints = NDArray[numpy.int64]
# One piece: id, first character, exclusive last character, string.
Row = tuple[int, int, int, str]


class Pieces(NamedTuple):
    """The pieces of one document, without the special ones at its ends.

    ids (Ints): (pieces,) vocabulary ids.
    starts, ends (Ints): (pieces,) character offsets in the text, ends exclusive.
    strings (list[str]): the pieces as written in the vocabulary.
    special_text (int): stretches of the text that are written like a special token; they are text all the same.
    """

    ids: Ints
    starts: Ints
    ends: Ints
    strings: list[str]
    special_text: int


class SpecialIds(NamedTuple):
    """Ids that the tokenizer puts around a text, and the one it pads with."""

    before: list[int]
    after: list[int]
    pad: int


class SpecialTokens(NamedTuple):
    """The special tokens of a tokenizer, in the form that `encode_texts` looks for them.

    ids (Ints): of all of them.
    unknown (int | None): the one that stands for characters outside the vocabulary, which a text may have.
    pattern (re.Pattern): matches each of them in a text.
    """

    ids: Ints
    unknown: int | None
    pattern: re.Pattern[str]


# transformers puts these together anew at each call, which takes as long as encoding a short text.
_special_tokens: WeakKeyDictionary[PreTrainedTokenizerFast, SpecialTokens] = WeakKeyDictionary()


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


def special_tokens(tokenizer: PreTrainedTokenizerFast) -> SpecialTokens:
    """tokenizer (PreTrainedTokenizerFast): any. RETURNS (SpecialTokens): its special tokens; read once per tokenizer."""
    if tokenizer not in _special_tokens:
        added = {token.content: i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        named = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
        found = {**added, **{token: i for token, i in named if i is not None}}
        # Longer ones first, so that none is taken for the beginning of another; nothing matches where there are none.
        written = "|".join(re.escape(token) for token in sorted(found, key=len, reverse=True) if token) or r"(?!)"
        ids = numpy.array(sorted(set(found.values())), dtype="int64")
        _special_tokens[tokenizer] = SpecialTokens(ids, tokenizer.unk_token_id, re.compile(written))
    return _special_tokens[tokenizer]


def encode_texts(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> list[Pieces]:
    """Cut the texts of a batch into pieces. No piece is special, whatever is written; unknown characters give the unknown piece.

    tokenizer (PreTrainedTokenizerFast): from `prepare_tokenizer`.
    texts (list[str]): any.
    RETURNS (list[Pieces]): one entry per text.
    """
    special = special_tokens(tokenizer)
    encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    lengths = [len(encoding) for encoding in encodings]
    ids = _join((encoding.ids for encoding in encodings), sum(lengths))
    # One after the other: lists of all pairs would be so many objects that Python looks for garbage among everything there is.
    pairs = (map(encoding.token_to_chars, range(length)) for encoding, length in zip(encodings, lengths, strict=True))
    offsets = _join(map(chain.from_iterable, pairs), 2 * sum(lengths)).reshape(-1, 2)
    is_special = numpy.isin(ids, special.ids)
    is_wrong = is_special & (ids != special.unknown)
    pieces, start = [], 0
    for text, encoding, length in zip(texts, encodings, lengths, strict=True):
        here = slice(start, start + length)
        n_written = len(special.pattern.findall(text))
        found = Pieces(ids[here], offsets[here, 0], offsets[here, 1], encoding.tokens, n_written)
        # An unknown piece is right, unless the token for it is what is written there.
        suspicious = is_special[here] if n_written else is_wrong[here]
        pieces.append(_spell_out(tokenizer, text, found) if suspicious.any() else found)
        start += length
    return pieces


def _join(parts: Iterator, size: int) -> Ints:
    return numpy.fromiter(chain.from_iterable(parts), dtype="int64", count=size)


def _spell_out(tokenizer: PreTrainedTokenizerFast, text: str, pieces: Pieces) -> Pieces:
    """Encode what became a special piece again, one character at a time.

    The setting `encode_special_tokens` keeps the tokenizer from looking for special tokens, but a model that finds them in its
    vocabulary, as Unigram does, still takes them for words.
    """
    special = special_tokens(tokenizer)
    among = set(special.ids.tolist())
    rows: list[Row] = []
    letters: dict[str, list[tuple[int, str]]] = {}
    for row in zip(pieces.ids.tolist(), pieces.starts.tolist(), pieces.ends.tolist(), pieces.strings, strict=True):
        i, start, end, _ = row
        if i not in among or (i == special.unknown and not special.pattern.search(text, start, end)):
            rows.append(row)
            continue
        for at in range(start, end):
            if text[at] not in letters:
                letters[text[at]] = _encode_letter(tokenizer, text[at])
            rows.extend((i, at, at + 1, string) for i, string in letters[text[at]])
    ids, starts, ends = (numpy.array([row[k] for row in rows], dtype="int64") for k in range(3))
    return Pieces(ids, starts, ends, [row[3] for row in rows], pieces.special_text)


def _encode_letter(tokenizer: PreTrainedTokenizerFast, letter: str) -> list[tuple[int, str]]:
    """Ids and strings of one character; where even that is special, the unknown piece, or nothing if there is none."""
    special, backend = special_tokens(tokenizer), tokenizer.backend_tokenizer
    found: list[tuple[int, str]] = []
    if letter.isascii() and letter.isprintable() and not letter.isspace():
        # Straight from the model: the steps in front of it would mark every letter as the beginning of a word.
        written = backend.normalizer.normalize_str(letter) if backend.normalizer else letter
        found = [(token.id, token.value) for token in backend.model.tokenize(written)]
    if not found:
        encoding = backend.encode(letter, add_special_tokens=False)
        found = list(zip(encoding.ids, encoding.tokens, strict=True))
    if special.unknown is None:
        return [(i, string) for i, string in found if i not in special.ids]
    return [(special.unknown, tokenizer.unk_token) if i in special.ids else (i, string) for i, string in found]
