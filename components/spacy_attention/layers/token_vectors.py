"""From the hidden states of word pieces to one vector per token, for a whole batch at once."""

from collections.abc import Callable

import numpy
from spacy_transformers.data_classes import TransformerData
from thinc.api import Ops
from thinc.types import Floats2d, Ragged


def pool_pieces(ops: Ops, doc_data: list[TransformerData], width: int) -> tuple[Ragged, Callable[[Floats2d], Floats2d]]:
    """The mean of each token's pieces; zeros for a token without pieces.

    ops (Ops): where the rows lie.
    doc_data (list[TransformerData]): of the documents of a batch, in order.
    width (int): of the hidden states.
    RETURNS (tuple): Ragged of (tokens, width) float32 with a length per document, and a callback from the gradient of its rows to
        that of the packed hidden states, (rows, width).
    """
    states = [data.model_output.last_hidden_state for data in doc_data if "last_hidden_state" in data.model_output]
    hidden = ops.xp.concatenate([x.reshape(-1, width) for x in states]) if states else ops.alloc2f(0, width)
    ends = numpy.cumsum([0] + [x.size // width for x in states])
    filled = (data for data in doc_data if "last_hidden_state" in data.model_output)
    indices = [data.align.dataXd.reshape(-1) + start for data, start in zip(filled, ends, strict=False)]
    index = ops.asarray1i(numpy.concatenate([*indices, numpy.zeros(0, dtype="int32")]))
    per_token = ops.asarray1i(numpy.concatenate([*(data.align.lengths for data in doc_data), numpy.zeros(0, "int32")]))
    # Thinc's kernels do not take zero rows, which is what a batch of nothing but whitespace has.
    rows = ops.reduce_mean(hidden[index], per_token) if len(index) else ops.alloc2f(len(per_token), width)

    def backprop(d_rows: Floats2d) -> Floats2d:
        d_hidden = ops.alloc2f(*hidden.shape)
        if len(index):
            ops.scatter_add(d_hidden, index, ops.backprop_reduce_mean(d_rows, per_token))
        return d_hidden

    return Ragged(rows, ops.asarray1i([len(data.align.lengths) for data in doc_data])), backprop
