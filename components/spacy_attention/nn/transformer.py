"""Runs a Hugging Face model over micro-batches of windows and keeps only the rows that are wanted."""

from typing import Any

import torch
from torch import Tensor, nn

from .packed_attention import Block, PackedAttention
from .short_attention import LONGEST

# Models in which nothing but attention looks at more than one piece, and which can be told the positions.
PACKABLE = frozenset({"albert", "bert", "camembert", "roberta", "xlm-roberta"})


class WindowedTransformer(nn.Module):
    """A transformer whose output is packed rows instead of a padded batch.

    transformer (nn.Module): a Hugging Face model that gives `last_hidden_state`.
    states (nn.Module): from `choose_states`; which hidden state is the output.
    """

    def __init__(self, transformer: Any, states: nn.Module):
        super().__init__()
        self.transformer = transformer
        self.states = states
        self.first_position = first_position(transformer)

    def forward(self, passes: list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor, list[Block]]]) -> Tensor:
        """Encode windows pass by pass.

        passes (list): per pass ids, mask and positions, (cells,) int64; the cells to keep, (kept,) int64; the row of the result that
            each of them becomes, (kept,) int64; and its blocks, several, or cells behind them, only for a model
            that `can_pack`.
        RETURNS (Tensor): (rows, width) float32.
        """
        n_rows = sum(len(target) for *_, target, _ in passes)
        rows = passes[0][0].new_empty(n_rows, self.transformer.config.hidden_size, dtype=torch.float32)
        for ids, mask, positions, source, target, blocks in passes:
            packed = self._is_packed(ids, blocks)
            hidden = self._read_packed(ids, mask, positions, blocks) if packed else self._read_padded(ids, mask, blocks[0])
            # Written in place: of a long document no second copy is ever held.
            rows.index_copy_(0, target, hidden.flatten(0, 1).index_select(0, source).float())
        return rows

    def _is_packed(self, ids: Tensor, blocks: list[Block]) -> bool:
        if len(blocks) > 1 or blocks[0].cells < len(ids):
            return True
        # A block alone need not be, but an update of short windows without dropout in attention is faster that way.
        no_dropout = not getattr(self.transformer.config, "attention_probs_dropout_prob", 0.0)
        learns = self.training and torch.is_grad_enabled() and ids.device.type == "cpu"
        return learns and no_dropout and blocks[0].length <= LONGEST and can_pack(self.transformer)

    def _read_padded(self, ids: Tensor, mask: Tensor, block: Block) -> Tensor:
        return self._read(input_ids=ids.view(block[:2]), attention_mask=mask.view(block[:2]))

    def _read_packed(self, ids: Tensor, mask: Tensor, positions: Tensor, blocks: list[Block]) -> Tensor:
        inputs = {
            "input_ids": ids[None],
            # All ones, so that the model makes no mask of its own, which would have cells x cells values.
            "attention_mask": torch.ones_like(ids)[None],
            "position_ids": positions[None] + self.first_position,
            "token_type_ids": torch.zeros_like(ids)[None],
        }
        with PackedAttention(blocks, mask):
            return self._read(**inputs)

    def _read(self, **inputs: Tensor) -> Tensor:
        options = {"output_hidden_states": True} if self.states.all_states else {}
        return self.states(self.transformer(**inputs, **options))


def can_pack(transformer: Any) -> bool:
    """transformer (nn.Module): a Hugging Face model. RETURNS (bool): whether windows of several lengths can share a pass."""
    config = transformer.config
    return (
        config.model_type in PACKABLE
        and config._attn_implementation == "sdpa"
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and not config.is_decoder
        # Activations are computed again where the context of packed attention is gone.
        and not getattr(transformer, "is_gradient_checkpointing", False)
    )


def first_position(transformer: Any) -> int:
    """transformer (nn.Module): any. RETURNS (int): number of the first position: RoBERTa and its kin count from behind the padding's."""
    for name, part in transformer.named_modules():
        if name.endswith("position_embeddings") and isinstance(part, nn.Embedding) and part.padding_idx is not None:
            return part.padding_idx + 1
    return 0
