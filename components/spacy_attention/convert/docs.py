"""The one place where records become `Doc` objects."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc

from ..errors import Errors
from .encoding import without_surrogates
from .spans import SpanFitter
from .types import Items, Kind, OnMisaligned, Problem, Record

_EXCERPT = 80  # characters of a text shown in the account and in messages


@dataclass
class Entry:
    """A document on its way to the output.

    doc (Doc): text, tokens and entities; classes are set by `fill_cats` when all are known.
    record (Record): what it was made from.
    problems (list[Problem]): all that was listed for it; `doc` is still None.
    """

    doc: Doc
    record: Record
    problems: list[Problem]


def load_tokenizer(lang: str = "en", pipeline: str | None = None) -> Language:
    """Load what makes tokens.

    lang (str): code of a language with spaCy's rules.
    pipeline (str | None): an installed pipeline or a folder, used instead.
    RETURNS (Language): only its tokenizer is used.
    RAISES (ValueError): E413 if it cannot be loaded.
    """
    try:
        return spacy.load(pipeline) if pipeline else spacy.blank(lang)
    except (ImportError, OSError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(Errors.E413.format(name=pipeline or lang, reason=reason)) from error


def make_entries(path: Path, items: Items, nlp: Language, on_misaligned: OnMisaligned = "expand") -> Iterator[Entry | Problem]:
    """Make documents from what a reader yields.

    path (Path): the source file.
    items (Items): its records and problems.
    nlp (Language): its tokenizer makes the tokens.
    on_misaligned (OnMisaligned): what to do with entities that cut a token.
    RETURNS (Iterator[Entry | Problem]): one entry per record; problems as they came.
    RAISES (ValueError): E407 (see `SpanFitter`), E415 if the tokenizer does not keep the text.
    """
    for item in items:
        if isinstance(item, Problem):
            yield item
        else:
            yield _make_entry(path, item, nlp, on_misaligned)


def fill_cats(entries: list[Entry]) -> list[str]:
    """Set the classes of all documents; a listed class gets 1.0 and every other class of the run 0.0.

    entries (list[Entry]): all documents of the run.
    RETURNS (list[str]): the sorted names of the classes.
    """
    names = {name for entry in entries for name in entry.record.cats or {}}
    names |= {entry.record.label for entry in entries if entry.record.label is not None}
    labels = sorted(names)
    for entry in entries:
        if entry.record.cats is not None:
            entry.doc.cats = dict(entry.record.cats)
        elif entry.record.label is not None:
            entry.doc.cats = {label: float(label == entry.record.label) for label in labels}
    return labels


def _make_entry(path: Path, record: Record, nlp: Language, on_misaligned: OnMisaligned) -> Entry:
    record, problems = _repair(path, record)
    text = record.text
    if not text:
        problems.append(_about_text(path, record, "empty", text))
    doc = nlp.tokenizer(text)
    if doc.text != text:
        found, expected = doc.text[:_EXCERPT], text[:_EXCERPT]
        raise ValueError(Errors.E415.format(path=path, line=record.line, found=found, expected=expected))
    if record.spans is None:
        return Entry(doc, record, problems)
    fitter = SpanFitter(doc, str(path), record.line, on_misaligned)
    doc.set_ents(fitter.fit(record.spans), default="outside")
    return Entry(doc, record, problems + fitter.problems)


def _repair(path: Path, record: Record) -> tuple[Record, list[Problem]]:
    """Replace what cannot be written as UTF-8 in the text and in the names of classes and entities."""
    clean = without_surrogates
    repaired = replace(
        record,
        text=clean(record.text),
        spans=record.spans and [replace(span, label=clean(span.label)) for span in record.spans],
        label=record.label and clean(record.label),
        cats=record.cats and {clean(name): value for name, value in record.cats.items()},
    )
    problems = list(record.problems)
    if repaired != record:
        problems.append(_about_text(path, record, "bad_encoding", repaired.text))
    return repaired, problems


def _about_text(path: Path, record: Record, kind: Kind, text: str) -> Problem:
    return Problem(str(path), record.line, None, None, None, None, text[:_EXCERPT], kind, "kept")
