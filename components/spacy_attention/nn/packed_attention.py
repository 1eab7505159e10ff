"""Windows of several lengths in one forward pass: everything but attention works piece by piece and needs no padding between them.

The idea is that of packed or "unpadded" batches (Zeng et al. 2022, ByteTransformer, section 3.3, and PyTorch's nested tensors), for models
that were not written for it: the pass is one long row, and attention, which alone must not look across windows, is computed for each
block of windows of one length.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from .float32_attention import learns_in_bfloat16, without_autocast
from .short_attention import LONGEST, ShortAttention, learns


class Block(NamedTuple):
    """Windows of one length within a pass.

    windows (int): how many.
    length (int): pieces of each, padding included.
    padded (bool): whether any of them has padding.
    """

    windows: int
    length: int
    padded: bool

    @property
    def cells(self) -> int:
        """Pieces in all, padding included."""
        return self.windows * self.length


class PackedAttention(TorchFunctionMode):
    """Within this context attention over a row of all windows stays within each window.

    blocks (list[Block]): that the row consists of, in order; what comes behind them looks at nothing, and nothing at it.
    mask (Tensor): (cells,) 1 = a piece, 0 = padding.
    """

    def __init__(self, blocks: list[Block], mask: Tensor):
        super().__init__()
        self.blocks = blocks
        self.mask = mask
        self._biases: list[Tensor | None] = []
        self._short = all(block.length <= LONGEST for block in blocks)
        sizes = [block.cells for block in blocks]
        self._sizes = [*sizes, len(mask) - sum(sizes)]

    def __torch_function__(
        self, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """See `torch.overrides`. RETURNS (Any): what the function returns."""
        if func is not scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        return self._attend(*args, **(kwargs or {}))

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
        """query, key, value (Tensor): (1, heads, cells, width). RETURNS (Tensor): (1, heads, cells, width)."""
        if self._short and learns(query) and query.device.type == "cpu" and not any(options.values()):
            return self._attend_short(query, key, value)
        if learns_in_bfloat16(query) and query.dtype is torch.bfloat16:
            # The row as a whole: casts of each block alone, and of its gradients, take as long as the attention itself.
            with without_autocast():
                return self._attend(query.float(), key.float(), value.float(), attn_mask, **options).to(query.dtype)
        if not self._biases:
            self._biases = self._make_biases(query.dtype)
        outputs = []
        # Split once: the gradient of a slice would be as long as the row, for each block again.
        parts = (x[0].transpose(0, 1).split(self._sizes) for x in (query, key, value))
        for block, bias, *rows in zip(self.blocks, self._biases, *parts, strict=False):
            q, k, v = (x.unflatten(0, block[:2]).transpose(1, 2) for x in rows)
            output = scaled_dot_product_attention(q, k, v, attn_mask=bias, **options)
            outputs.append(output.transpose(1, 2).flatten(0, 1))
        outputs.append(query.new_zeros(self._sizes[-1], *outputs[0].shape[1:]))
        return torch.cat(outputs).transpose(0, 1)[None]

    def _attend_short(self, *inputs: Tensor) -> Tensor:
        """What `_attend` gives, in an update on a CPU and without dropout."""
        if not self._biases:
            self._biases = self._make_biases(torch.float32)
        with without_autocast():
            output = ShortAttention.apply(
                *(x[0].transpose(0, 1) for x in inputs), [block[:2] for block in self.blocks], self._biases
            )
        return output.transpose(0, 1)[None]

    def _make_biases(self, dtype: torch.dtype) -> list[Tensor | None]:
        """Per block what is added to its scores, (windows, 1, length, length), very low at padding; None where there is none."""
        biases: list[Tensor | None] = []
        for block, mask in zip(self.blocks, self.mask.split(self._sizes), strict=False):
            bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask == 0, torch.finfo(dtype).min)
            shape = (block.windows, 1, 1, block.length)
            biases.append(bias.view(shape).expand(-1, -1, block.length, -1) if block.padded else None)
        return biases
