"""Restores a text from tokens whose spaces are not known, by the rules of English typography."""

import re
from collections.abc import Sequence
from itertools import pairwise

_ATTACHED = re.compile(r"[.,;!?…]+|[:%)\]}”’»]|''")
_OPENING = re.compile(r"[(\[{“‘«]|``")
_SIGN = re.compile(r"[$£€] \d|# \w")
_CLITIC = re.compile(r"['’´](?:s|t|m|re|ve|ll|d)|n['’´]t", re.IGNORECASE)
_APOSTROPHE = re.compile(r"['’´]")
_QUOTES = ('"', "'")


def find_spaces(tokens: Sequence[str]) -> list[bool]:
    """Find after which tokens of a sentence a space is written.

    There is none before `. , ; : ! ? % ) ] }`, closing quotes and clitics (`'s 't 'm 're 've 'll 'd n't`, also where the
    apostrophe is a token of its own), none after `( [ {` and opening quotes, and none between `$ £ €` and a digit or `#`
    and a word. The straight double quotes of a sentence open and close in turn, one that ends it closes. So do single ones, but
    one without a partner is an apostrophe at the end of a word. Everywhere else there is a space.

    tokens (Sequence[str]): the tokens of one sentence.
    RETURNS (list[bool]): one per token, False for the last.
    """
    closes, opens = _bound_by_shape(tokens)
    for quote in _QUOTES:
        _bind_quotes(tokens, quote, closes, opens)
    last = len(tokens) - 1
    return [i < last and not opens[i] and not closes[i + 1] for i in range(len(tokens))]


def join_tokens(tokens: Sequence[str], spaces: Sequence[bool]) -> tuple[str, list[int]]:
    """Join tokens to a text in which each stands at a known place.

    tokens (Sequence[str]): the tokens.
    spaces (Sequence[bool]): whether a space follows; that of the last token is not written.
    RETURNS (tuple[str, list[int]]): the text and the first character of each token.
    """
    text, starts = "", []
    for i, token in enumerate(tokens):
        text += " " if i and spaces[i - 1] else ""
        starts.append(len(text))
        text += token
    return text, starts


def _bound_by_shape(tokens: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """Which tokens are bound to the one before, and which to the one after, whatever the quotes."""
    closes = [bool(_ATTACHED.fullmatch(token) or _CLITIC.fullmatch(token)) for token in tokens]
    opens = [bool(_OPENING.fullmatch(token)) for token in tokens]
    for i, (token, after) in enumerate(pairwise(tokens)):
        if _SIGN.fullmatch(f"{token} {after[:1]}"):
            opens[i] = True
        if i and _APOSTROPHE.fullmatch(token) and _CLITIC.fullmatch(token + after):
            closes[i] = closes[i + 1] = True
            if i > 1 and _CLITIC.fullmatch(tokens[i - 1] + token + after):
                closes[i - 1] = True
    return closes, opens


def _bind_quotes(tokens: Sequence[str], quote: str, closes: list[bool], opens: list[bool]) -> None:
    """Let the quotes that are no apostrophe of a clitic open and close in turn."""
    places = [i for i, token in enumerate(tokens) if token == quote and not closes[i]]
    for n, i in enumerate(places):
        is_apostrophe = quote == "'" and i > 0 and n == len(places) - 1
        opens[i] = n % 2 == 0 and i < len(tokens) - 1 and not is_apostrophe
        closes[i] = not opens[i]
