import pytest
from tokenizers import normalizers, pre_tokenizers, processors
from transformers import BertTokenizerFast

from spacy_attention.layers import pieces as pieces_module
from spacy_attention.layers.pieces import encode_texts, prepare_tokenizer, special_ids

LONG = "Ann Lee wants her money back, and so does Bob. " * 20


@pytest.fixture
def tokenizer(tiny_checkpoint) -> BertTokenizerFast:
    return prepare_tokenizer(BertTokenizerFast.from_pretrained(tiny_checkpoint))


def encode(tokenizer, *texts: str):
    return encode_texts(tokenizer, list(texts))


@pytest.mark.parametrize("text", ["[SEP]", "a [CLS] b", "say [MASK][PAD] twice: [PAD]", "[UNK]"])
def test_special_looking_text_stays_text(tokenizer, text):
    (pieces,) = encode(tokenizer, text)
    special = {tokenizer.convert_tokens_to_ids(t) for t in tokenizer.all_special_tokens}
    assert not special & set(pieces.ids.tolist())
    covered = {i for a, b in zip(pieces.starts, pieces.ends, strict=True) for i in range(a, b)}
    assert covered == {i for i, char in enumerate(text) if not char.isspace()}


def test_unprepared_tokenizer_would_have_taken_it_for_special(tiny_checkpoint):
    tokenizer = BertTokenizerFast.from_pretrained(tiny_checkpoint)
    assert tokenizer.backend_tokenizer.encode("[SEP]", add_special_tokens=False).ids == [tokenizer.sep_token_id]


def test_truncation_and_padding_of_the_file_are_switched_off(tiny_checkpoint, tmp_path):
    tokenizer = BertTokenizerFast.from_pretrained(tiny_checkpoint)
    tokenizer.backend_tokenizer.enable_truncation(16)
    tokenizer.backend_tokenizer.enable_padding(length=32, pad_id=tokenizer.pad_token_id)
    tokenizer.save_pretrained(tmp_path)
    again = BertTokenizerFast.from_pretrained(tmp_path)
    before = again.backend_tokenizer.encode_batch([LONG, "a"], add_special_tokens=False)
    assert [len(encoding) for encoding in before] == [32, 32]
    long, short = encode(prepare_tokenizer(again), LONG, "a")
    assert long.ends[-1] == len(LONG) - 1
    assert len(long.ids) > 100
    assert len(short.ids) == 1


def test_preparation_survives_saving(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    again = prepare_tokenizer(BertTokenizerFast.from_pretrained(tmp_path))
    (pieces,) = encode(tokenizer, LONG + "[SEP]")
    (same,) = encode(again, LONG + "[SEP]")
    assert pieces.ids.tolist() == same.ids.tolist()


def test_offsets_point_at_the_characters(tokenizer):
    text = "Ann  wants\tthe naïve order-4711!"
    (pieces,) = encode(tokenizer, text)
    for start, end, string in zip(pieces.starts, pieces.ends, pieces.strings, strict=True):
        expected = string.removeprefix("##")
        assert string == "[UNK]" or text[start:end].lower().replace("ï", "i") == expected
    assert (pieces.starts[1:] >= pieces.ends[:-1]).all()


def test_nothing_is_added_around_a_text_and_texts_do_not_mix(tokenizer):
    alone = [encode(tokenizer, text)[0] for text in ("Ann Lee", "   ", LONG)]
    together = encode(tokenizer, "Ann Lee", "   ", LONG)
    for one, other in zip(alone, together, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
    assert tokenizer.cls_token_id not in together[0].ids
    assert len(together[1].ids) == 0
    assert together[1].starts.shape == (0,)


def test_special_text_is_counted(tokenizer):
    texts = ["Ann [SEP] Lee[SEP]", "[MASK", "", "[UNK][PAD] [sep]"]
    assert [pieces.special_text for pieces in encode(tokenizer, *texts)] == [2, 0, 0, 2]


def test_special_word_of_a_tokenizer_that_cuts_at_spaces_only(tokenizer):
    """WordPiece finds the whole word in its vocabulary; the token for unknown words is one of them."""
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    found = tokenizer.backend_tokenizer.encode("Ann [SEP] [UNK] 漢", add_special_tokens=False)
    assert found.tokens[-3:] == ["[SEP]", "[UNK]", "[UNK]"]
    (pieces,) = encode(tokenizer, "[SEP] a [UNK] 漢")
    assert pieces.strings == [*"[SEP]", "a", *"[UNK]", "[UNK]"]
    assert pieces.starts.tolist() == [0, 1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 14]
    assert (pieces.ends - pieces.starts == 1).all()


def test_ordinary_documents_are_not_encoded_twice(tokenizer, monkeypatch):
    monkeypatch.setattr(pieces_module, "_spell_out", lambda *args: pytest.fail("encoded twice"))
    assert len(encode(tokenizer, "Ann Lee", LONG, "漢 😀", "[SEP] is text for this tokenizer")) == 4


def test_no_documents(tokenizer):
    assert encode(tokenizer) == []


def test_special_ids(tokenizer):
    found = special_ids(tokenizer)
    assert (found.before, found.after, found.pad) == ([tokenizer.cls_token_id], [tokenizer.sep_token_id], tokenizer.pad_token_id)


def test_special_ids_of_a_tokenizer_that_adds_none(tokenizer):
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    assert special_ids(tokenizer)[:2] == ([], [])


def test_special_ids_of_a_tokenizer_that_only_ends(tokenizer):
    sep = ("[SEP]", tokenizer.sep_token_id)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A [SEP]", special_tokens=[sep])
    assert special_ids(tokenizer)[:2] == ([], [tokenizer.sep_token_id])
