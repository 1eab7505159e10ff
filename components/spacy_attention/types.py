"""Named aliases for the data that passes between the parts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from thinc.types import Floats2d, Ragged

# Token vectors of a batch: one array of rows with a length per document, or one array per document.
TokenVectors = Ragged | list[Floats2d]
# What a layer's forward returns beside its output.
Backprop = Callable[[Any], Any]


class ParameterKey(NamedTuple):
    """Names one torch weight for the optimizer.

    shim (int): id of the shim that holds it, unique in the process.
    name (str): its name in the module.
    component (str): `backbone`, `encoder` or `head`.
    below_top (int): layers between it and the top of its component; 0 is the top.
    """

    shim: int
    name: str
    component: str
    below_top: int


class SpanGroups(NamedTuple):
    """Keys in `doc.spans` of what belongs together.

    gold (str): of annotation. predicted (str): of predictions.
    """

    gold: str
    predicted: str


class EntityPrediction(NamedTuple):
    """One predicted entity: tokens `start` to `end` (exclusive), a label, and its probability in [0, 1]."""

    start: int
    end: int
    label: str
    confidence: float


@runtime_checkable
class TorchOptimizer(Protocol):
    """An optimizer that takes whole torch parameters, instead of one array at a time."""

    def collect_parameter(self, key: ParameterKey, parameter: Any) -> None:
        """Take the gradient out of `parameter.grad`, to be applied at the next step."""

    def step(self) -> None:
        """Apply what was taken."""


@runtime_checkable
class Backbone(Protocol):
    """Holds the checkpoint of a backbone, for callbacks of a training.

    n_pieces (int): read in updates so far; those of overlapping windows twice, what a cache gave included.
    """

    n_pieces: int

    def check_frozen(self, frozen: int | str) -> None:
        """Refuse what `freeze` cannot do."""

    def freeze(self, frozen: int | str) -> None:
        """Choose what does not learn from the next update on."""

    def prepare_update(self) -> None:
        """Make the weights that only training needs, if they are not there yet."""

    def save_adapter(self, folder: Path) -> None:
        """Write the adapters alone."""

    def write_unmerged(self, path: Path) -> None:
        """Write all weights as they are in training, if there are adapters."""

    def read_unmerged(self, path: Path) -> None:
        """Take up what `write_unmerged` wrote, if it wrote anything."""


@runtime_checkable
class Calibratable(Protocol):
    """A component whose probabilities can be made to agree with a corpus."""

    def evidence(self, examples: Any) -> Any:
        """What a batch with gold and token vectors says about them."""

    def calibrated(self, evidence: Any) -> Any:
        """A copy of the component that shares its weights, with the settings that fit what all batches said."""
