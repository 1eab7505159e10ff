"""How wide the vectors of a `tok2vec` block are."""

from typing import Any

from thinc.api import Model
from thinc.types import Ragged


def known_width(tok2vec: Model, X: Any = None) -> int:
    """Initialize a block and give the width of what it puts out.

    tok2vec (Model): of any kind.
    X: documents for it to run on when its width is not among its dimensions; stock transformer listeners are such a case.
    RETURNS (int): width of a token vector.
    """
    tok2vec.initialize(X=X)
    if tok2vec.has_dim("nO"):
        return tok2vec.get_dim("nO")
    listener = tok2vec.get_ref("listener") if tok2vec.has_ref("listener") else None
    if listener is not None and listener.has_dim("nO"):
        return listener.get_dim("nO")
    Y = tok2vec.predict(X)
    return (Y.dataXd if isinstance(Y, Ragged) else next(y for y in Y if len(y))).shape[1]
