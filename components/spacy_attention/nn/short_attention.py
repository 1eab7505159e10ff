"""Attention over short windows on a CPU, forwards and backwards, as products of small matrices.

PyTorch's fused kernel saves memory, which nothing needs where a window has a few pieces, and there its start for each window and head
takes longer than the arithmetic, above all backwards. Results are those of softmax(Q K^T / sqrt(width)) V (Vaswani et al. 2017, section
3.2.1), in float32 where bfloat16 comes in.
"""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Pieces of a window. The products win at every length up to here; above it their weights would begin to take memory.
LONGEST = 64


def learns(X: Tensor) -> bool:
    """X (Tensor): any. RETURNS (bool): whether a gradient will come back through what is made of it now."""
    return torch.is_grad_enabled() and X.requires_grad


class ShortAttention(torch.autograd.Function):
    """Attention within each window of a row, for windows in blocks of one length."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, shapes: list[tuple[int, int]], biases: list[Tensor | None]
    ) -> Tensor:
        # query, key, value: (cells, heads, width). shapes: windows and length of each block, in order; what comes behind them gives
        # zeros. biases: per block what is added to its scores, as (windows, 1, length, length), or None.
        # Returns (cells, heads, width) in the format of the query.
        output = _row_like(query, shapes)
        saved = []
        for rows, (windows, length), bias in zip(_rows(shapes), shapes, biases, strict=True):
            q, k, v = (_by_head(x[rows], windows) for x in (query, key, value))
            scores = torch.bmm(q, k.transpose(1, 2)).mul_(_scale(q))
            if bias is not None:
                scores.view(windows, -1, length, length).add_(bias)
            weights = scores.softmax(-1)
            _put(output[rows], torch.bmm(weights, v), windows)
            saved += [q, k, v, weights]
        ctx.save_for_backward(*saved)
        ctx.shapes = shapes
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (d_output,) = d_outputs
        d_query, d_key, d_value = (_row_like(d_output, ctx.shapes) for _ in range(3))
        saved = iter(ctx.saved_tensors)
        for rows, (windows, _) in zip(_rows(ctx.shapes), ctx.shapes, strict=True):
            q, k, v, weights = (next(saved) for _ in range(4))
            dy = _by_head(d_output[rows], windows)
            d_weights = torch.bmm(dy, v.transpose(1, 2))
            d_scores = torch.ops.aten._softmax_backward_data(d_weights, weights, -1, weights.dtype).mul_(_scale(q))
            _put(d_query[rows], torch.bmm(d_scores, k), windows)
            _put(d_key[rows], torch.bmm(d_scores.transpose(1, 2), q), windows)
            _put(d_value[rows], torch.bmm(weights.transpose(1, 2), dy), windows)
        return d_query, d_key, d_value, None, None


def _rows(shapes: list[tuple[int, int]]) -> list[slice]:
    ends = [0]
    for windows, length in shapes:
        ends.append(ends[-1] + windows * length)
    return [slice(start, end) for start, end in pairwise(ends)]


def _row_like(X: Tensor, shapes: list[tuple[int, int]]) -> Tensor:
    """A row to be filled block by block; what comes behind the blocks is zero already."""
    row = torch.empty_like(X, memory_format=torch.contiguous_format)
    row[sum(windows * length for windows, length in shapes) :] = 0
    return row


def _scale(q: Tensor) -> float:
    return q.shape[-1] ** -0.5


def _by_head(rows: Tensor, windows: int) -> Tensor:
    """(windows x length, heads, width) as (windows x heads, length, width), at least float32: one pass that casts and turns."""
    turned = rows.unflatten(0, (windows, -1)).transpose(1, 2)
    return torch.empty(turned.shape, dtype=torch.promote_types(rows.dtype, torch.float32)).copy_(turned).flatten(0, 1)


def _put(rows: Tensor, X: Tensor, windows: int) -> None:
    """The way back of `_by_head`, into rows that are there."""
    rows.unflatten(0, (windows, -1)).copy_(X.unflatten(0, (windows, -1)).transpose(1, 2))
