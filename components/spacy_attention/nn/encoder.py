"""A transformer encoder over packed documents: blocks of attention and feed-forward, pre- or post-norm."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .attention import MultiHeadAttention
from .dropout import Dropout
from .packing import group_rows, pad_rows, unpad_rows
from .positions import POSITIONS

# Rows of a padded group of documents. Large enough to keep the cores busy, small enough that one long document does not decide how
# far all others are padded.
PADDED_ROWS = 4096
ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU}


class EncoderSizes(NamedTuple):
    """Everything that decides the shape and behaviour of an encoder; saved beside its weights.

    input_width (int): width of the vectors that come in.
    width (int): width inside and of what goes out.
    depth (int): number of blocks.
    heads (int): attention heads per block.
    ff_width (int): width between the two layers of the feed-forward.
    activation (str): `gelu` or `relu`.
    norm (str): `pre` (Xiong et al. 2020) or `post` (Vaswani et al. 2017).
    positions (str): a key of `POSITIONS`.
    attention (str): a key of `KERNELS`.
    mask (str): `bidirectional` or `causal`.
    identity (bool): start as the identity: output projections of both branches zero, no final norm.
    """

    input_width: int
    width: int
    depth: int
    heads: int
    ff_width: int
    activation: str
    norm: str
    positions: str
    attention: str
    mask: str
    identity: bool


class FeedForward(nn.Sequential):
    """Two linear layers with an activation between them, applied to each token alone."""

    def __init__(self, width: int, ff_width: int, activation: str):
        super().__init__()
        self.project_in = nn.Linear(width, ff_width)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(0.0)
        self.project_out = nn.Linear(ff_width, width)


class Block(nn.Module):
    """One layer of the encoder: self-attention, then feed-forward, each with a residual connection and a norm."""

    def __init__(self, sizes: EncoderSizes):
        super().__init__()
        self.pre = sizes.norm == "pre"
        self.attention = MultiHeadAttention(sizes.width, sizes.heads, kernel=sizes.attention, causal=sizes.mask == "causal")
        self.feed_forward = FeedForward(sizes.width, sizes.ff_width, sizes.activation)
        self.attention_norm = nn.LayerNorm(sizes.width)
        self.feed_forward_norm = nn.LayerNorm(sizes.width)
        self.dropout = Dropout(0.0)

    def start_as_identity(self) -> None:
        """Set the output projections of both branches to zero."""
        for linear in (self.attention.project_out, self.feed_forward.project_out):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, X: Tensor, mask: Tensor) -> Tensor:
        """X (Tensor): (batch, tokens, width); mask (Tensor): (batch, tokens) bool. RETURNS (Tensor): as X."""
        if self.pre:
            X = X + self.dropout(self.attention(self.attention_norm(X), mask))
            return X + self.dropout(self.feed_forward(self.feed_forward_norm(X)))
        X = self.attention_norm(X + self.dropout(self.attention(X, mask)))
        return self.feed_forward_norm(X + self.dropout(self.feed_forward(X)))


class Encoder(nn.Module):
    """Blocks over documents that arrive as packed rows; padding exists only between its first and last line."""

    def __init__(self, sizes: EncoderSizes):
        super().__init__()
        same_width = sizes.input_width == sizes.width
        self.project = nn.Identity() if same_width else nn.Linear(sizes.input_width, sizes.width)
        self.positions = POSITIONS[sizes.positions](sizes.width)
        self.dropout = Dropout(0.0)
        blocks = [Block(sizes) for _ in range(sizes.depth)]
        self.blocks = nn.ModuleList(blocks)
        final_norm = sizes.norm == "pre" and not sizes.identity
        self.norm = nn.LayerNorm(sizes.width) if final_norm else nn.Identity()
        self.starts_as_identity = sizes.identity
        if sizes.identity:
            for block in blocks:
                block.start_as_identity()

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """Encode the documents of a batch.

        rows (Tensor): (tokens, input width), the documents one after the other.
        lengths (Tensor): (documents,) int64; they sum to the number of rows, and may be 0.
        RETURNS (Tensor): (tokens, width).
        """
        groups, dtype = group_rows(lengths, PADDED_ROWS), next(self.blocks.parameters()).dtype
        if not groups:
            return self.project(rows.to(dtype))
        encoded = [self.encode_group(rows[members].to(dtype), group_lengths) for members, group_lengths in groups]
        order = torch.argsort(torch.cat([members for members, _ in groups]))
        return torch.cat(encoded)[order]

    def encode_group(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """rows (Tensor): (tokens, input width); lengths (Tensor): (documents,), each above 0. RETURNS (Tensor): (tokens, width)."""
        X, mask = pad_rows(rows, lengths)
        X = self.positions(self.project(X))
        # With the identity start a dropped input would not be restored anywhere, so only fresh encoders drop it.
        if not self.starts_as_identity:
            X = self.dropout(X)
        for block in self.blocks:
            X = block(X, mask)
        return unpad_rows(self.norm(X), mask)


def build_encoder(**sizes) -> Encoder:
    """sizes: the fields of `EncoderSizes`. RETURNS (Encoder): freshly initialised from torch's random state."""
    return Encoder(EncoderSizes(**sizes))


def below_top(name: str, depth: int) -> int:
    """Layers between a weight of the encoder and its top.

    name (str): name of the parameter in `Encoder`.
    depth (int): number of blocks.
    RETURNS (int): 0 for the last block and the final norm, `depth` for what stands before the first block.
    """
    parts = name.split(".")
    if parts[0] == "blocks":
        return depth - 1 - int(parts[1])
    return 0 if parts[0] == "norm" else depth
