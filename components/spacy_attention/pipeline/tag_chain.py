"""Reading entities out of the tag scores of a batch: the best sequence, its probabilities, and what else might be one."""

from collections.abc import Iterator, Sequence

import numpy
import torch
from torch import Tensor

from ..nn import tags
from ..nn.best_spans import LabelledSpan, most_probable_spans
from ..nn.restricted_path import best_of_spans
from ..nn.span_scores import score_spans, span_log_probability
from ..nn.viterbi import viterbi
from ..types import EntityPrediction


class TagChain:
    """The conditional random field over a batch.

    emissions (Tensor): (tokens, tags), documents one after the other. transitions (Tensor): (labels + 1, labels + 1).
    lengths (Sequence[int]): tokens of each document.
    labels (Sequence[str]): in the order of the tags.
    """

    def __init__(self, emissions: Tensor, transitions: Tensor, lengths: Sequence[int], labels: Sequence[str]):
        self._emissions, self._transitions = emissions, transitions
        self._lengths = torch.tensor(lengths, dtype=torch.int64)
        self._offsets = numpy.cumsum([0, *lengths]).tolist()
        self._labels = labels
        self._scores = score_spans(emissions, self._lengths, transitions)

    def entities(self, *, min_confidence: float = 0.0) -> list[list[EntityPrediction]]:
        """Find the most probable tag sequence of each document among those whose entities all have some probability.

        min_confidence (float): that probability, in [0, 1].
        RETURNS (list): per document its entities in text order.
        """
        found = self._most_probable()
        for document, entities in enumerate(found):
            if any(entity.confidence < min_confidence for entity in entities):
                found[document] = self._most_probable_of(document, min_confidence)
        return found

    def candidates(self, document: int, *, least: float) -> Iterator[EntityPrediction]:
        """Give the spans of a document by descending probability.

        document (int): its number in the batch. least (float): probability above 0 from which on spans are given.
        YIELDS (EntityPrediction): they may overlap.
        """
        spans = most_probable_spans(self._scores, document, self._rows(document), least=least)
        return (self._prediction(document, span) for span in spans)

    def _most_probable(self) -> list[list[EntityPrediction]]:
        names = tags.tag_names(self._labels)
        best = [names[column] for column in viterbi(self._emissions, self._lengths, self._transitions).tolist()]
        document, start, end, label = self._spans_in(best)
        probabilities = span_log_probability(self._scores, document, start, end, label).exp()
        found: list[list[EntityPrediction]] = [[] for _ in self._lengths]
        for d, *span in zip(document.tolist(), *(x.tolist() for x in (start, end, label, probabilities)), strict=True):
            found[d].append(self._prediction(d, LabelledSpan(*span)))
        return found

    def _most_probable_of(self, document: int, min_confidence: float) -> list[EntityPrediction]:
        rows = self._rows(document)
        spans = list(most_probable_spans(self._scores, document, rows, least=min_confidence))
        return [self._prediction(document, span) for span in best_of_spans(self._scores, self._transitions, rows, spans)]

    def _rows(self, document: int) -> range:
        return range(self._offsets[document], self._offsets[document + 1])

    def _prediction(self, document: int, span: LabelledSpan) -> EntityPrediction:
        offset = self._offsets[document]
        return EntityPrediction(span.start - offset, span.end - offset, self._labels[span.label], span.probability)

    def _spans_in(self, best: list[str]) -> tuple[Tensor, ...]:
        numbers = {label: i for i, label in enumerate(self._labels)}
        documents = numpy.repeat(numpy.arange(len(self._lengths)), self._lengths)
        spans, start = [], 0
        for row, tag in enumerate(best):
            if tag[0] in "BU":
                start = row
            if tag[0] in "LU":
                spans.append((documents[row], start, row + 1, numbers[tag[2:]]))
        return tuple(torch.tensor(spans, dtype=torch.int64).reshape(-1, 4).unbind(1))
