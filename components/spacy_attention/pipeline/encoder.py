"""`attention_encoder`: shared self-attention over the tokens of whole documents."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config, Model, Optimizer, set_dropout_rate
from thinc.types import Ragged

from ..errors import Errors
from ..layers.packing import to_ragged, unpack
from ..types import TokenVectors
from .checks import check_get_examples
from .fork_guard import guard_forks
from .shared import SharedComponent

DEFAULT_CONFIG = Config().from_str("""
[attention_encoder]

[attention_encoder.model]
@architectures = "spacy-attention.AttentionEncoder.v1"
depth = 1
heads = 6
width = null
ff_width = null
dropout = 0.1
activation = "gelu"
norm = "pre"
positions = "none"
attention = "full"
mask = "bidirectional"
precision = "auto"

[attention_encoder.model.tok2vec]
@architectures = "spacy-attention.Listener.v1"
upstream = "nearest"
grad_factor = 1.0
""")["attention_encoder"]


@Language.factory("attention_encoder", assigns=["doc.tensor"], default_config=DEFAULT_CONFIG)
def make_attention_encoder(nlp: Language, name: str, model: Model[list[Doc], TokenVectors]) -> "AttentionEncoder":
    """Make the encoder component.

    model (Model): `spacy-attention.AttentionEncoder.v1`, or any layer from documents to token vectors.
    RETURNS (AttentionEncoder): the component.
    """
    return AttentionEncoder(nlp.vocab, model, name=name)


class AttentionEncoder(SharedComponent, TrainablePipe):
    """An encoder that several heads share. Its vectors are stored in `doc.tensor`.

    vocab (Vocab): of the pipeline.
    model (Model): documents in, token vectors out.
    name (str): of the component.
    """

    def __init__(self, vocab, model: Model[list[Doc], TokenVectors], *, name: str = "attention_encoder"):
        super().__init__(vocab, model, name)
        guard_forks()

    def predict(self, docs: Iterable[Doc]) -> Ragged:
        """docs (Iterable[Doc]): any. RETURNS (Ragged): (tokens, width) float32 with a length per document."""
        return to_ragged().predict(self.model.predict(list(docs)))

    def set_annotations(self, docs: Sequence[Doc], scores: Ragged) -> None:
        """Write `doc.tensor`.

        docs (Sequence[Doc]): get rows of their own: a view would keep the whole batch in memory for as long as one of its documents
            lives.
        scores (Ragged): from `predict`.
        """
        for doc, rows in zip(docs, unpack(self.model, scores), strict=True):
            doc.tensor = rows if len(docs) == 1 else rows.copy()

    def read_vectors(self, docs: list[Doc], *, document_row: bool = False) -> Ragged:
        """Pack the vectors stored on documents, for a listener.

        docs (list[Doc]): that went through this component.
        document_row (bool): not used: listeners see that there are no such rows.
        RETURNS (Ragged): (tokens, width) float32.
        RAISES (ValueError): E204 for a document that did not.
        """
        width = self.model.get_dim("nO")
        for i, doc in enumerate(docs):
            if len(doc) and doc.tensor.shape != (len(doc), width):
                raise ValueError(Errors.E204.format(index=i, name=self.name))
        ops = self.model.ops
        filled = [doc.tensor for doc in docs if len(doc)]
        rows = ops.asarray2f(ops.xp.concatenate(filled)) if filled else ops.alloc2f(0, width)
        return Ragged(rows, ops.asarray1i([len(doc) for doc in docs]))

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
        drop (float): dropout rate.
        sgd (Optimizer | None): steps the gradient of the batch before, as `finish_update` does.
        losses (dict | None): gets an entry under the component's name.
        RETURNS (dict): losses.
        """
        docs, losses = self.start_update(examples, sgd, losses)
        set_dropout_rate(self.model, drop)
        Y, backprop = self.model.begin_update(docs)
        vectors, backprop_pack = to_ragged()(Y, is_train=True)
        gradients = self.collect_gradients(lambda d_rows: backprop(backprop_pack(Ragged(d_rows, vectors.lengths))))
        self.deliver(docs, vectors, lambda d_vectors: gradients.add(d_vectors.dataXd))
        return losses

    def initialize(self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None) -> None:
        """Build the encoder, and tell the listeners its width.

        get_examples (Callable): gives training examples; ten are looked at. nlp (Language | None): not used.
        """
        check_get_examples(get_examples, self.name)
        self.model.initialize(X=[eg.x for eg in islice(get_examples(), 10)])
        for listener in self.listeners:
            if listener.has_dim("nO") is None:
                listener.set_dim("nO", self.model.get_dim("nO"))

    def get_loss(self, examples: Iterable[Example], scores: Any) -> None:
        """A shared component has no loss of its own."""

    def add_label(self, label: str) -> int:
        """A shared component has no labels."""
        raise NotImplementedError
