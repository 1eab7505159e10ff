import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_attention.convert.spans import SpanFitter
from spacy_attention.convert.types import SourceSpan


@pytest.fixture
def fit(nlp):
    def run(text, *spans, on_misaligned="expand"):
        fitter = SpanFitter(nlp.tokenizer(text), "a", 1, on_misaligned)
        ents = [(ent.text, ent.label_) for ent in fitter.fit([SourceSpan(*span) for span in spans])]
        return ents, [(problem.text, problem.kind, problem.action) for problem in fitter.problems]

    return run


def test_aligned_spans_pass(fit):
    assert fit("go to Ulm now", (6, 9, "C"), (0, 2, "V")) == ([("go", "V"), ("Ulm", "C")], [])


def test_adjacent_spans_pass(fit):
    assert fit("a b", (0, 1, "X"), (2, 3, "X")) == ([("a", "X"), ("b", "X")], [])


def test_whitespace_is_trimmed(fit):
    ents, problems = fit("in  Ulm \n now", (2, 10, "C"))
    assert ents == [("Ulm", "C")]
    assert problems == [("  Ulm \n ", "whitespace", "trimmed")]


@pytest.mark.parametrize("span", [(2, 2, "C"), (2, 3, "C")])
def test_span_without_text_is_dropped(fit, span):
    assert fit("in Ulm", span) == ([], [("in Ulm"[span[0] : span[1]], "empty", "dropped")])


@pytest.mark.parametrize("span", [(-1, 2, "C"), (3, 99, "C"), (4, 3, "C"), (0, 10**30, "C")])
def test_span_out_of_range_is_dropped(fit, span):
    ents, [(_, kind, action)] = fit("in Ulm", span)
    assert (ents, kind, action) == ([], "out_of_range", "dropped")


@pytest.mark.parametrize("label", ["", " "])
def test_span_without_label_is_refused(fit, label):
    assert fit("in Ulm", (3, 6, label)) == ([], [("Ulm", "invalid_tag", "refused")])


def test_duplicate_is_dropped(fit):
    ents, problems = fit("in Ulm", (3, 6, "C"), (3, 6, "C"))
    assert ents == [("Ulm", "C")]
    assert problems == [("Ulm", "duplicate", "dropped")]


def test_spans_that_are_equal_after_trimming_are_duplicates(fit):
    ents, problems = fit("in Ulm", (3, 6, "C"), (2, 6, "C"))
    assert ents == [("Ulm", "C")]
    assert problems == [(" Ulm", "whitespace", "trimmed"), ("Ulm", "duplicate", "dropped")]


def test_longest_of_overlapping_spans_is_kept(fit):
    ents, problems = fit("New York City hall", (0, 8, "A"), (4, 18, "B"), (14, 18, "C"))
    assert ents == [("York City hall", "B")]
    assert problems == [("New York", "overlap", "dropped"), ("hall", "overlap", "dropped")]


def test_first_of_two_labels_is_kept(fit):
    ents, problems = fit("in Ulm", (3, 6, "B"), (3, 6, "A"))
    assert ents == [("Ulm", "B")]
    assert problems == [("Ulm", "overlap", "dropped")]


@pytest.mark.parametrize(
    ("on_misaligned", "text", "action"),
    [("expand", "in unhappy", "expanded"), ("trim", "in", "trimmed"), ("drop", None, "dropped")],
)
def test_span_that_cuts_a_token(fit, on_misaligned, text, action):
    ents, problems = fit("walk in unhappy", (5, 10, "X"), on_misaligned=on_misaligned)
    assert ents == ([(text, "X")] if text else [])
    assert problems == [("in un", "misaligned", action)]


def test_trim_to_nothing_drops(fit):
    assert fit("unhappy", (2, 7, "X"), on_misaligned="trim") == ([], [("happy", "misaligned", "dropped")])


def test_trim_leaves_no_whitespace_token(fit):
    ents, _ = fit("walk  unhappy", (0, 8, "X"), on_misaligned="trim")
    assert ents == [("walk", "X")]


def test_token_that_two_spans_want_is_given_to_neither(fit):
    ents, problems = fit("one pmnear", (0, 6, "T"), (6, 10, "R"))
    assert ents == []
    assert problems == [("one pm", "misaligned", "dropped"), ("near", "misaligned", "dropped")]


def test_misaligned_span_can_be_an_error(fit):
    with pytest.raises(ValueError, match=r"E407.*'happy'"):
        fit("unhappy", (2, 7, "X"), on_misaligned="error")


SPANS = st.lists(st.tuples(st.integers(-2, 32), st.integers(-2, 32), st.sampled_from("AB")), max_size=8)


@settings(deadline=None)
@given(st.text("ab1 -.'\n", max_size=30), SPANS, st.sampled_from(["expand", "trim", "drop"]))
def test_every_span_is_out_or_listed(nlp, text, spans, on_misaligned):
    doc = nlp.tokenizer(text)
    fitter = SpanFitter(doc, "a", 1, on_misaligned)
    ents = fitter.fit([SourceSpan(*span) for span in spans])
    assert len(spans) == len(ents) + sum(problem.loses_span for problem in fitter.problems)
    doc.set_ents(ents, default="outside")  # raises for entities that share a token
    assert not any(ent[0].is_space or ent[-1].is_space for ent in ents)
