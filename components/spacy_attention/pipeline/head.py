"""What the two heads have in common: labels, the update, and the life of the model."""

import json
import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import srsly
from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from thinc.api import Model, Optimizer, set_dropout_rate

from ..errors import Errors, Warnings
from .checks import check_get_examples
from .fork_guard import guard_forks


class Head(TrainablePipe):
    """A component with labels on top of token vectors.

    vocab (Vocab): of the pipeline.
    model (Model): from `head_model`.
    name (str): of the component.
    scorer (Callable | None): from a registered scorer.
    cfg: settings that are saved with the component.
    """

    # What the error about missing labels says of the training data.
    what_is_missing = ""

    def __init__(self, vocab, model: Model[list[Doc], Any], *, name: str, scorer: Callable | None, **cfg: Any):
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        self.cfg: dict[str, Any] = {"labels": [], **cfg}
        guard_forks()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of the model's outputs."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> list[str]:
        """The labels, as `nlp.initialize` takes them from a file."""
        return list(self.labels)

    @property
    def is_initialized(self) -> bool:
        """Whether the output layer exists, so that labels are fixed."""
        return self.model.get_ref("layer").shims[0].ready

    def add_label(self, label: str) -> int:
        """Add a label before `initialize`.

        label (str): the label.
        RETURNS (int): 1 when it is new, 0 when it was there.
        RAISES (ValueError): E306 for something that is no label; E304 after `initialize`.
        """
        if not isinstance(label, str) or not label:
            raise ValueError(Errors.E306.format(name=self.name, found=repr(label)))
        if label in self.labels:
            return 0
        if self.is_initialized:
            raise ValueError(Errors.E304.format(label=label, name=self.name, found=len(self.labels)))
        self.cfg["labels"].append(label)
        self.vocab.strings.add(label)
        return 1

    def labels_of(self, example: Example) -> Iterable[str]:
        """example (Example): with gold annotation. RETURNS (Iterable[str]): the labels that occur in it."""
        raise NotImplementedError

    def create_model(self) -> None:
        """Build the output layer for the labels that are known."""
        raise NotImplementedError

    def loss_and_gradient(self, examples: list[Example], scores: Any) -> tuple[float, Any]:
        """examples (list): of the batch. scores: of the model. RETURNS (tuple): the loss, summed over documents; its gradient."""
        raise NotImplementedError

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Iterable[str] | None = None,
    ) -> None:
        """Learn the labels, and build the output layer.

        get_examples (Callable): gives training examples; all are read for labels, unless these are given.
        nlp (Language | None): not used.
        labels (Iterable[str] | None): the labels, from `label_data`.
        RAISES (ValueError): E302 when there are none, E307 when there are no examples.
        """
        check_get_examples(get_examples, self.name)
        found = labels if labels is not None else sorted({x for eg in get_examples() for x in self.labels_of(eg)})
        for label in found:
            self.add_label(label)
        if not self.labels:
            raise ValueError(Errors.E302.format(name=self.name, missing=self.what_is_missing))
        self.model.initialize(X=[eg.x for eg in islice(get_examples(), 10)])
        self.create_model()

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch.

        examples (Iterable[Example]): predicted and reference documents.
        drop (float): dropout rate.
        sgd (Optimizer | None): steps at once when given.
        losses (dict | None): gets the loss of the batch, a sum over its documents, under the component's name.
        RETURNS (dict): losses.
        """
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        set_dropout_rate(self.model, drop)
        scores, backprop = self.model.begin_update([eg.predicted for eg in examples])
        loss, d_scores = self.loss_and_gradient(examples, scores)
        backprop(d_scores)
        if sgd is not None:
            self.finish_update(sgd)
        losses[self.name] += loss
        return losses

    @property
    def temperature(self) -> float:
        """By which scores are divided before they become probabilities; from `calibrated`."""
        return self.cfg.get("temperature", 1.0)

    def evidence(self, examples: list[Example]) -> tuple[Any, Any]:
        """For `calibrated`: what the model says of a batch, and what the gold does.

        examples (list): their predicted documents have token vectors. Gold that the component can never predict or learn, such as labels
            that it does not know, says nothing of its probabilities, and is left out.
        RETURNS (tuple): scores on the host, not calibrated; gold in the form that `calibrated` takes.
        """
        raise NotImplementedError

    def fit(self, evidence: list[tuple[Any, Any]]) -> dict[str, Any]:
        """evidence (list): of all batches. RETURNS (dict): the settings that fit it."""
        raise NotImplementedError

    def calibrated(self, evidence: list[tuple[Any, Any]]) -> "Head":
        """Fit the temperature, and what else there is.

        evidence (list): of all batches of a corpus that the model has not learned from.
        RETURNS (Head): a copy with these settings; the model is shared. Without any annotation it is as this one, and W301 warns.
        """
        settings = self.fit(evidence)
        if not settings:
            warnings.warn(Warnings.W301.format(name=self.name), stacklevel=2)
        cfg = {**self.cfg, "labels": list(self.labels), **settings}
        return type(self)(self.vocab, self.model, name=self.name, scorer=self.scorer, **cfg)

    def get_loss(self, examples: Iterable[Example], scores: Any) -> tuple[float, Any]:
        """As `loss_and_gradient`: examples (Iterable): the batch; scores: of the model. RETURNS (tuple): loss and gradient."""
        return self.loss_and_gradient(list(examples), scores)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "Head":
        """As `TrainablePipe.from_disk`. path (str | Path): folder. exclude (Iterable[str]): parts that stay. RETURNS (Head): this one."""
        exclude, settings = tuple(exclude), Path(path) / "cfg"
        super().from_disk(path, exclude=exclude)
        if "cfg" not in exclude and settings.exists():
            # The reader in spaCy gets the last bit of some numbers wrong, 0.3 among them.
            self.cfg.update(json.loads(settings.read_text(encoding="utf8")))
        return self

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "Head":
        """As `from_disk`. data (bytes): from `to_bytes`. exclude (Iterable[str]): parts that stay. RETURNS (Head): this one."""
        exclude = tuple(exclude)
        super().from_bytes(data, exclude=exclude)
        settings = srsly.msgpack_loads(data).get("cfg")
        if "cfg" not in exclude and settings is not None:
            self.cfg.update(json.loads(settings))
        return self

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """examples (Iterable[Example]): with predictions. RETURNS (dict): what the scorer gives, or nothing without one."""
        if self.scorer is None:
            return {}
        return self.scorer(examples, labels=self.labels, **kwargs)
