"""The attention weights of the checkpoint's own layers, for those who want to look at them."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from thinc.api import torch2xp, xp2torch
from thinc.types import FloatsXd

from ..errors import Errors
from .grouping import Passes
from .hf_shim import CheckpointShim
from .layout import Layout
from .micro_batches import make_micro_batches
from .pieces import SpecialIds


def read_attentions(shim: CheckpointShim, layout: Layout, special: SpecialIds, passes: Passes) -> list[FloatsXd]:
    """Run the checkpoint once more, in float32 and with its plain attention: the fused kernels never hold these weights.

    shim (CheckpointShim): holds the model.
    layout (Layout): of the documents.
    special (SpecialIds): what stands around each window.
    passes (Passes): of the model.
    RETURNS (list[FloatsXd]): per window (layers, heads, length, length) float32, special pieces included; rows sum to 1.
    RAISES (ValueError): E119 for a model that has no weights of every piece for every other.
    """
    found: dict[int, FloatsXd] = {}
    around = len(special.before) + len(special.after)
    lengths = numpy.maximum(layout.windows.lengths + around, 1)
    for batch in make_micro_batches(layout, special, passes._replace(packed=False)):
        (block,) = batch.blocks
        ids, mask = (xp2torch(x.reshape(block[:2]), device=shim.device) for x in (batch.ids, batch.mask))
        maps = _maps(shim.transformer, ids, mask)
        for i, window in enumerate(batch.windows.tolist()):
            n = int(lengths[window])
            found[window] = torch2xp(maps[:, i, :, :n, :n].contiguous())
    return [found[window] for window in range(len(lengths))]


def _maps(transformer: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """RETURNS (Tensor): (layers, windows, heads, length, length)."""
    with torch.inference_mode(), _plain_attention(transformer.config):
        maps = transformer(input_ids=ids, attention_mask=mask, output_attentions=True).get("attentions")
    square = (ids.shape[1], ids.shape[1])
    if not maps or any(x is None or x.shape[-2:] != square for x in maps):
        raise ValueError(Errors.E119.format(model_type=transformer.config.model_type))
    return torch.stack([x.float() for x in maps])


@contextlib.contextmanager
def _plain_attention(config: Any) -> Iterator[None]:
    """Some models choose their attention when they are built and give way by themselves, others look into the config each time."""
    before = config._attn_implementation
    config._attn_implementation = "eager"
    try:
        yield
    finally:
        config._attn_implementation = before


def of_document(layout: Layout, attentions: list[FloatsXd], d: int) -> dict[str, Any]:
    """What belongs to one document.

    layout (Layout): of the batch. attentions (list[FloatsXd]): from `read_attentions`. d (int): place of the document.
    RETURNS (dict): `attentions` of its windows, and `windows` (Ints): (windows, 2) their first and exclusive last piece.
    """
    first = layout.window_starts[d]
    here = slice(first, first + layout.windows.per_doc[d])
    starts = layout.windows.starts[here] - layout.piece_starts[d]
    return {"attentions": attentions[here], "windows": numpy.stack([starts, starts + layout.windows.lengths[here]], axis=1)}
