"""The layer that reads the token vectors of a shared component earlier in the pipeline."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Ragged

from ..errors import Errors
from ..types import Backprop

NEAREST = "nearest"


class Upstream(Protocol):
    """What a listener asks of the component it is bound to."""

    name: str
    model: Model
    has_document_row: bool

    def read_vectors(self, docs: list[Doc], *, document_row: bool) -> Ragged:
        """Give the token vectors that were stored on the documents, if asked after a row for the document."""
        ...

    def remove_listener(self, listener: Model, component_name: str) -> bool:
        """Forget a listener."""
        ...


@dataclass
class Delivery:
    """A training batch on its way to one listener.

    docs (list[Doc]): the documents, to check that the listener is asked about the same ones.
    vectors (Ragged): (tokens, width) float32.
    add_gradient (Callable): takes the gradient of the rows; only adds up.
    """

    docs: list[Doc]
    vectors: Ragged
    add_gradient: Callable[[Ragged], None]


@dataclass
class Link:
    """Where a listener is plugged in. Lives in the attributes of the layer, because copies of a Thinc model keep only those.

    upstream_name (str): `nearest`, or the name of a component.
    upstream (Upstream | None): the component, once the pipeline is put together.
    delivery (Delivery | None): the training batch that waits to be read.
    """

    upstream_name: str = NEAREST
    upstream: Upstream | None = field(default=None, compare=False)
    delivery: Delivery | None = field(default=None, compare=False)

    def __deepcopy__(self, memo: dict) -> "Link":
        # A copied layer belongs to another component or pipeline and is bound there.
        return Link(self.upstream_name)


def listener_layer(upstream_name: str, grad_factor: float = 1.0, *, document_row: bool = False) -> Model[list[Doc], Ragged]:
    """Make a listener.

    upstream_name (str): see `Link`.
    grad_factor (float): by which gradients are multiplied on their way upstream.
    document_row (bool): whether a row for the document itself comes before those of its tokens.
    RETURNS (Model): documents in, Ragged of (tokens, nO) float32 out.
    """
    attrs = {"link": Link(upstream_name), "grad_factor": grad_factor, "document_row": document_row}
    return Model("attention-listener", forward, init=init, dims={"nO": None}, attrs=attrs)


def get_link(node: Model) -> Link | None:
    """node (Model): any layer. RETURNS (Link | None): its link, when it is one of our listeners."""
    link = node.attrs.get("link")
    return link if isinstance(link, Link) else None


def init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Take the width from upstream. RAISES (ValueError): E201 when nothing is bound; E207 for a document row that it does not have."""
    _, upstream = _bound(model)
    if model.has_dim("nO") is None:
        if upstream.model.has_dim("nO") is None:
            # `spacy train` initializes no frozen component; a frozen checkpoint must be read all the same.
            upstream.model.initialize(X=X)
        model.set_dim("nO", upstream.model.get_dim("nO"))


def forward(model: Model, docs: list[Doc], is_train: bool) -> tuple[Ragged, Backprop]:
    """docs (list[Doc]): of the batch. RETURNS (tuple): vectors delivered by upstream, or those stored on the documents."""
    link, upstream = _bound(model)
    delivery = link.delivery
    if is_train and delivery is not None:
        _check_same(link, delivery.docs, docs)

        def backprop(d_vectors: Ragged) -> list[Doc]:
            delivery.add_gradient(Ragged(d_vectors.dataXd * model.attrs["grad_factor"], d_vectors.lengths))
            link.delivery = None
            return docs

        return delivery.vectors, backprop
    return upstream.read_vectors(docs, document_row=model.attrs["document_row"]), lambda d_vectors: docs


def _bound(model: Model) -> tuple[Link, Upstream]:
    link: Link = model.attrs["link"]
    if link.upstream is None:
        raise ValueError(Errors.E201.format(upstream=link.upstream_name))
    if model.attrs["document_row"] and not link.upstream.has_document_row:
        raise ValueError(Errors.E207.format(name=link.upstream.name))
    return link, link.upstream


def _check_same(link: Link, delivered: list[Doc], asked: list[Doc]) -> None:
    if len(delivered) != len(asked) or any(a is not b for a, b in zip(delivered, asked, strict=True)):
        raise ValueError(Errors.E202.format(upstream=link.upstream_name, delivered=len(delivered), asked=len(asked)))
