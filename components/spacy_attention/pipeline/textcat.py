"""`attention_textcat`: a probability for each class of a document."""

import warnings
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from spacy.vocab import Vocab
from thinc.api import Config, Model, torch2xp, xp2torch
from thinc.types import Floats2d

from ..errors import Errors, Warnings
from ..models.head import create_head, token_weights
from ..nn.calibration import best_threshold, fit_temperature
from ..nn.losses import binary_loss, exclusive_loss
from .checks import check_share
from .gold_cats import Floats, check_class_weights, class_weights, gold_cats
from .head import Head

# How many texts are looked at at once where all are counted.
COUNTED = 1000

DEFAULT_CONFIG = Config().from_str("""
[attention_textcat]
exclusive = true
threshold = 0.5
class_weights = null
label_smoothing = 0.0
store_attention = false

[attention_textcat.model]
@architectures = "spacy-attention.TextCatHead.v1"
pooling = "mean"
dropout = 0.1
precision = "auto"

[attention_textcat.model.tok2vec]
@architectures = "spacy-attention.Listener.v1"
upstream = "nearest"
grad_factor = 1.0

[attention_textcat.scorer]
@scorers = "spacy-attention.textcat_scorer.v1"
""")["attention_textcat"]


@Language.factory(
    "attention_textcat",
    assigns=["doc.cats", "doc._.classes", "doc._.cats_attention"],
    default_config=DEFAULT_CONFIG,
    default_score_weights={
        "cats_score": 1.0,
        "cats_score_desc": None,
        "cats_micro_p": None,
        "cats_micro_r": None,
        "cats_micro_f": None,
        "cats_macro_p": None,
        "cats_macro_r": None,
        "cats_macro_f": None,
        "cats_macro_auc": None,
        "cats_f_per_type": None,
        "cats_auc_per_type": None,
        "cats_counts_per_type": None,
        "cats_ece": None,
        "cats_brier": None,
    },
)
def make_attention_textcat(
    nlp: Language,
    name: str,
    model: Model,
    exclusive: bool,
    threshold: float,
    class_weights: str | dict[str, float] | None,
    label_smoothing: float,
    store_attention: bool,
    scorer: Callable | None,
) -> "AttentionTextcat":
    """Make the text classifier.

    model (Model): `spacy-attention.TextCatHead.v1`.
    exclusive (bool): exactly one class is right for a text; the probabilities of all classes sum to 1.
    threshold (float): from which probability on a class is predicted when classes do not exclude each other, in [0, 1].
    class_weights (str | dict | None): `balanced`, or a weight of at least 0 by label: how much texts of a class count in training.
    label_smoothing (float): share in [0, 1) of each annotation that is spread over all classes in training.
    store_attention (bool): write `doc._.cats_attention`; for the poolings `attention` and `label`.
    scorer (Callable | None): from a registered scorer.
    RETURNS (AttentionTextcat): the component.
    RAISES (ValueError): E309, E314, E317 and E318 for settings that cannot be.
    """
    return AttentionTextcat(
        nlp.vocab,
        model,
        name=name,
        scorer=scorer,
        exclusive=exclusive,
        threshold=threshold,
        class_weights=class_weights,
        label_smoothing=label_smoothing,
        store_attention=store_attention,
    )


class AttentionTextcat(Head):
    """Classes of a document: probabilities in `doc.cats`, and in `doc._.classes[name]` those that are predicted."""

    what_is_missing = "no text of the training data has a class (`doc.cats`)"

    def __init__(self, vocab: Vocab, model: Model, *, name: str, scorer: Callable | None, **cfg: Any):
        check_share("threshold", cfg["threshold"], name)
        check_class_weights(cfg["class_weights"], name)
        if not 0.0 <= cfg["label_smoothing"] < 1.0:
            raise ValueError(Errors.E317.format(name=name, found=cfg["label_smoothing"]))
        if cfg["store_attention"] and not model.attrs.get("weighted"):
            raise ValueError(Errors.E318.format(name=name))
        super().__init__(vocab, model, name=name, scorer=scorer, **cfg)

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Iterable[str] | None = None,
    ) -> None:
        """As `Head.initialize`; in a pipeline with several classifiers, each must be given its own labels.

        RAISES (ValueError): E316 for labels that another classifier has as well, E315 for weights of unknown labels.
        """
        super().initialize(get_examples, nlp=nlp, labels=labels)
        self._meet(_other_classifiers(nlp, self.name), get_examples)
        gold = (self._gold(part, _Everything()) for part in minibatch(get_examples(), COUNTED))
        self.cfg["weights"] = class_weights(
            self.cfg["class_weights"], gold, self.labels, name=self.name, exclusive=self.cfg["exclusive"]
        )

    def _meet(self, others: Mapping[str, Any], get_examples: Callable[[], Iterable[Example]]) -> None:
        """Learn which labels are of other classifiers, and have those of ours learn which are of this one."""
        own, known = set(self.labels), set(self.cfg.get("other_labels", ()))
        for name, other in others.items():
            if not isinstance(other, AttentionTextcat):
                warnings.warn(Warnings.W302.format(name=self.name, other=name), stacklevel=4)
                # Its labels may not be there yet.
                known.update(getattr(other, "labels", ()) or {x for eg in get_examples() for x in self.labels_of(eg)})
                continue
            if shared := sorted(set(other.labels) & own):
                raise ValueError(Errors.E316.format(name=self.name, other=name, labels=shared))
            known.update(other.labels)
            other.cfg["other_labels"] = sorted({*other.cfg.get("other_labels", ()), *own})
        if others:
            self.cfg["other_labels"] = sorted(known - own)

    def predict(self, docs: Iterable[Doc]) -> Floats2d:
        """docs (Iterable[Doc]): any. RETURNS (Floats2d): (documents, labels) float32 probabilities."""
        logits = xp2torch(self.model.predict(list(docs))) / self.temperature
        return torch2xp(logits.softmax(-1) if self.cfg["exclusive"] else logits.sigmoid())

    def set_annotations(self, docs: Sequence[Doc], scores: Floats2d) -> None:
        """docs (Sequence[Doc]): get a probability per label; cats of other labels stay. scores (Floats2d): from `predict`."""
        for doc, row in zip(docs, scores.tolist(), strict=True):
            probabilities = dict(zip(self.labels, row, strict=True))
            doc.cats.update(probabilities)
            doc._.classes = {**(doc._.classes or {}), self.name: self._predicted(probabilities)}
        if self.cfg["store_attention"]:
            for doc, weights in zip(docs, token_weights(self.model, list(docs)), strict=True):
                columns = weights.T if weights.shape[1] > 1 else [weights[:, 0]] * len(self.labels)
                doc._.cats_attention = {**(doc._.cats_attention or {}), **dict(zip(self.labels, columns, strict=True))}

    def _predicted(self, probabilities: dict[str, float]) -> list[str]:
        if self.cfg["exclusive"]:
            return [max(probabilities, key=lambda label: probabilities[label])]
        thresholds = {**dict.fromkeys(self.labels, self.cfg["threshold"]), **self.cfg.get("thresholds", {})}
        return [label for label, probability in probabilities.items() if probability >= thresholds[label]]

    def labels_of(self, example: Example) -> Iterable[str]:
        """example (Example): with gold annotation. RETURNS (Iterable[str]): all labels it says something about."""
        return example.reference.cats

    def create_model(self) -> None:
        """Build the class scores for the labels that are known."""
        create_head(self.model, len(self.labels), classes=len(self.labels))

    def loss_and_gradient(self, examples: list[Example], scores: Floats2d) -> tuple[float, Floats2d]:
        """Cross-entropy, summed over documents; what a text does not say adds nothing.

        examples (list): of the batch.
        scores (Floats2d): (documents, labels) logits.
        RETURNS (tuple): the loss and its gradient, shaped as the scores.
        RAISES (ValueError): see `gold_cats`.
        """
        logits = xp2torch(scores.copy(), requires_grad=True)
        loss = self._loss(logits, self._gold(examples))
        loss.backward()
        return float(loss.detach()), torch2xp(logits.grad)

    def _loss(self, logits: torch.Tensor, gold: Floats) -> torch.Tensor:
        known, smoothing = torch.as_tensor(gold, device=logits.device), self.cfg["label_smoothing"]
        weights = None if self.cfg.get("weights") is None else torch.tensor(self.cfg["weights"]).to(logits)
        if self.cfg["exclusive"]:
            return exclusive_loss(logits, known, weights=None if weights is None else weights[1], smoothing=smoothing)
        return binary_loss(logits, known, weights=weights, smoothing=smoothing)

    def _gold(self, examples: Sequence[Example], ignored: Container[str] | None = None) -> Floats:
        ignored = self.cfg.get("other_labels", ()) if ignored is None else ignored
        return gold_cats(examples, self.labels, name=self.name, exclusive=self.cfg["exclusive"], ignored=ignored)

    def evidence(self, examples: list[Example]) -> tuple[torch.Tensor, Floats]:
        """See `Head.evidence`. RETURNS (tuple): (examples, labels) logits, and gold as of `gold_cats`."""
        examples = [eg for eg in examples if self._can_be_learned(eg)]
        logits = xp2torch(self.model.predict([eg.predicted for eg in examples]))
        return logits.cpu(), self._gold(examples, _Everything())

    def _can_be_learned(self, example: Example) -> bool:
        try:
            self._gold([example], _Everything())
        except ValueError:
            return False
        return True

    def fit(self, evidence: list[tuple[torch.Tensor, Floats]]) -> dict[str, Any]:
        """See `Head.fit`. RETURNS (dict): `temperature`, and `thresholds` by label where classes do not exclude each other."""
        logits = torch.cat([torch.zeros(0, len(self.labels)), *(logits for logits, _ in evidence)]).double()
        gold = torch.cat([logits[:0], *(torch.as_tensor(part) for _, part in evidence)])
        if gold.isnan().all():
            return {}
        loss = exclusive_loss if self.cfg["exclusive"] else binary_loss
        temperature = fit_temperature(lambda t: [loss(logits / t, gold)])
        if self.cfg["exclusive"]:
            return {"temperature": temperature}
        probabilities = (logits / temperature).sigmoid().numpy()
        found = {}
        for label, column, right in zip(self.labels, probabilities.T, gold.numpy().T, strict=True):
            known = ~numpy.isnan(right)
            found[label] = best_threshold(column[known], right[known] >= 0.5)
        return {"temperature": temperature, "thresholds": {label: x for label, x in found.items() if x is not None}}

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score the classes.

        examples (Iterable[Example]): with predictions.
        RETURNS (dict): what the scorer gives, or nothing without one; beside another classifier, whose scores have the same names, once
            more with the name of the component and `_` before each.
        """
        given = {"threshold": self.cfg["threshold"], "thresholds": self.cfg.get("thresholds", {})}
        scores = super().score(examples, multi_label=not self.cfg["exclusive"], **{**given, **kwargs})
        if "other_labels" not in self.cfg:
            return scores
        return {**scores, **{f"{self.name}_{key}": value for key, value in scores.items()}}


class _Everything:
    """Holds whatever one asks for."""

    def __contains__(self, label: object) -> bool:
        return True


def _other_classifiers(nlp: Language | None, name: str) -> dict[str, Any]:
    """The other components of a pipeline that write `doc.cats`, stock ones as well."""
    if nlp is None:
        return {}
    others = [other for other in nlp.component_names if other != name and "doc.cats" in nlp.get_pipe_meta(other).assigns]
    return {other: nlp.get_pipe(other) for other in others}


for _extension in ("classes", "cats_attention"):
    if not Doc.has_extension(_extension):
        Doc.set_extension(_extension, default=None)
