import pytest

from spacy_attention.convert.detokenize import find_spaces, join_tokens


def restore(tokens):
    tokens = tokens.split(" ")
    text, starts = join_tokens(tokens, find_spaces(tokens))
    assert [text[start : start + len(token)] for start, token in zip(starts, tokens, strict=True)] == tokens
    return text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("Mr. Doe , 44 , left : why ?", "Mr. Doe, 44, left: why?"),
        ("wait ... what ?!", "wait... what?!"),
        ("great :) or :-(", "great :) or :-("),
        ("a ( b [ c ] ) { d } ; 5 %", "a (b [c]) {d}; 5%"),
        ("pays $ 5 for # 1 , not $ or #", "pays $5 for #1, not $ or #"),
        ("I 'm sure they do n't say it 's Ann 's", "I'm sure they don't say it's Ann's"),
        ("You 're here , I 've , he 'd , we 'LL", "You're here, I've, he'd, we'LL"),
        ("You should ' ve , I ca n ' t , it ´ s", "You should've, I can't, it´s"),
        ('He said : " go " , then " stop "', 'He said: "go", then "stop"'),
        ('" What is it "', '"What is it"'),
        ('and so on . "', 'and so on."'),
        ("`` Go '' “ home ” « now » ‘ it ’", "``Go'' “home” «now» ‘it’"),
        ("the ' hit ' of Coats ' disease", "the 'hit' of Coats' disease"),
        ("' Tis so", "'Tis so"),
        ("ataxia - telangiectasia and / or", "ataxia - telangiectasia and / or"),
        (".", "."),
        ('"', '"'),
    ],
)
def test_text_is_restored(tokens, text):
    assert restore(tokens) == text


def test_no_tokens():
    assert find_spaces([]) == []
    assert join_tokens([], []) == ("", [])


def test_spaces_that_are_known_count():
    assert join_tokens(["German", "-", "owned", "."], [False, False, False, True]) == ("German-owned.", [0, 6, 7, 12])
