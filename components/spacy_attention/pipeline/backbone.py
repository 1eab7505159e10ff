"""`attention_backbone`: a shared Hugging Face transformer."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import srsly
from spacy import util
from spacy.language import Language
from spacy.pipeline.pipe import deserialize_config
from spacy.tokens import Doc
from spacy.training import Example
from spacy_transformers.annotation_setters import null_annotation_setter
from spacy_transformers.data_classes import TransformerData
from spacy_transformers.layers import TransformerListener
from spacy_transformers.pipeline_component import Transformer, install_extensions
from thinc.api import Config, Model, Optimizer
from thinc.types import Floats2d, Ragged

from ..errors import Errors
from ..layers.backbone import BackboneBatch, own_copy
from ..layers.grouping import group_documents
from ..layers.listener import get_link
from ..layers.pieces import special_ids
from ..layers.report import make_reports
from ..layers.token_vectors import pool_batch, pool_pieces
from .fork_guard import guard_forks
from .shared import GradientSum, SharedComponent

DEFAULT_CONFIG = Config().from_str("""
[attention_backbone]
max_batch_items = 16384

[attention_backbone.set_extra_annotations]
@annotation_setters = "spacy-transformers.null_annotation_setter.v1"

[attention_backbone.model]
@architectures = "spacy-attention.TransformerBackbone.v1"
name = "sentence-transformers/all-MiniLM-L6-v2"
precision = "auto"
window = 256
stride = 224
budget = 4096
truncate = false
layer = -1
frozen_layers = 0
gradient_checkpointing = false
lora = null
cache = null
output_attentions = false
tokenizer_config = {}
transformer_config = {}
""")["attention_backbone"]


@Language.factory("attention_backbone", assigns=["doc._.trf_data", "doc._.backbone_report"], default_config=DEFAULT_CONFIG)
def make_attention_backbone(
    nlp: Language,
    name: str,
    model: Model[list[Doc], BackboneBatch],
    set_extra_annotations: Callable[[list[Doc], Any], None],
    max_batch_items: int,
) -> "AttentionBackbone":
    """Make the backbone component.

    model (Model): `spacy-attention.TransformerBackbone.v1`.
    set_extra_annotations (Callable): called with the documents and the batch after `doc._.trf_data` is set.
    max_batch_items (int): spaCy tokens that `pipe` gives to the model at once; a longer document goes alone.
    RETURNS (AttentionBackbone): the component.
    RAISES (ValueError): E107 for the model of a stock transformer.
    """
    return AttentionBackbone(nlp.vocab, model, set_extra_annotations, name=name, max_batch_items=max_batch_items)


class AttentionBackbone(SharedComponent, Transformer):
    """A transformer that several components share, stock listeners and ours alike.

    vocab (Vocab): of the pipeline.
    model (Model): `spacy-attention.TransformerBackbone.v1`.
    set_extra_annotations (Callable): see `make_attention_backbone`.
    name (str): of the component.
    max_batch_items (int): see `make_attention_backbone`.
    """

    def __init__(
        self,
        vocab,
        model: Model[list[Doc], BackboneBatch],
        set_extra_annotations: Callable = null_annotation_setter,
        *,
        name: str = "attention_backbone",
        max_batch_items: int = 16384,
    ):
        if getattr(model, "name", None) != "attention-backbone":
            raise ValueError(Errors.E107.format(found=getattr(model, "name", type(model).__name__)))
        super().__init__(vocab, model, set_extra_annotations, name=name, max_batch_items=max_batch_items)
        guard_forks()

    @property
    def has_document_row(self) -> bool:  # type: ignore[override]
        """Whether the checkpoint puts a special piece before each text, whose state can stand for all of it."""
        shim = self.model.shims[0]
        return not shim.ready or bool(special_ids(shim.tokenizer).before)

    def find_listeners(self, component: Any) -> None:
        """Bind the listeners of a later component, stock transformer listeners included. component (Pipe): any."""
        super().find_listeners(component)
        Transformer.find_listeners(self, component)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Apply the component to a stream.

        stream (Iterable[Doc]): of documents.
        batch_size (int): how many are read ahead, so that those of like length can go through the model together.
        YIELDS (Doc): the same documents in the same order; those that fail go to the pipeline's error handler instead.
        """
        handle_error = self.get_error_handler()
        for docs in util.minibatch(stream, batch_size):
            failed: set[int] = set()
            for members in group_documents([len(doc) for doc in docs], self.cfg["max_batch_items"]):
                together = [docs[i] for i in members]
                try:
                    self.set_annotations(together, self.predict(together))
                except Exception as error:
                    handle_error(self.name, self, together, error)
                    failed.update(members)
            yield from (doc for i, doc in enumerate(docs) if i not in failed)

    def predict(self, docs: Iterable[Doc]) -> BackboneBatch:
        """docs (Iterable[Doc]): any. RETURNS (BackboneBatch): their hidden states."""
        return self.model.predict(list(docs))

    def set_annotations(self, docs: Iterable[Doc], predictions: BackboneBatch) -> None:
        """Write `doc._.trf_data` and `doc._.backbone_report`.

        docs (Iterable[Doc]): get hidden states of their own: a view would keep the whole batch in memory for as long as one of its
            documents lives.
        predictions (BackboneBatch): from `predict`.
        """
        docs = list(docs)
        for doc, data, report in zip(docs, predictions.doc_data, make_reports(predictions.layout), strict=True):
            doc._.trf_data = data if len(docs) == 1 else own_copy(data)
            doc._.backbone_report = report
        self.set_extra_annotations(docs, predictions)

    def read_vectors(self, docs: list[Doc], *, document_row: bool = False) -> Ragged:
        """Pool the hidden states stored on documents, for a listener.

        docs (list[Doc]): that went through this component.
        document_row (bool): whether a row for each document comes before those of its tokens.
        RETURNS (Ragged): (tokens, width) float32.
        RAISES (ValueError): E204 for a document that did not.
        """
        for i, doc in enumerate(docs):
            if len(doc) and doc._.trf_data is None:
                raise ValueError(Errors.E204.format(index=i, name=self.name))
        data = [doc._.trf_data if len(doc) else TransformerData.empty() for doc in docs]
        vectors, _ = pool_pieces(self.model.ops, data, self.model.get_dim("nO"), document_row=document_row)
        return vectors

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Run a training batch and hand it to the listeners; its gradient goes back at `finish_update` or the next `update`.

        examples (Iterable[Example]): the batch; only the predicted documents are used.
        drop (float): not used: the checkpoint's configuration has its own dropout rates (see `transformer_config`).
        sgd (Optimizer | None): steps the gradient of the batch before, as `finish_update` does.
        losses (dict | None): gets an entry under the component's name; a shared component has no loss of its own.
        RETURNS (dict): losses.
        """
        docs, losses = self.start_update(examples, sgd, losses)
        batch, backprop = self.model.begin_update(docs)
        gradients = self.collect_gradients(backprop)
        self._deliver_to_stock(docs, batch, gradients)
        for document_row in {listener.attrs["document_row"] for listener in self.listeners if get_link(listener)}:
            self._deliver(docs, batch, gradients, document_row=document_row)
        return losses

    def _deliver(self, docs: list[Doc], batch: BackboneBatch, gradients: GradientSum, *, document_row: bool) -> None:
        vectors, backprop_pool = pool_batch(self.model.ops, batch, document_row=document_row)

        def add_gradient(d_vectors: Ragged) -> None:
            gradients.add(backprop_pool(d_vectors.dataXd))

        self.deliver(docs, vectors, add_gradient, document_row=document_row)

    def _deliver_to_stock(self, docs: list[Doc], batch: BackboneBatch, gradients: GradientSum) -> None:
        def add_gradient(d_data: list[TransformerData]) -> list[Doc]:
            rows: Floats2d = batch.unsplit_by_doc([list(data.tensors) for data in d_data])
            if len(rows):
                gradients.add(rows)
            # Thinc's `concatenate`, as in the stock classifier's ensemble, adds up what its branches give back; in place.
            return list(docs)

        batch_id = TransformerListener.get_batch_id(docs)
        for listener in self.listeners:
            if isinstance(listener, TransformerListener):
                listener.receive(batch_id, batch.doc_data, add_gradient)

    def initialize(self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None) -> None:
        """Read the checkpoint, and tell the listeners its width.

        get_examples (Callable): not used. nlp (Language | None): not used; listeners are bound when the pipeline is put together.
        """
        self.model.initialize()
        for listener in self.listeners:
            if listener.has_dim("nO") is None:
                listener.set_dim("nO", self.model.get_dim("nO"))

    def from_disk(self, path, *, exclude: Iterable[str] = ()) -> "AttentionBackbone":
        """path (str | Path): the component's folder. exclude (Iterable[str]): parts to leave. RETURNS (AttentionBackbone): itself."""
        readers = {
            "vocab": self.vocab.from_disk,
            "cfg": lambda p: self.cfg.update(deserialize_config(p)),
            "model": lambda p: self.model.from_bytes(p.read_bytes()),
        }
        util.from_disk(path, readers, exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """exclude (Iterable[str]): parts to leave. RETURNS (bytes): the component."""
        writers = {"cfg": lambda: srsly.json_dumps(self.cfg), "model": self.model.to_bytes, "vocab": self.vocab.to_bytes}
        return util.to_bytes(writers, exclude)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "AttentionBackbone":
        """data (bytes): from `to_bytes`. exclude (Iterable[str]): parts to leave. RETURNS (AttentionBackbone): itself."""
        readers = {
            "cfg": lambda b: self.cfg.update(srsly.json_loads(b)),
            "model": self.model.from_bytes,
            "vocab": self.vocab.from_bytes,
        }
        util.from_bytes(data, readers, exclude)
        return self


# Documents can come from a pipeline loaded in another process before any component was made here.
install_extensions()
if not Doc.has_extension("backbone_report"):
    Doc.set_extension("backbone_report", default=None)
