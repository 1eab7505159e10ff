"""`attention_textcat`: a probability for each class of a document."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config, Model, torch2xp, xp2torch
from thinc.types import Floats2d

from ..errors import Errors
from ..models.head import create_head
from ..nn.losses import binary_loss, exclusive_loss
from .head import Head

DEFAULT_CONFIG = Config().from_str("""
[attention_textcat]
exclusive = true
threshold = 0.5

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
    assigns=["doc.cats"],
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
    },
)
def make_attention_textcat(
    nlp: Language, name: str, model: Model, exclusive: bool, threshold: float, scorer: Callable | None
) -> "AttentionTextcat":
    """Make the text classifier.

    model (Model): `spacy-attention.TextCatHead.v1`.
    exclusive (bool): exactly one class is right for a text; the probabilities of all classes sum to 1.
    threshold (float): from which probability on a class counts as predicted in scores, in [0, 1].
    scorer (Callable | None): from a registered scorer.
    RETURNS (AttentionTextcat): the component.
    """
    return AttentionTextcat(nlp.vocab, model, name=name, exclusive=exclusive, threshold=threshold, scorer=scorer)


class AttentionTextcat(Head):
    """Classes of a document, with probabilities in `doc.cats`."""

    what_is_missing = "no text of the training data has a class (`doc.cats`)"

    def predict(self, docs: Iterable[Doc]) -> Floats2d:
        """docs (Iterable[Doc]): any. RETURNS (Floats2d): (documents, labels) float32 probabilities."""
        logits = xp2torch(self.model.predict(list(docs)))
        return torch2xp(logits.softmax(-1) if self.cfg["exclusive"] else logits.sigmoid())

    def set_annotations(self, docs: Sequence[Doc], scores: Floats2d) -> None:
        """docs (Sequence[Doc]): get a probability per label; cats of other labels stay. scores (Floats2d): from `predict`."""
        for doc, row in zip(docs, scores.tolist(), strict=True):
            doc.cats.update(zip(self.labels, row, strict=True))

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
        RAISES (ValueError): E303 for an unknown label, E305 for two true labels when exclusive.
        """
        logits = xp2torch(scores.copy(), requires_grad=True)
        gold = torch.as_tensor(self._gold(examples), device=logits.device)
        loss = (exclusive_loss if self.cfg["exclusive"] else binary_loss)(logits, gold)
        loss.backward()
        return float(loss.detach()), torch2xp(logits.grad)

    def _gold(self, examples: list[Example]) -> numpy.ndarray:
        """(documents, labels) float32; NaN where a text says nothing."""
        columns = {label: i for i, label in enumerate(self.labels)}
        gold = numpy.full((len(examples), len(columns)), numpy.nan, dtype="float32")
        for row, eg in zip(gold, examples, strict=True):
            for label, value in eg.reference.cats.items():
                if label not in columns:
                    raise ValueError(
                        Errors.E303.format(label=label, name=self.name, where=repr(eg.text[:80]), labels=list(self.labels))
                    )
                row[columns[label]] = value
            if self.cfg["exclusive"] and (row >= 0.5).sum() > 1:
                true = [label for label, value in eg.reference.cats.items() if value >= 0.5]
                raise ValueError(Errors.E305.format(labels=true, name=self.name, text=repr(eg.text[:80])))
        return gold

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """examples (Iterable[Example]): with predictions. RETURNS (dict): what the scorer gives, or nothing without one."""
        kwargs.setdefault("threshold", self.cfg["threshold"])
        return super().score(examples, multi_label=not self.cfg["exclusive"], **kwargs)
