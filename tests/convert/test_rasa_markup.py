import pytest

from spacy_attention.convert.rasa_markup import parse_markup
from spacy_attention.convert.types import SourceSpan


@pytest.mark.parametrize(
    ("source", "text", "spans"),
    [
        ("no markup", "no markup", []),
        ("", "", []),
        ("to [Ulm](CITY)!", "to Ulm!", [(3, 6, "CITY")]),
        ("[a](X)[b](Y)", "ab", [(0, 1, "X"), (1, 2, "Y")]),
        ("[two words](A B)", "two words", [(0, 9, "A B")]),
        ("[a\nb](X)", "a\nb", [(0, 3, "X")]),
        (r"\[sic\] [Ulm](CITY)", "[sic] Ulm", [(6, 9, "CITY")]),
        (r"[room \[2\]](ROOM)", "room [2]", [(0, 8, "ROOM")]),
        (r"C:\temp [x](L)", r"C:\temp x", [(8, 9, "L")]),
        ("😀 [😀](E)", "😀 😀", [(2, 3, "E")]),
        ("[](X)", "", [(0, 0, "X")]),
        ('[Ulm]{"entity": "CITY"}', "Ulm", [(0, 3, "CITY")]),
        ('[Ulm][{"entity": "CITY"}, {"entity": "PLACE"}]', "Ulm", [(0, 3, "CITY"), (0, 3, "PLACE")]),
    ],
)
def test_markup(source, text, spans):
    message = parse_markup(source)
    assert message.text == text
    assert message.spans == [SourceSpan(*span) for span in spans]
    assert message.notes == []


@pytest.mark.parametrize(
    ("source", "note"),
    [
        ("[Ulm](CITY:ulm)", "value=ulm"),
        ('[Ulm]{"entity": "CITY", "value": "{ulm}"}', "value={ulm}"),
        ('[Ulm]{"entity": "CITY", "role": "to"}', "role=to"),
    ],
)
def test_values_and_roles_are_noted(source, note):
    message = parse_markup(source)
    assert (message.text, message.spans) == ("Ulm", [SourceSpan(0, 3, "CITY")])
    assert [(n.start, n.end, n.text, n.kind, n.action) for n in message.notes] == [(0, 3, note, "unknown_field", "dropped")]


@pytest.mark.parametrize(
    "source",
    [
        "[Ulm]",
        "[Ulm] (CITY)",
        "[Ulm]()",
        "[Ulm]( )",
        "[Ulm](CITY",
        "[page](https://example.org/a)",
        '[Ulm]{"entity": ',
        '[Ulm]{"value": "x"}',
        "[Ulm][]x"[:-4],
        "a [ b",
        "a ] b",
    ],
)
def test_brackets_that_are_no_markup_stay_and_are_noted(source):
    message = parse_markup(source)
    assert (message.text, message.spans) == (source, [])
    [note] = message.notes
    assert (note.kind, note.action) == ("invalid_tag", "kept")
    assert message.text[note.start : note.end] == note.text


def test_inner_markup_of_an_open_bracket_is_found():
    message = parse_markup("[see [Ulm](CITY)")
    assert (message.text, message.spans) == ("[see Ulm", [SourceSpan(5, 8, "CITY")])


def test_deep_nesting_is_text():
    source = "[Ulm]" + "[" * 50_000
    assert parse_markup(source).text == source
