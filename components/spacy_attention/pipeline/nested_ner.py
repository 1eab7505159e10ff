"""`attention_ner` with `nested = true`: entities that may nest and overlap, each with its own probability."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy
import torch
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import torch2xp, xp2torch
from thinc.types import Floats2d
from torch import Tensor

from ..errors import Errors, Warnings
from ..models.head import create_head
from ..nn.calibration import best_threshold, fit_temperature
from ..nn.losses import binary_loss
from ..nn.span_scorer import all_spans
from ..types import EntityPrediction, SpanGroups
from .entity_head import EntityHead
from .span_groups import make_group

THRESHOLD = 0.5


class NestedNer(EntityHead):
    """Every span up to a length is an entity or not, whatever the others are.

    Its `min_confidence` counts from one half, or from the threshold of the calibration, on.
    """

    _warned = False

    @property
    def what_is_missing(self) -> str:  # type: ignore[override]
        """What the error about missing labels says of the training data."""
        return f"no text of the training data has a span in doc.spans['{self._key}']"

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Iterable[str] | None = None,
        max_length: int | None = None,
    ) -> None:
        """As `Head.initialize`.

        max_length (int | None): tokens of the longest span that will ever be predicted, at least 1; None for that of the longest gold span.
        RAISES (ValueError): E320 for another number, or when the component has its length already.
        """
        known = self.cfg.get("max_length") if self.is_initialized else None
        if max_length is not None and (max_length < 1 or max_length != (known or max_length)):
            raise ValueError(Errors.E320.format(name=self.name, found=max_length, expected=known or "at least 1"))
        if known is None:
            self.cfg["max_length"] = max_length or max((len(span) for span in self._all_spans(get_examples())), default=1)
        super().initialize(get_examples, nlp=nlp, labels=labels)

    def labels_of(self, example: Example) -> Iterable[str]:
        """example (Example): with gold annotation. RETURNS (Iterable[str]): labels of its spans."""
        return (span.label_ for span in self._gold_spans(example))

    def create_model(self) -> None:
        """Build the span scores for the labels that are known."""
        n_labels = len(self.labels)
        create_head(self.model, n_labels, labels=n_labels, max_length=self.cfg["max_length"])

    def predict(self, docs: Iterable[Doc]) -> list[list[EntityPrediction]]:
        """docs (Iterable[Doc]): any. RETURNS (list): per document its entities by start and length."""
        return self._at_least(list(docs), max(self.cfg.get("threshold", THRESHOLD), self.cfg["min_confidence"]))

    def by_probability(self, doc: Doc, least: float) -> Iterator[EntityPrediction]:
        """See `EntityHead.by_probability`."""
        probabilities, start, end, _ = self._probabilities([doc])
        # Most spans are none, and NaN is not at least anything.
        rows, labels = (probabilities >= least).nonzero().unbind(1)
        values, order = probabilities[rows, labels].sort(descending=True, stable=True)
        for value, i in zip(values, order, strict=True):
            row = rows[i]
            yield EntityPrediction(int(start[row]), int(end[row]), self.labels[int(labels[i])], float(value))

    def set_annotations(self, docs: Sequence[Doc], scores: list[list[EntityPrediction]]) -> None:
        """docs (Sequence[Doc]): get `doc.spans[name]` with `attrs["scores"]`. scores (list): from `predict`."""
        for doc, entities in zip(docs, scores, strict=True):
            doc.spans[self.name] = make_group(doc, self.name, entities)

    def _at_least(self, docs: list[Doc], least: float) -> list[list[EntityPrediction]]:
        probabilities, start, end, document = self._probabilities(docs)
        rows, labels = (probabilities >= least).nonzero().unbind(1)
        offsets = numpy.cumsum([0] + [len(doc) for doc in docs])
        found: list[list[EntityPrediction]] = [[] for _ in docs]
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
            d = int(document[row])
            bounds = int(start[row] - offsets[d]), int(end[row] - offsets[d])
            found[d].append(EntityPrediction(*bounds, self.labels[label], float(probabilities[row, label])))
        return found

    def _probabilities(self, docs: list[Doc]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(spans, labels) float64, -1 for spans that begin or end with whitespace; and of each span start, end and document."""
        probabilities = (xp2torch(self.model.predict(docs)).cpu().double() / self.temperature).sigmoid()
        start, end, document = self._spans(docs)
        spaces = torch.as_tensor(_spaces(docs))
        return probabilities.masked_fill((spaces[start] | spaces[end - 1])[:, None], -1.0), start, end, document

    def _spans(self, docs: Sequence[Doc]) -> tuple[Tensor, Tensor, Tensor]:
        lengths = torch.tensor([len(doc) for doc in docs], dtype=torch.int64)
        start, end = all_spans(lengths, self.cfg["max_length"])
        return start, end, torch.repeat_interleave(torch.arange(len(docs)), lengths)[start]

    def loss_and_gradient(self, examples: list[Example], scores: Floats2d) -> tuple[float, Floats2d]:
        """Binary cross-entropy of each label of each span, summed.

        examples (list): of the batch; a text without a group of gold spans adds nothing, one with an empty group has no entity.
        scores (Floats2d): (spans, labels) logits.
        RETURNS (tuple): the loss and its gradient, shaped as the scores.
        RAISES (ValueError): E303 for an unknown label, E319 for a span that is too long.
        """
        logits = xp2torch(scores.copy(), requires_grad=True)
        loss = binary_loss(logits, self._gold(examples, refuse=True).to(logits.device))
        loss.backward()
        return float(loss.detach()), torch2xp(logits.grad)

    def evidence(self, examples: list[Example]) -> tuple[Tensor, Tensor]:
        """See `Head.evidence`. RETURNS (tuple): (spans, labels) logits and gold."""
        logits = xp2torch(self.model.predict([eg.predicted for eg in examples])).cpu()
        return logits, self._gold(examples, refuse=False)

    def fit(self, evidence: list[tuple[Tensor, Tensor]]) -> dict[str, Any]:
        """See `Head.fit`. RETURNS (dict): `temperature`, and the `threshold` with the highest F1."""
        known = [(logits.double()[~gold.isnan()], gold.double()[~gold.isnan()]) for logits, gold in evidence]
        nothing = torch.zeros(0, dtype=torch.float64)
        logits, gold = (torch.cat(parts) for parts in zip((nothing, nothing), *known, strict=True))
        if not len(gold):
            return {}
        temperature = fit_temperature(lambda t: [binary_loss(logits[:, None] / t, gold[:, None])])
        threshold = best_threshold((logits / temperature).sigmoid().numpy(), gold.numpy() >= 0.5)
        return {"temperature": temperature, "threshold": THRESHOLD if threshold is None else threshold}

    def _gold(self, examples: list[Example], *, refuse: bool) -> Tensor:
        """(spans, labels) float32; NaN where nothing is known. What cannot be predicted is refused or left out."""
        docs = [eg.predicted for eg in examples]
        start, end, document = self._spans(docs)
        gold = torch.zeros(len(start), len(self.labels))
        gold[torch.tensor([self._key not in eg.reference.spans for eg in examples], dtype=torch.bool)[document]] = torch.nan
        columns = {label: i for i, label in enumerate(self.labels)}
        first_span = torch.cat([start.new_full((1,), -1), start]).diff().nonzero()[:, 0]
        offset = 0
        for eg in examples:
            cut, whole = self._aligned_spans(eg)
            for span in cut:
                if refuse and span.label_ not in columns:
                    raise ValueError(self._problem(span, eg))
                tokens = offset + numpy.asarray(eg.alignment.y2x[span.start : span.end].data)
                if span.label_ in columns and len(tokens):
                    overlaps = (start <= int(tokens.max())) & (end > int(tokens.min()))
                    gold[overlaps, columns[span.label_]] = torch.nan
            for span in whole:
                problem = self._problem(span, eg)
                if problem is None:
                    gold[first_span[offset + span.start] + len(span) - 1, columns[span.label_]] = 1.0
                elif refuse:
                    raise ValueError(problem)
            offset += len(eg.predicted)
        return gold

    def _problem(self, span: Span, eg: Example) -> str | None:
        where, longest = repr(eg.text[:80]), self.cfg["max_length"]
        if span.label_ not in self.labels:
            return Errors.E303.format(label=span.label_, name=self.name, where=where, labels=list(self.labels))
        if len(span) > longest:
            return Errors.E319.format(name=self.name, span=span.text, found=len(span), longest=longest, text=where)
        return None

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """examples (Iterable[Example]): with predictions. RETURNS (dict): what the scorer gives, or nothing without one."""
        return super().score(examples, spans_key=self._key, group=self.name, **kwargs)

    @property
    def span_groups(self) -> SpanGroups:
        """Where its gold and its predictions are."""
        return SpanGroups(self._key, self.name)

    @property
    def _key(self) -> str:
        return self.cfg["spans_key"]

    def _all_spans(self, examples: Iterable[Example]) -> Iterator[Span]:
        for eg in examples:
            yield from self._aligned_spans(eg)[1]

    def _aligned_spans(self, example: Example) -> tuple[list[Span], list[Span]]:
        """Gold spans that cut a token, in the tokens of the gold; and all others, in those of the pipeline."""
        cut, whole = [], []
        for span in self._gold_spans(example):
            found = example.get_aligned_spans_y2x([span], allow_overlap=True)
            whole += found
            if not found:
                cut.append(span)
                self._warn(span)
        return cut, whole

    def _warn(self, span: Span) -> None:
        if not self._warned:
            text = repr(span.doc.text[:80])
            warnings.warn(Warnings.W303.format(name=self.name, span=span.text, label=span.label_, text=text), stacklevel=2)
            self._warned = True

    def _gold_spans(self, example: Example) -> list[Span]:
        spans = example.reference.spans
        return list(spans[self._key]) if self._key in spans else []


def _spaces(docs: Sequence[Doc]) -> numpy.ndarray:
    return numpy.concatenate([*(doc.to_array("IS_SPACE").reshape(-1) for doc in docs), numpy.zeros(0)]).astype(bool)
