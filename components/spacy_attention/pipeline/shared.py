"""What the two shared components have in common: binding listeners, and losing no gradient.

A shared component runs once per training batch, and several heads listen. Each listener's callback only adds up. The sum goes back
once: at the component's `finish_update` or at its next `update`, whichever comes first; and before that, the shared components
that listen to it send theirs. So the order of the heads does not matter, nor whether one of them skips its update.

`nlp.update(sgd=optimizer)` calls `finish_update` right after a component's own `update`, when no listener has sent anything yet. That
batch is then finished at the start of the next `update`, before any weight is used again.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from thinc.api import Model, Optimizer
from thinc.types import Floats2d, Ragged

from ..layers.listener import NEAREST, Delivery, get_link
from ..types import TorchOptimizer


class GradientSum:
    """The gradients that come back for one training batch of a shared component.

    send_back (Callable): takes the summed gradient of the rows, (rows, width) float32, and runs the component's own backward pass.
    """

    def __init__(self, send_back: Callable[[Floats2d], Any]):
        self._send_back = send_back
        self._total: Floats2d | None = None

    def add(self, d_rows: Floats2d) -> None:
        """d_rows (Floats2d): (rows, width) gradient from one listener; copied, since it may be a view that changes."""
        if self._total is None:
            self._total = d_rows.copy()
        else:
            self._total += d_rows

    @property
    def empty(self) -> bool:
        """Whether nothing has come that could be sent."""
        return self._total is None

    def send(self) -> None:
        """Run the backward pass with what has come, if anything has."""
        total, self._total = self._total, None
        if total is not None:
            self._send_back(total)


class SharedComponent:
    """Mixin for a trainable pipe whose output other components read through `spacy-attention.Listener.v1`."""

    name: str
    model: Model
    listener_map: dict[str, list[Model]]
    # Whether listeners can have a row for the document itself.
    has_document_row = False

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.listener_map = {}
        self._listening: dict[str, Any] = {}
        self._pending: GradientSum | None = None
        self._finish_with: Optimizer | None = None

    @property
    def listeners(self) -> list[Model]:
        """The layers that listen to this component."""
        return [listener for name in self.listening_components for listener in self.listener_map[name]]

    @property
    def listening_components(self) -> list[str]:
        """Names of the components that listen to this one, in pipeline order."""
        return list(self.listener_map)

    def find_listeners(self, component: Any) -> None:
        """Bind the listeners of a later component. spaCy calls this in pipeline order, so the nearest shared component is the last to.

        component (Pipe): any component after this one.
        """
        if not isinstance(getattr(component, "model", None), Model):
            return
        for node in component.model.walk():
            link = get_link(node)
            if link is None or link.upstream_name not in (NEAREST, self.name):
                continue
            if node.has_dim("nO") and isinstance(link.upstream, SharedComponent) and link.upstream.reads_from(self):
                # A nearer component that is only disabled: spaCy puts the pipeline together without those that are frozen. What was
                # trained on its vectors must not be handed those of another.
                continue
            if link.upstream is not None and link.upstream is not self:
                link.upstream.remove_listener(node, component.name)
            link.upstream = self  # type: ignore[assignment]
            self._listening[component.name] = component
            self.add_listener(node, component.name)

    def reads_from(self, component: "SharedComponent") -> bool:
        """component (SharedComponent): another one. RETURNS (bool): whether its vectors come in here, directly or through others."""
        links = (get_link(node) for node in self.model.walk())
        sources = [link.upstream for link in links if link is not None and link.upstream is not None]
        return any(
            source is component or (isinstance(source, SharedComponent) and source.reads_from(component)) for source in sources
        )

    def add_listener(self, listener: Model, component_name: str) -> None:
        """listener (Model): the layer. component_name (str): the component it is part of."""
        bound = self.listener_map.setdefault(component_name, [])
        if listener not in bound:
            bound.append(listener)
        if self.model.has_dim("nO") and listener.has_dim("nO") is None:
            listener.set_dim("nO", self.model.get_dim("nO"))

    def remove_listener(self, listener: Model, component_name: str) -> bool:
        """listener (Model): the layer. component_name (str): its component. RETURNS (bool): whether it was bound here."""
        bound = self.listener_map.get(component_name, [])
        if listener not in bound:
            return False
        bound.remove(listener)
        if not bound:
            del self.listener_map[component_name]
        link = get_link(listener)
        if link is not None and link.upstream is self:
            link.upstream = None
        return True

    def deliver(
        self, docs: list[Doc], vectors: Ragged, add_gradient: Callable[[Ragged], None], *, document_row: bool = False
    ) -> None:
        """Hand a training batch to listeners of ours.

        docs (list[Doc]): the batch. vectors (Ragged): (tokens, width). add_gradient (Callable): called with each one's gradient.
        document_row (bool): whether these vectors have a row for each document, and so which listeners get them.
        """
        for listener in self.listeners:
            link = get_link(listener)
            if link is not None and listener.attrs["document_row"] == document_row:
                link.delivery = Delivery(docs, vectors, add_gradient)

    def collect_gradients(self, send_back: Callable[[Floats2d], Any]) -> GradientSum:
        """send_back (Callable): see `GradientSum`. RETURNS (GradientSum): to which the callbacks of a new batch add."""
        self._pending = GradientSum(send_back)
        return self._pending

    def send_gradients(self) -> None:
        """Run the backward pass for what listeners have sent so far, after the shared components among them have done the same."""
        for component in self._shared_listeners():
            component.send_gradients()
        pending = self._pending
        if pending is None or pending.empty:
            return
        self._pending = None
        for listener in self.listeners:
            link = get_link(listener)
            if link is not None:
                link.delivery = None
        pending.send()

    def finish_update(self, sgd: Optimizer) -> None:
        """Send the gradients back, then let the optimizer have them. sgd (Optimizer): any."""
        self.send_gradients()
        self.model.finish_update(sgd)
        # Called before any listener has sent its gradient: what comes is for the next `update` to finish.
        self._finish_with = sgd if self._pending is not None else None

    def start_update(
        self, examples: Iterable[Example], sgd: Optimizer | None, losses: dict[str, float] | None
    ) -> tuple[list[Doc], dict[str, float]]:
        """What every `update` of a shared component begins with: check the batch, and finish the one before it.

        examples, sgd, losses: as of `update`.
        RETURNS (tuple): the predicted documents, and losses with an entry for the component.
        """
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        self.finish_last_batch(sgd)
        return [eg.predicted for eg in examples], losses

    def finish_last_batch(self, sgd: Optimizer | None) -> None:
        """Before a new batch: send what listeners have left, and make up for a `finish_update` that came too early.

        sgd (Optimizer | None): of this `update`, to be used when no `finish_update` came.
        """
        self.send_gradients()
        used = {id(x): x for x in self._finish_late(sgd)}
        for optimizer in used.values():
            # The weights must not change any more once the new batch has gone through them.
            if isinstance(optimizer, TorchOptimizer):
                optimizer.step()

    def _finish_late(self, sgd: Optimizer | None) -> Iterator[Optimizer]:
        for component in self._shared_listeners():
            yield from component._finish_late(None)
        late, self._finish_with = self._finish_with or sgd, None
        if late is not None:
            self.model.finish_update(late)
            yield late

    def _shared_listeners(self) -> Iterator["SharedComponent"]:
        for name in self.listening_components:
            component = self._listening.get(name)
            if isinstance(component, SharedComponent):
                yield component
