"""Hidden states in bfloat16 from the embeddings on, while a Hugging Face model learns under autocast on a CPU.

Autocast leaves embeddings in float32. Then every residual connection and every norm gives float32 again, which each linear layer casts
anew, and its gradient back: 85 casts of all hidden states in an update of MiniLM. Norms still compute in float32 inside, and
prediction has its hidden states in bfloat16 as well. On CUDA autocast itself wants norms in float32, so there nothing changes.
"""

from typing import Any

import torch
from torch import Tensor

from .float32_attention import learns_in_bfloat16

# Models whose part `embeddings` gives the first hidden states, and in which these go through linear layers, norms and attention alone.
NARROW = frozenset({"bert", "camembert", "roberta", "xlm-roberta"})


def narrow_hidden_states(transformer: Any) -> None:
    """transformer (nn.Module): a Hugging Face model; changed in place where its family is known to take it."""
    if transformer.config.model_type in NARROW:
        transformer.embeddings.register_forward_hook(_narrow)


def _narrow(module: Any, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    return output.to(torch.bfloat16) if learns_in_bfloat16(output) else output
