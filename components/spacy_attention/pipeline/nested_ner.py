"""`attention_ner` with `nested = true`: entities that may nest and overlap, each with its own probability."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy
import torch
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import torch2xp, xp2torch
from thinc.types import Floats2d
from torch import Tensor

from ..errors import Errors
from ..models.head import create_head
from ..nn.calibration import best_threshold, fit_temperature
from ..nn.losses import binary_loss
from ..nn.span_scorer import all_spans
from ..types import EntityPrediction
from .entity_head import EntityHead
from .span_groups import make_group

THRESHOLD = 0.5


class NestedNer(EntityHead):
    """Every span up to a length is an entity or not, whatever the others are.

    Its `min_confidence` counts from one half, or from the threshold of the calibration, on.
    """

    @property
    def what_is_missing(self) -> str:  # type: ignore[override]
        """What the error about missing labels says of the training data."""
        return f"no text of the training data has a span in doc.spans['{self._key}']"

    def initialize(self, get_examples: Callable[[], Iterable[Example]], **kwargs: Any) -> None:
        """As `Head.initialize`; the longest gold span is the longest that will ever be predicted."""
        if not self.is_initialized:
            spans = (span for eg in get_examples() for span in self._aligned_spans(eg))
            self.cfg["max_length"] = max((len(span) for span in spans), default=1)
        super().initialize(get_examples, **kwargs)

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

    def by_probability(self, doc: Doc, least: float) -> list[EntityPrediction]:
        """See `EntityHead.by_probability`."""
        return sorted(self._at_least([doc], least)[0], key=lambda e: -e.confidence)

    def set_annotations(self, docs: Sequence[Doc], scores: list[list[EntityPrediction]]) -> None:
        """docs (Sequence[Doc]): get `doc.spans[name]` with `attrs["scores"]`. scores (list): from `predict`."""
        for doc, entities in zip(docs, scores, strict=True):
            doc.spans[self.name] = make_group(doc, self.name, entities)

    def _at_least(self, docs: list[Doc], least: float) -> list[list[EntityPrediction]]:
        probabilities = (xp2torch(self.model.predict(docs)).cpu().double() / self.temperature).sigmoid()
        start, end, document = self._spans(docs)
        spaces = torch.as_tensor(_spaces(docs))
        outer = spaces[start] | spaces[end - 1]
        rows, labels = ((probabilities >= least) & ~outer[:, None]).nonzero().unbind(1)
        offsets = numpy.cumsum([0] + [len(doc) for doc in docs])
        found: list[list[EntityPrediction]] = [[] for _ in docs]
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
            d = int(document[row])
            bounds = int(start[row] - offsets[d]), int(end[row] - offsets[d])
            found[d].append(EntityPrediction(*bounds, self.labels[label], float(probabilities[row, label])))
        return found

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
        temperature = fit_temperature(lambda t: binary_loss(logits[:, None] / t, gold[:, None]))
        threshold = best_threshold((logits / temperature).sigmoid().numpy(), gold.numpy() >= 0.5)
        return {"temperature": temperature, "threshold": THRESHOLD if threshold is None else threshold}

    def _gold(self, examples: list[Example], *, refuse: bool) -> Tensor:
        """(spans, labels) float32; NaN for documents of which nothing is known. What cannot be predicted is refused or left out."""
        docs = [eg.predicted for eg in examples]
        start, _, document = self._spans(docs)
        gold = torch.zeros(len(start), len(self.labels))
        gold[torch.tensor([self._key not in eg.reference.spans for eg in examples], dtype=torch.bool)[document]] = torch.nan
        columns = {label: i for i, label in enumerate(self.labels)}
        first_span = torch.cat([start.new_full((1,), -1), start]).diff().nonzero()[:, 0]
        offset = 0
        for eg in examples:
            for span in self._aligned_spans(eg):
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
    def _key(self) -> str:
        return self.cfg["spans_key"]

    def _aligned_spans(self, example: Example) -> list[Span]:
        return example.get_aligned_spans_y2x(self._gold_spans(example), allow_overlap=True)

    def _gold_spans(self, example: Example) -> list[Span]:
        spans = example.reference.spans
        return list(spans[self._key]) if self._key in spans else []


def _spaces(docs: Sequence[Doc]) -> numpy.ndarray:
    return numpy.concatenate([*(doc.to_array("IS_SPACE").reshape(-1) for doc in docs), numpy.zeros(0)]).astype(bool)
