"""Odd text through every tokenizer: nothing in it is special, every token has its own pieces, and a batch changes nothing."""

import copy
import unicodedata
from functools import lru_cache

import numpy
import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from spacy_attention.layers.alignment import align_offsets, token_offsets
from spacy_attention.layers.pieces import Pieces, encode_texts, prepare_tokenizer, special_tokens
from spacy_attention.models.backbone import build_transformer_backbone

from .. import helpers
from ..checkpoint_families import FAMILIES

NLP = spacy.blank("en")
ODD = {
    "emoji": "ok 👍🏽 and 👩‍👩‍👧‍👦, 🏳️‍🌈🇩🇪! ❤️",
    "zero-width": "a\u200bb \u200b \u200c\u200d\ufeff c\u00add\u2060",
    "combining accents": "e\u0301a\u0323\u0301 Zu\u0308rich na\u00efve \u0301 q\u0335\u0327\u0301\u0302\u0303",
    "tabs": "one\ttwo\t\tthree \t four",
    "spaces": "left" + " " * 1000 + "right",
    "word of 4,000 characters": "incomprehensib" + "il" * 1990 + "ities",
    "CJK": "请帮我查一下订单我的包裹还没有到麻烦尽快回复谢谢" * 16 + "请帮我查一下订单包裹还没有到麻烦",
    "Arabic and Devanagari": "أَيْنَ طَلَبِي؟ मेरा ऑर्डर कहाँ है? क्षत्रिय ﷺ ﻻ",
    "line ends": "one\r\ntwo\r\n\r\n three\u2028four\x85five",
    "NUL": "a\x00b \x00 \x00\x00c\x01",
    "replacement character": "caf\ufffd \ufffd \ufffd\ufffd",
    "compatibility": "ﬁne ½ ①② Ａｂｃ ㎏ ℌ ™ …",
    "Hangul": "\u1112\u1161\u11ab\u1100\u1173\u11af 한글",
    "special in full width": "＜s＞ ［SEP］ ＜／s＞",
    "marks of tokenizers": "▁a ▁ Ġb Ċ ##c",
    "empty": "",
    "whitespace": " \n\t  \r\n ",
}
ORDINARY = ["Ann Lee wants her money back", "My order 4711 never arrived"]
# Not covered by pieces with some tokenizer: what is dropped, or melts into the character before it.
MAY_BE_LEFT_OUT = {"Zs", "Zl", "Zp", "Cc", "Cf", "Mn", "Mc"}
SPECIAL = "special tokens"


@pytest.fixture(params=FAMILIES)
def family(request) -> str:
    return request.param


@pytest.fixture
def tokenizer(family, family_folder) -> PreTrainedTokenizerFast:
    return read_tokenizer(str(family_folder(family)))


@lru_cache
def read_tokenizer(folder: str) -> PreTrainedTokenizerFast:
    return prepare_tokenizer(AutoTokenizer.from_pretrained(folder))


@lru_cache
def load_model(folder: str):
    model = build_transformer_backbone(folder, precision="float32", window=64, stride=48)
    model.initialize()
    return model


def text_of(name: str, tokenizer: PreTrainedTokenizerFast) -> str:
    if name != SPECIAL:
        return ODD[name]
    one = tokenizer.all_special_tokens
    return f"{' '.join(one)} glued{''.join(one)}together {one[0]}Ann {one[-1].upper()} {one[-1]}😀{one[0]}"


def encode(tokenizer: PreTrainedTokenizerFast, text: str) -> Pieces:
    """Of a text that is not empty."""
    return encode_texts(tokenizer, [text])[0]


def check_pieces(tokenizer: PreTrainedTokenizerFast, text: str, pieces: Pieces) -> None:
    """No piece is special, and offsets lie in the text, in order."""
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    assert not special & set(pieces.ids.tolist())
    written = {text[a:b] for a, b in zip(pieces.starts, pieces.ends, strict=True)}
    assert not written & set(tokenizer.all_special_tokens), "the token for unknown pieces is text as well"
    assert len(pieces.ids) == len(pieces.starts) == len(pieces.ends) == len(pieces.strings)
    assert tokenizer.convert_tokens_to_ids(pieces.strings) == pieces.ids.tolist() or tokenizer.unk_token_id in pieces.ids
    if len(pieces.ids):
        assert pieces.starts.min() >= 0
        assert pieces.ends.max() <= len(text)
        assert (pieces.starts <= pieces.ends).all()
        assert (numpy.diff(pieces.starts) >= 0).all()
        assert (numpy.diff(pieces.ends) >= 0).all()


def check_alignment(text: str, pieces: Pieces) -> None:
    """Each token that is not space has exactly the pieces that share a character with it."""
    doc = NLP.make_doc(text)
    first, last = align_offsets(*token_offsets(doc), pieces.starts, pieces.ends)
    assert len(first) == len(doc)
    for token, a, b in zip(doc, first, last, strict=True):
        start, end = token.idx, token.idx + len(token)
        shared = numpy.flatnonzero(numpy.maximum(pieces.starts, start) < numpy.minimum(pieces.ends, end))
        if not token.is_space:
            assert list(range(a, b)) == shared.tolist(), token.text


@pytest.mark.parametrize("name", [SPECIAL, *ODD])
def test_pieces_and_alignment(tokenizer, name):
    text = text_of(name, tokenizer)
    pieces = encode(tokenizer, text)
    check_pieces(tokenizer, text, pieces)
    check_alignment(text, pieces)
    covered = {i for a, b in zip(pieces.starts, pieces.ends, strict=True) for i in range(a, b)}
    left_out = {char for i, char in enumerate(text) if i not in covered}
    composed = set("\u1161\u11ab\u1173\u11af")  # parts of a syllable that stands for them
    assert {char for char in left_out if unicodedata.category(char) not in MAY_BE_LEFT_OUT} <= {"\ufffd", *composed}
    if name == "word of 4,000 characters" and "WordPiece" not in type(tokenizer.backend_tokenizer.model).__name__:
        assert len(pieces.ids) > 500


@pytest.mark.parametrize("name", [SPECIAL, *ODD])
def test_vectors_alone_and_in_a_batch(family, family_folder, name):
    model = load_model(str(family_folder(family)))
    text = text_of(name, model.shims[0].tokenizer)
    batch = [ORDINARY[0], text, ORDINARY[1]]
    together = model.predict([NLP.make_doc(t) for t in batch])
    for i, t in enumerate(batch):
        alone = model.predict([NLP.make_doc(t)])
        data, expected = together.doc_data[i], alone.doc_data[0]
        assert ("last_hidden_state" in data.model_output) == bool(t)
        if t:
            rows = data.model_output.last_hidden_state
            numpy.testing.assert_allclose(rows, expected.model_output.last_hidden_state, atol=1e-5)
            assert numpy.isfinite(rows).all()
            assert rows.shape == (1, 1 + len(encode(model.shims[0].tokenizer, t).ids), helpers.WIDTH)
        numpy.testing.assert_array_equal(data.align.lengths, expected.align.lengths)
        numpy.testing.assert_array_equal(data.align.dataXd, expected.align.dataXd)


def test_special_text_is_counted(tokenizer):
    special = tokenizer.all_special_tokens
    texts = [*ORDINARY, *special, " and ".join(special * 2), "".join(special), "<no> [SUCH] <|token|>"]
    counts = [pieces.special_text for pieces in encode_texts(tokenizer, texts)]
    assert counts == [0, 0, *[1] * len(special), 2 * len(special), len(special), 0]


def test_special_text_in_a_batch_leaves_the_others_alone(tokenizer):
    """And is encoded as it is alone."""
    texts = [ORDINARY[0], text_of(SPECIAL, tokenizer), ORDINARY[1]]
    for text, pieces in zip(texts, encode_texts(tokenizer, texts), strict=True):
        expected = encode(tokenizer, text)
        assert pieces.strings == expected.strings
        for found, wanted in zip(pieces[:3], expected[:3], strict=True):
            assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("family", ["xlm-roberta", "deberta-v2", "t5", "albert"], indirect=True)
def test_unigram_would_have_taken_them_for_special(tokenizer):
    """Even told not to look for them, it finds them in its vocabulary; here they come out one character at a time."""
    token = tokenizer.eos_token or tokenizer.sep_token
    encoding = tokenizer.backend_tokenizer.encode(f"a{token}b", add_special_tokens=False)
    if "[" not in token:  # ALBERT's has capitals, which its tokenizer does not keep
        assert tokenizer.convert_tokens_to_ids(token) in encoding.ids
    pieces = encode(tokenizer, f"a{token}b")
    inner = [i for i in range(len(pieces.ids)) if pieces.starts[i] >= 1 and pieces.ends[i] <= 1 + len(token)]
    assert "".join(pieces.strings[i] for i in inner).lower() == token.lower()
    assert pieces.ends.tolist()[-1] == len(token) + 2


def test_character_that_is_special_itself(family_folder):
    """With nothing else to write it with, it is unknown."""
    tokenizer = prepare_tokenizer(AutoTokenizer.from_pretrained(family_folder("t5")))
    tokenizer.add_special_tokens({"additional_special_tokens": ["|"]})
    assert tokenizer.convert_tokens_to_ids("|") in special_tokens(tokenizer).ids
    pieces = encode(tokenizer, "a|b")
    assert pieces.strings == ["▁a", "<unk>", "b"]
    assert [pieces.starts.tolist(), pieces.ends.tolist()] == [[0, 1, 2], [1, 2, 3]]
    assert pieces.special_text == 1
    tokenizer = prepare_tokenizer(copy.deepcopy(tokenizer))
    tokenizer.unk_token = None
    assert encode(tokenizer, "a|b").strings == ["▁a", "b"]


odd_text = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from("ab e\u0301\u0323\u200b\u200d\ufe0f👩🏽漢ﬁ½ﷺ\t\n\r\x00\ufffd\u0915\u093f▁ĠＡ\u1100\u1161\u00a0\u3000"),
    ),
    max_size=25,
)
tokens_of_all = st.sampled_from(
    ["<s>", "</s>", "<unk>", "[SEP]", "[CLS]", "[UNK]", "<|endoftext|>", "<mask>", "<extra_id_0>", "＜s＞"]
)
mixed = st.lists(st.one_of(odd_text, tokens_of_all), max_size=5).map("".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(mixed, min_size=1, max_size=4))
def test_any_text(tokenizer, texts):
    for text, pieces in zip(texts, encode_texts(tokenizer, texts), strict=True):
        check_pieces(tokenizer, text, pieces)
        check_alignment(text, pieces)
