"""Between one array per document and one packed array for the batch."""

from thinc.api import Model
from thinc.types import Floats2d, Ragged

from ..types import Backprop, TokenVectors


def to_ragged() -> Model[TokenVectors, Ragged]:
    """A layer that packs a list of arrays into one, and lets a packed one through.

    RETURNS (Model): input (documents) list of (tokens, width) float32, or Ragged; output Ragged of (all tokens, width).
    """
    return Model("to-ragged", forward)


def forward(model: Model, X: TokenVectors, is_train: bool) -> tuple[Ragged, Backprop]:
    """X (TokenVectors): token vectors of the batch. RETURNS (tuple): packed rows, and the way back to X's own form."""
    if isinstance(X, Ragged):
        return X, lambda dY: dY
    lengths = model.ops.asarray1i([len(x) for x in X])

    def backprop(dY: Ragged) -> list[Floats2d]:
        return unpack(model, dY)

    # Stock layers give empty documents an array of width 0, which does not stack with the others.
    filled = [x for x in X if len(x)]
    rows = model.ops.flatten(filled) if filled else model.ops.alloc2f(0, max((x.shape[1] for x in X), default=0))
    return Ragged(rows, lengths), backprop


def unpack(model: Model, X: Ragged) -> list[Floats2d]:
    """model (Model): for its ops. X (Ragged): packed rows. RETURNS (list[Floats2d]): one view per document."""
    return model.ops.unflatten(X.dataXd, X.lengths)
