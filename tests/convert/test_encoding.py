import pytest

from spacy_attention.convert.encoding import read_head, read_source, repair, without_surrogates


def test_plain_utf8_and_line_ends_are_untouched(write_file):
    source = read_source(write_file("a.txt", "é\r\n😀\n"))
    assert source.text == "é\r\n😀\n"
    assert source.problems == []


def test_byte_order_mark_is_removed(write_file):
    path = write_file("a.txt", b"\xef\xbb\xbfhi")
    assert read_source(path).text == "hi"
    assert read_head(path) == "hi"


def test_cesu8_pair_becomes_one_character_and_is_listed(write_file):
    source = read_source(write_file("a.txt", b"one\nparty \xed\xa0\xbc\xed\xbd\x95!\n"))
    assert source.text == "one\nparty 🍕!\n"
    [problem] = source.problems
    assert (problem.line, problem.kind, problem.action) == (2, "bad_encoding", "kept")
    assert problem.text == "party 🍕!"


def test_byte_order_mark_is_removed_from_a_repaired_file(write_file):
    assert read_source(write_file("a.txt", b"\xef\xbb\xbf\xed\xa0\xbc\xed\xbd\x95")).text == "🍕"


def test_single_surrogate_becomes_the_replacement_character():
    assert repair("a\ud83cb") == "a\ufffdb"
    assert without_surrogates("a\ud83c\udf55b") == "a\ufffd\ufffdb"


def test_other_bytes_are_refused_with_their_place(write_file):
    with pytest.raises(ValueError, match=r"E404.*byte 4 .*0xe9.*line 2"):
        read_source(write_file("a.txt", b"ab\nc\xe9"))


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="E401"):
        read_source(tmp_path / "none.txt")
    with pytest.raises(ValueError, match="E401"):
        read_head(tmp_path)
