"""The limit for any transformer pipeline: the checkpoint's forward pass in plain torch, and nothing else on the clock."""

from collections.abc import Callable

import torch
from thinc.api import get_torch_default_device
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

WINDOW, BUDGET = 256, 2048  # pieces, special ones and padding included


def raw_run(checkpoint: str, texts: list[str], precision: str) -> Callable[[], None]:
    """Prepare everything, so that the call that is returned only runs the model.

    checkpoint (str): folder.
    texts (list[str]): cut into windows without overlap, so no window is spent twice.
    precision (str): `float32` or `bfloat16`, of weights and arithmetic.
    RETURNS (Callable): without arguments.
    """
    device = get_torch_default_device()
    model = AutoModel.from_pretrained(checkpoint, torch_dtype=getattr(torch, precision)).eval().to(device)
    batches = make_batches(checkpoint, texts, device)

    def run() -> None:
        with torch.inference_mode():
            for ids, mask in batches:
                model(input_ids=ids, attention_mask=mask)

    return run


def make_batches(checkpoint: str, texts: list[str], device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """Cut texts into windows and sort them by length.

    checkpoint (str): folder with the tokenizer.
    texts (list[str]): any; those without pieces are left out.
    device (torch.device): where the batches lie.
    RETURNS (list[tuple[Tensor, Tensor]]): ids and mask (True = kept), (windows, pieces) int64 and bool.
    """
    tokenizer = AutoTokenizer.from_pretrained(checkpoint, use_fast=True)
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    inner = WINDOW - tokenizer.num_special_tokens_to_add()
    encoded = [encoding.ids for encoding in backend.encode_batch(texts, add_special_tokens=False)]
    parts = [ids[start : start + inner] for ids in encoded for start in range(0, len(ids), inner)]
    windows = sorted(map(tokenizer.build_inputs_with_special_tokens, parts), key=len, reverse=True)
    batches = []
    while windows:
        size = BUDGET // len(windows[0])
        rows, windows = [torch.tensor(window) for window in windows[:size]], windows[size:]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
        lengths = torch.tensor([len(row) for row in rows])
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        batches.append((ids.to(device), mask.to(device)))
    return batches
