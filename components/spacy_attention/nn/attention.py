"""Scaled dot-product attention and its multi-head form."""

import math
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import Errors


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (Vaswani et al. 2017, equation 1), with its weights.

    query (Tensor): (..., queries, d_k).
    key (Tensor): (..., keys, d_k).
    value (Tensor): (..., keys, d_v).
    mask (Tensor): bool, broadcasts to (..., queries, keys); True = the query may look at the key. A query that may look
        at no key gets weights of zero.
    dropout (float): share of the weights set to zero, in [0, 1); applied whenever it is above 0.
    RETURNS (tuple): output (..., queries, d_v) and weights (..., queries, keys), rows summing to 1 before dropout.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    weights = F.dropout(weights, dropout, training=dropout > 0.0)
    return weights @ value, weights


class AttentionKernel(Protocol):
    """How queries meet keys; one function for each kind of attention."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: float, causal: bool) -> Tensor:
        """Give the output for heads of shape (batch, heads, tokens, head width), mask (batch, tokens) bool."""
        ...


def full_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: float, causal: bool) -> Tensor:
    """Every token looks at every token of its document, on PyTorch's fused kernels.

    query, key, value (Tensor): (batch, heads, tokens, head width).
    mask (Tensor): (batch, tokens) bool, True = a token, False = padding.
    dropout (float): dropout on the weights, in [0, 1).
    causal (bool): a token looks only at itself and at what stands before it.
    RETURNS (Tensor): (batch, heads, tokens, head width).
    """
    if bool(mask.all()):
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=causal)
    visible = mask[:, None, None, :]
    if causal:
        tokens = mask.shape[1]
        earlier = torch.ones(tokens, tokens, dtype=torch.bool, device=mask.device).tril()
        # A padded query keeps its first key visible through `earlier`, since documents start at column 0.
        visible = visible & earlier
    return F.scaled_dot_product_attention(query, key, value, attn_mask=visible, dropout_p=dropout)


KERNELS: dict[str, AttentionKernel] = {"full": full_attention}


class MultiHeadAttention(nn.Module):
    """Self-attention in several heads with a fused input projection (Vaswani et al. 2017, section 3.2.2).

    width (int): width of the token vectors, divisible by heads.
    heads (int): number of heads.
    kernel (str): a key of `KERNELS`.
    causal (bool): tokens look only backwards.
    dropout (float): dropout on the attention weights.
    RAISES (ValueError): E203 when the width is not divisible by heads.
    """

    def __init__(self, width: int, heads: int, *, kernel: str = "full", causal: bool = False, dropout: float = 0.0):
        super().__init__()
        if width % heads:
            raise ValueError(Errors.E203.format(width=width, heads=heads))
        self.heads = heads
        self.kernel = KERNELS[kernel]
        self.causal = causal
        self.dropout = nn.Dropout(dropout)
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, X: Tensor, mask: Tensor) -> Tensor:
        """X (Tensor): (batch, tokens, width); mask (Tensor): (batch, tokens) bool. RETURNS (Tensor): as X."""
        batch, tokens, width = X.shape
        heads = self.project_in(X).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        rate = self.dropout.p if self.training else 0.0
        Y = self.kernel(query, key, value, mask, rate, self.causal)
        return self.project_out(Y.transpose(1, 2).reshape(batch, tokens, width))
