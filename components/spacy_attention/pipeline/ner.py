"""`attention_ner`: entities from a tag chain, each with its exact probability."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy
import torch
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import Config, Model, torch2xp, xp2torch
from thinc.types import Floats2d
from torch import Tensor

from ..errors import Errors
from ..models.head import create_head
from ..nn import tags
from ..nn.calibration import fit_temperature
from ..nn.crf import NEVER, negative_log_likelihood
from ..types import EntityPrediction
from .checks import check_flat
from .entity_head import EntityHead
from .gold_tags import gold_tags, is_annotated, whitespace_bounds
from .nested_ner import NestedNer
from .span_groups import make_group
from .tag_chain import TagChain

DEFAULT_CONFIG = Config().from_str("""
[attention_ner]
nested = false
min_confidence = 0.0
spans_key = "sc"

[attention_ner.model]
@architectures = "spacy-attention.NerHead.v1"
case = true
dropout = 0.1
precision = "auto"

[attention_ner.model.tok2vec]
@architectures = "spacy-attention.Listener.v1"
upstream = "nearest"
grad_factor = 1.0

[attention_ner.scorer]
@scorers = "spacy-attention.utterance_scorer.v1"
exclusive = true

[attention_ner.scorer.base]
@scorers = "spacy-attention.ner_scorer.v1"
""")["attention_ner"]


@Language.factory(
    "attention_ner",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type", "span._.confidence", "doc.spans"],
    default_config=DEFAULT_CONFIG,
    default_score_weights={
        "ents_f": 1.0,
        "ents_p": 0.0,
        "ents_r": 0.0,
        "ents_per_type": None,
        "ents_counts_per_type": None,
        "ents_unannotated": None,
        "ents_ece": None,
        "ents_brier": None,
        "utterance_acc": None,
    },
)
def make_attention_ner(
    nlp: Language, name: str, model: Model, nested: bool, min_confidence: float, spans_key: str, scorer: Callable | None
) -> "AttentionNer | NestedNer":
    """Make the entity recognizer.

    model (Model): `spacy-attention.NerHead.v1`.
    nested (bool): whether entities can nest and overlap; then gold is read from `doc.spans`, else from `doc.ents`.
    min_confidence (float): probability in [0, 1] that every entity must have.
    spans_key (str): where gold that nests or overlaps is, in `doc.spans`.
    scorer (Callable | None): from a registered scorer.
    RETURNS (AttentionNer | NestedNer): the component.
    RAISES (ValueError): E309 for a `min_confidence` that is no probability.
    """
    kind = NestedNer if nested else AttentionNer
    return kind(nlp.vocab, model, name=name, scorer=scorer, min_confidence=min_confidence, spans_key=spans_key)


class ChainEvidence(NamedTuple):
    """Scores of a batch, on the host.

    emissions (Tensor): (tokens, tags). transitions (Tensor): (labels + 1, labels + 1). lengths (Tensor): (documents,).
    ruled_out (Tensor): (tokens, tags) bool, what no entity may have there.
    """

    emissions: Tensor
    transitions: Tensor
    lengths: Tensor
    ruled_out: Tensor

    def loss(self, temperature: Tensor, allowed: Tensor) -> Tensor:
        """temperature (Tensor): scalar. allowed (Tensor): what the annotation allows. RETURNS (Tensor): scalar, see `loss_and_gradient`."""
        emissions = (self.emissions.double() / temperature).masked_fill(self.ruled_out, NEVER)
        return negative_log_likelihood(emissions, self.lengths, self.transitions / temperature, allowed)


class AttentionNer(EntityHead):
    """Entities without overlap, as the most probable sequence of BILUO tags under a conditional random field.

    Each entity in `doc.ents` has `span._.confidence`, the probability in [0, 1] that the model gives to exactly this labelled
    span; the same spans and numbers stand in `doc.spans[name]` and its `attrs["scores"]`.
    """

    what_is_missing = "no text of the training data has an entity"

    def predict(self, docs: Iterable[Doc]) -> list[list[EntityPrediction]]:
        """docs (Iterable[Doc]): any. RETURNS (list): per document its entities in text order."""
        return self._tag_chain(list(docs)).entities(min_confidence=self.cfg["min_confidence"])

    def by_probability(self, doc: Doc, least: float) -> Iterable[EntityPrediction]:
        """See `EntityHead.by_probability`."""
        return self._tag_chain([doc]).candidates(0, least=least)

    def _tag_chain(self, docs: list[Doc]) -> TagChain:
        emissions, transitions = (torch.as_tensor(x) / self.temperature for x in _to_numpy(self.model.predict(docs)))
        emissions = emissions.masked_fill(torch.as_tensor(whitespace_bounds(docs, len(self.labels))), NEVER)
        return TagChain(emissions, transitions, [len(doc) for doc in docs], self.labels)

    def set_annotations(self, docs: Sequence[Doc], scores: list[list[EntityPrediction]]) -> None:
        """docs (Sequence[Doc]): get entities and confidences; what another run left is replaced. scores (list): from `predict`."""
        for doc, entities in zip(docs, scores, strict=True):
            _forget_confidences(doc)
            group = make_group(doc, self.name, entities)
            doc.set_ents(list(group))
            for span, entity in zip(group, entities, strict=True):
                span._.confidence = entity.confidence
            doc.spans[self.name] = group

    def labels_of(self, example: Example) -> Iterable[str]:
        """example (Example): with gold annotation. RETURNS (Iterable[str]): labels of its entities."""
        return (ent.label_ for ent in example.reference.ents)

    def create_model(self) -> None:
        """Build the tag scores for the labels that are known."""
        n_labels = len(self.labels)
        n_tags = tags.n_tags(n_labels)
        create_head(self.model, n_tags, tags=n_tags, states=tags.n_states(n_labels))

    def loss_and_gradient(
        self, examples: list[Example], scores: tuple[Floats2d, Floats2d]
    ) -> tuple[float, tuple[Floats2d, Floats2d]]:
        """The negative log-likelihood of the annotation, summed over documents.

        examples (list): of the batch; tokens without annotation are summed over, a text without any adds nothing.
        scores (tuple): emissions (tokens, tags) and transitions (states, states).
        RETURNS (tuple): the loss and its gradients, shaped as the scores.
        RAISES (ValueError): E303 for an unknown label, E308 for entities that overlap.
        """
        emissions, transitions = (xp2torch(x.copy(), requires_grad=True) for x in scores)
        lengths = torch.tensor([len(eg.predicted) for eg in examples], device=emissions.device)
        annotated = torch.as_tensor(self._all_allowed(examples), device=emissions.device)
        docs = [eg.predicted for eg in examples]
        ruled_out = torch.as_tensor(whitespace_bounds(docs, len(self.labels)), device=emissions.device) & ~annotated
        loss = negative_log_likelihood(emissions.masked_fill(ruled_out, NEVER), lengths, transitions, annotated)
        loss.backward()
        return float(loss.detach()), (torch2xp(emissions.grad), torch2xp(transitions.grad))

    def evidence(self, examples: list[Example]) -> tuple[ChainEvidence, Tensor]:
        """See `Head.evidence`. RETURNS (tuple): scores of the tags; (tokens, tags) bool, which of them the annotation allows."""
        examples = [eg for eg in examples if self._can_be_learned(eg)]
        docs = [eg.predicted for eg in examples]
        emissions, transitions = (torch.as_tensor(x) for x in _to_numpy(self.model.predict(docs)))
        allowed = torch.as_tensor(self._all_allowed(examples))
        ruled_out = torch.as_tensor(whitespace_bounds(docs, len(self.labels))) & ~allowed
        return ChainEvidence(
            emissions, transitions, torch.tensor([len(doc) for doc in docs], dtype=torch.int64), ruled_out
        ), allowed

    def _can_be_learned(self, example: Example) -> bool:
        try:
            self._allowed(example)
        except ValueError:
            return False
        return True

    def fit(self, evidence: list[tuple[ChainEvidence, Tensor]]) -> dict[str, Any]:
        """See `Head.fit`. RETURNS (dict): `temperature`."""
        if not any((~allowed).any() for _, allowed in evidence):
            return {}
        return {"temperature": fit_temperature(lambda t: (x.loss(t, allowed) for x, allowed in evidence))}

    def _all_allowed(self, examples: list[Example]) -> numpy.ndarray:
        n_tags = tags.n_tags(len(self.labels))
        return numpy.concatenate([*(self._allowed(eg) for eg in examples), numpy.zeros((0, n_tags), bool)])

    def _allowed(self, example: Example) -> numpy.ndarray:
        if not is_annotated(example.reference):
            check_flat(example.reference, self.cfg["spans_key"], self.name)
        try:
            return gold_tags(example, self.labels)
        except KeyError as err:
            label = str(err.args[0])[2:]
            raise ValueError(
                Errors.E303.format(label=label, name=self.name, where=repr(example.text[:80]), labels=list(self.labels))
            ) from None


def _to_numpy(arrays: tuple[Any, ...]) -> Iterable[numpy.ndarray]:
    return (x if isinstance(x, numpy.ndarray) else x.get() for x in arrays)


def _forget_confidences(doc: Doc) -> None:
    for key in [key for key in doc.user_data if key[:2] == ("._.", "confidence")]:
        del doc.user_data[key]


if not Span.has_extension("confidence"):
    Span.set_extension("confidence", default=None)
