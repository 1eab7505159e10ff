"""Brings the entities of a source onto the tokens of a `Doc`; what does not fit is listed."""

from dataclasses import dataclass, field

from spacy.tokens import Doc, Span

from ..errors import Errors
from .types import Action, Kind, OnMisaligned, Problem, SourceSpan


@dataclass
class SpanFitter:
    """Fits the entities of one document, and lists what it changes or drops.

    doc (Doc): the tokenized text.
    file (str): source file, for the list.
    line (int | None): line in the source.
    on_misaligned (OnMisaligned): what to do with an entity that cuts a token.
    problems (list[Problem]): filled by `fit`.
    """

    doc: Doc
    file: str
    line: int | None
    on_misaligned: OnMisaligned = "expand"
    problems: list[Problem] = field(default_factory=list)

    def fit(self, spans: list[SourceSpan]) -> list[Span]:
        """Check, trim, thin out and align.

        spans (list[SourceSpan]): entities in the order of the source.
        RETURNS (list[Span]): entities that share no token, by position.
        RAISES (ValueError): E407 for an entity that cuts a token if `on_misaligned` is `error`.
        """
        valid = [span for span in spans if self._is_valid(span)]
        trimmed = [span for span in map(self._trim, valid) if span is not None]
        return self._align(self._without_overlaps(self._without_duplicates(trimmed)))

    def _list(self, span: SourceSpan, kind: Kind, action: Action) -> None:
        text = self.doc.text[max(span.start, 0) : max(span.end, 0)]
        problem = Problem(self.file, self.line, None, span.start, span.end, span.label, text, kind, action)
        self.problems.append(problem)

    def _is_valid(self, span: SourceSpan) -> bool:
        if not span.label.strip():
            self._list(span, "invalid_tag", "refused")
            return False
        if 0 <= span.start <= span.end <= len(self.doc.text):
            return True
        self._list(span, "out_of_range", "dropped")
        return False

    def _trim(self, span: SourceSpan) -> SourceSpan | None:
        text = self.doc.text[span.start : span.end]
        if not text.strip():
            self._list(span, "empty", "dropped")
            return None
        start = span.start + len(text) - len(text.lstrip())
        end = span.end - len(text) + len(text.rstrip())
        if (start, end) == (span.start, span.end):
            return span
        self._list(span, "whitespace", "trimmed")
        return SourceSpan(start, end, span.label)

    def _without_duplicates(self, spans: list[SourceSpan]) -> list[SourceSpan]:
        unique: dict[SourceSpan, None] = {}
        for span in spans:
            if span in unique:
                self._list(span, "duplicate", "dropped")
            unique[span] = None
        return list(unique)

    def _without_overlaps(self, spans: list[SourceSpan]) -> list[SourceSpan]:
        # Longest first, then leftmost, then first in the source (sorting is stable).
        kept: list[SourceSpan] = []
        for span in sorted(spans, key=lambda span: (span.start - span.end, span.start)):
            if any(span.start < other.end and other.start < span.end for other in kept):
                self._list(span, "overlap", "dropped")
            else:
                kept.append(span)
        return sorted(kept, key=lambda span: span.start)

    def _align(self, spans: list[SourceSpan]) -> list[Span]:
        fitted = []
        for i, span in enumerate(spans):
            aligned = self.doc.char_span(span.start, span.end, label=span.label)
            if aligned is None:
                aligned = self._force(span, spans[:i] + spans[i + 1 :])
            if aligned is not None:
                fitted.append(aligned)
        return fitted

    def _force(self, span: SourceSpan, others: list[SourceSpan]) -> Span | None:
        """Align an entity that cuts a token; the tokens of other entities are not for it to take."""
        if self.on_misaligned == "error":
            raise ValueError(self._error(span))
        if self.on_misaligned == "trim":
            return self._shrink(span)
        if self.on_misaligned == "expand":
            wider = self.doc.char_span(span.start, span.end, label=span.label, alignment_mode="expand")
            if wider and not any(_shares(wider, other) for other in others):
                self._list(span, "misaligned", "expanded")
                return wider
        self._list(span, "misaligned", "dropped")
        return None

    def _error(self, span: SourceSpan) -> str:
        text = self.doc.text[span.start : span.end]
        return Errors.E407.format(path=self.file, line=self.line, text=text, label=span.label, start=span.start, end=span.end)

    def _shrink(self, span: SourceSpan) -> Span | None:
        narrower = self.doc.char_span(span.start, span.end, label=span.label, alignment_mode="contract")
        # Whitespace tokens at the new bounds would make an entity that spaCy refuses to train on.
        while narrower and narrower[0].is_space:
            narrower = Span(self.doc, narrower.start + 1, narrower.end, label=span.label)
        while narrower and narrower[-1].is_space:
            narrower = Span(self.doc, narrower.start, narrower.end - 1, label=span.label)
        self._list(span, "misaligned", "trimmed" if narrower else "dropped")
        return narrower or None


def _shares(span: Span, other: SourceSpan) -> bool:
    return other.start < span.end_char and span.start_char < other.end
