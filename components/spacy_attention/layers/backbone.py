"""The layer from documents to the hidden states of their word pieces."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
import torch
from spacy.tokens import Doc
from spacy_transformers.data_classes import TransformerData, WordpieceBatch
from thinc.api import Model, get_array_module, to_numpy, torch2xp, xp2torch
from thinc.types import Floats2d, FloatsXd, Ragged
from torch import Tensor
from transformers.file_utils import ModelOutput

from ..nn.transformer import can_pack
from .attentions import of_document, read_attentions
from .grouping import Passes
from .hf_shim import CheckpointShim
from .layout import Layout, lay_out
from .micro_batches import make_micro_batches
from .pieces import Pieces, SpecialIds, special_ids
from .vector_cache import Rows
from .windows import expand_ranges


@dataclass
class BackboneBatch:
    """What the backbone gives for a batch; the interface that spacy-transformers' `Transformer` asks of its model.

    rows (Floats2d): (rows, width) float32: of each document with tokens its own row first (that of the special piece in front of it),
        then one per piece.
    layout (Layout): which rows are whose.
    attentions (list[FloatsXd] | None): per window, from `read_attentions`, where they were asked for.
    """

    rows: Floats2d
    layout: Layout
    attentions: list[FloatsXd] | None = None

    @cached_property
    def doc_data(self) -> list[TransformerData]:
        """One per document, views of the rows. Documents without tokens have no `last_hidden_state`."""
        return [self._data(d) for d in range(len(self.layout.n_tokens))]

    def _data(self, d: int) -> TransformerData:
        layout = self.layout
        if not layout.n_tokens[d]:
            return TransformerData.empty()
        start, token = layout.row_starts[d], layout.token_starts[d]
        hidden = self.rows[None, start : start + layout.n_rows[d]]
        lengths = layout.pieces_per_token[token : token + layout.n_tokens[d]]
        rows = layout.token_rows[token : token + layout.n_tokens[d]] - start
        align = Ragged(expand_ranges(rows, lengths).astype("int32"), lengths.astype("int32"))
        maps = {} if self.attentions is None else of_document(layout, self.attentions, d)
        return TransformerData(_wordpieces(layout.pieces[d]), ModelOutput(last_hidden_state=hidden, **maps), align)

    def unsplit_by_doc(self, arrays: list[list[Any]]) -> Floats2d:
        """arrays (list): gradient arrays of each document that has rows. RETURNS (Floats2d): (rows, width), packed."""
        if not arrays:
            return self.rows[:0]
        xp = get_array_module(self.rows)
        return xp.concatenate([array.reshape(-1, self.rows.shape[1]) for (array,) in arrays])


def backbone_layer(shim: CheckpointShim, attrs: dict[str, Any], init: Callable) -> Model[list[Doc], BackboneBatch]:
    """Wrap a checkpoint.

    shim (CheckpointShim): holds it.
    attrs (dict): `name`, `window`, `stride`, `budget`, `truncate`, `output_attentions`, and what packaging needs.
    init (Callable): Thinc init function that fills the shim.
    RETURNS (Model): input documents, output `BackboneBatch`; its `nO` is known after init.
    """
    return Model("attention-backbone", forward, init=init, dims={"nO": None}, attrs=attrs, shims=[shim])


def _read_each(model: Model, docs: list[Doc]) -> list[Rows]:
    """RETURNS (list[Rows]): the rows of each document on the host, as prediction gives them."""
    batch = model.predict(docs)
    return numpy.split(to_numpy(batch.rows), batch.layout.row_starts[1:])


def forward(model: Model, docs: list[Doc], is_train: bool) -> tuple[BackboneBatch, Callable]:
    """docs (list[Doc]): any. RETURNS (tuple): the batch, and a callback that takes the gradient of its packed rows."""
    shim: CheckpointShim = model.shims[0]
    special = special_ids(shim.tokenizer)
    capacity = model.attrs["window"] - len(special.before) - len(special.after)
    stride = min(model.attrs["stride"], capacity)
    layout = lay_out(shim.tokenizer, docs, capacity=capacity, stride=stride, truncate=model.attrs["truncate"])
    if is_train:
        shim.n_pieces += int(layout.windows.lengths.sum())
    passes, backprop_torch = passes_for(shim, model.attrs["window"], model.attrs["budget"]), None
    attentions: list[FloatsXd] | None = None
    if not layout.n_tokens.any():
        rows = model.ops.alloc2f(0, model.get_dim("nO"))
    elif is_train and shim.cache is not None and shim.is_frozen:
        kept = shim.cache.read(docs, shim.version, lambda missing: _read_each(model, missing))
        rows = model.ops.asarray2f(numpy.concatenate(kept))
    elif is_train:
        rows_torch, backprop_torch = shim.begin_update(_inputs(shim, layout, special, passes))
        rows = torch2xp(rows_torch)
    else:
        rows = torch2xp(_predict(shim, layout, special, passes))
        attentions = read_attentions(shim, layout, special, passes) if model.attrs["output_attentions"] else None

    def backprop(d_rows: Floats2d) -> list[Doc]:
        if backprop_torch is not None and len(d_rows):
            backprop_torch(xp2torch(d_rows, device=shim.device))
        return docs

    return BackboneBatch(rows, layout, attentions), backprop


def passes_for(shim: CheckpointShim, longest: int, budget: int) -> Passes:
    """shim (CheckpointShim): holds the model. longest, budget (int): see `Passes`. RETURNS (Passes): with what blocks cost there."""
    packed = can_pack(shim.transformer)
    if shim.device.type != "cpu":
        # Not measured: many small kernels to start, and pieces that cost little.
        return Passes(longest, budget, packed, 512 if packed else 4096, 0.1)
    # MiniLM on 2 cores with AMX: a pass of its own costs about 14 ms, a further block in a pass less than 1; a piece 24 microseconds
    # in bfloat16, 80 in float32, of them attention a quarter and a tenth.
    if shim.dtype is torch.bfloat16:
        # For each new number of pieces oneDNN makes new code, 25 milliseconds for an update, so there must not be too many of them.
        return Passes(longest, budget, packed, 32 if packed else 512, 0.15, multiple=32)
    return Passes(longest, budget, packed, 8 if packed else 128, 0.04)


def _inputs(shim: CheckpointShim, layout: Layout, special: SpecialIds, passes: Passes) -> list[tuple[Any, ...]]:
    batches = make_micro_batches(layout, special, passes)
    return [(*(xp2torch(x, device=shim.device) for x in batch[:5]), batch.blocks) for batch in batches]


def _predict(shim: CheckpointShim, layout: Layout, special: SpecialIds, passes: Passes) -> Tensor:
    """Predict; where the device runs out of memory, with half of the budget, down to windows one by one."""
    try:
        return shim.predict(_inputs(shim, layout, special, passes))
    except torch.OutOfMemoryError:
        if passes.budget <= layout.windows.lengths.max():
            raise
    # Outside the handler: there the traceback still holds the activations that did not fit.
    torch.cuda.empty_cache()
    return _predict(shim, layout, special, passes._replace(budget=passes.budget // 2))


def own_copy(data: TransformerData) -> TransformerData:
    """data (TransformerData): of one document, with views. RETURNS (TransformerData): the same, with a copy of its hidden states."""
    output = ModelOutput(data.model_output)
    if "last_hidden_state" in output:
        output["last_hidden_state"] = output["last_hidden_state"].copy()
    return TransformerData(data.wordpieces, output, data.align)


def _wordpieces(pieces: Pieces) -> WordpieceBatch:
    n_pieces = len(pieces.ids)
    return WordpieceBatch(
        strings=[pieces.strings],
        input_ids=pieces.ids[None],
        attention_mask=numpy.ones((1, n_pieces), dtype="float32"),
        lengths=[n_pieces],
        token_type_ids=None,
    )
