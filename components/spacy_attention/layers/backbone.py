"""The layer from documents to the hidden states of their word pieces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy_transformers.data_classes import TransformerData, WordpieceBatch
from thinc.api import Model, get_array_module, torch2xp, xp2torch
from thinc.types import Floats2d, Ragged
from transformers.file_utils import ModelOutput

from .alignment import align_offsets, token_offsets
from .hf_shim import CheckpointShim
from .pieces import Pieces, SpecialIds, encode_docs, special_ids
from .windows import central_windows, cut_windows, expand_ranges, group_by_budget

Ints = NDArray[numpy.int64]


@dataclass
class BackboneBatch:
    """What the backbone gives for a batch; the interface that spacy-transformers' `Transformer` asks of its model.

    doc_data (list[TransformerData]): one per document. `last_hidden_state` is (1, rows, width): the document's own row first (that
        of the special piece in front of it), then one row per piece, no padding. Documents without tokens have none.
    rows (Floats2d): the same rows, packed.
    """

    doc_data: list[TransformerData]
    rows: Floats2d

    def unsplit_by_doc(self, arrays: list[list[Any]]) -> Floats2d:
        """arrays (list): gradient arrays of each document that has rows. RETURNS (Floats2d): (rows, width), packed."""
        if not arrays:
            return self.rows[:0]
        xp = get_array_module(self.rows)
        return xp.concatenate([array.reshape(-1, self.rows.shape[1]) for (array,) in arrays])


def backbone_layer(shim: CheckpointShim, attrs: dict[str, Any], init: Callable) -> Model[list[Doc], BackboneBatch]:
    """Wrap a checkpoint.

    shim (CheckpointShim): holds it.
    attrs (dict): `name`, `window`, `stride`, `budget`, and what packaging needs.
    init (Callable): Thinc init function that fills the shim.
    RETURNS (Model): input documents, output `BackboneBatch`; its `nO` is known after init.
    """
    return Model("attention-backbone", forward, init=init, dims={"nO": None}, attrs=attrs, shims=[shim])


def forward(model: Model, docs: list[Doc], is_train: bool) -> tuple[BackboneBatch, Callable]:
    """docs (list[Doc]): any. RETURNS (tuple): the batch, and a callback that takes the gradient of its packed rows."""
    shim: CheckpointShim = model.shims[0]
    filled = [doc for doc in docs if len(doc)]
    pieces = encode_docs(shim.tokenizer, filled)
    aligned = [align_offsets(*token_offsets(doc), p.starts, p.ends) for doc, p in zip(filled, pieces, strict=True)]
    inputs = _plan(model, pieces, aligned, special_ids(shim.tokenizer))
    if not filled:
        rows, backprop_torch = model.ops.alloc2f(0, model.get_dim("nO")), None
    elif is_train:
        rows_torch, backprop_torch = shim.begin_update(*inputs)
        rows = torch2xp(rows_torch)
    else:
        rows, backprop_torch = torch2xp(shim.predict(*inputs)), None

    def backprop(d_rows: Floats2d) -> list[Doc]:
        if backprop_torch is not None and len(d_rows):
            backprop_torch(xp2torch(d_rows, device=shim.device))
        return docs

    return BackboneBatch(_split(docs, pieces, aligned, rows), rows), backprop


def _plan(model: Model, pieces: list[Pieces], aligned: list[tuple[Ints, Ints]], special: SpecialIds) -> tuple[list, Any]:
    """The arguments of `WindowedTransformer`: padded micro-batches, and where each row of the result comes from."""
    window, stride = model.attrs["window"], model.attrs["stride"]
    capacity = window - len(special.before) - len(special.after)
    windows: list[Ints] = []  # ids of each window, special ones included
    source: list[Ints] = []  # per document: window and column of each row
    for doc_pieces, (first, last) in zip(pieces, aligned, strict=True):
        n_pieces = len(doc_pieces.ids)
        cuts = cut_windows(n_pieces, capacity, min(stride, capacity))
        owner = central_windows(cuts, first, last, n_pieces)
        columns = numpy.arange(n_pieces) - cuts[owner, 0] + len(special.before)
        inner = numpy.stack([owner, columns], axis=1) + [len(windows), 0]
        source.append(numpy.concatenate([[[len(windows), 0]], inner]))
        ids = [numpy.concatenate([special.before, doc_pieces.ids[a:b], special.after]).astype("int64") for a, b in cuts]
        # A text without pieces, under a tokenizer that adds none, still needs something to read.
        windows.extend(x if len(x) else numpy.array([special.pad]) for x in ids)
    return _micro_batches(model, windows, source, special.pad)


def _micro_batches(model: Model, windows: list[Ints], source: list[Ints], pad: int) -> tuple[list, Any]:
    lengths = numpy.array([len(ids) for ids in windows], dtype="int64")
    wanted = numpy.concatenate(source) if source else numpy.zeros((0, 2), dtype="int64")
    device = model.shims[0].device
    groups, kept = [], []
    for members in group_by_budget(lengths, model.attrs["budget"]):
        longest = int(lengths[members].max())
        mask = numpy.arange(longest) < lengths[members][:, None]
        ids = numpy.full(mask.shape, pad, dtype="int64")
        ids[mask] = numpy.concatenate([windows[i] for i in members])
        place = numpy.full(len(windows), -1)
        place[members] = numpy.arange(len(members))
        here = numpy.flatnonzero(place[wanted[:, 0]] >= 0)
        kept.append(here)
        rows = place[wanted[here, 0]] * longest + wanted[here, 1]
        groups.append(tuple(xp2torch(x.astype("int64"), device=device) for x in (ids, mask, rows)))
    order = numpy.argsort(numpy.concatenate(kept), kind="stable") if kept else numpy.zeros(0, dtype="int64")
    return groups, xp2torch(order, device=device)


def _split(docs: list[Doc], pieces: list[Pieces], aligned: list[tuple[Ints, Ints]], rows: Floats2d) -> list[TransformerData]:
    data, start = [], 0
    parts = iter(zip(pieces, aligned, strict=True))
    for doc in docs:
        if not len(doc):
            data.append(TransformerData.empty())
            continue
        doc_pieces, (first, last) = next(parts)
        n_rows = len(doc_pieces.ids) + 1
        hidden = rows[None, start : start + n_rows]
        # Row 0 is the document's own, so pieces count from 1.
        align = Ragged(expand_ranges(first + 1, last - first).astype("int32"), (last - first).astype("int32"))
        data.append(TransformerData(_wordpieces(doc_pieces), ModelOutput(last_hidden_state=hidden), align))
        start += n_rows
    return data


def _wordpieces(pieces: Pieces) -> WordpieceBatch:
    n_pieces = len(pieces.ids)
    return WordpieceBatch(
        strings=[pieces.strings],
        input_ids=pieces.ids[None],
        attention_mask=numpy.ones((1, n_pieces), dtype="float32"),
        lengths=[n_pieces],
        token_type_ids=None,
    )
