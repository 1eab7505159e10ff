"""Which number format torch computes in."""

import torch

PRECISIONS = ("auto", "float32", "bfloat16")


def resolve_precision(precision: str, device: torch.device) -> torch.dtype:
    """Choose the format of the forward pass; weights, gradients and everything that leaves torch stay float32.

    precision (str): `auto`, `float32` or `bfloat16`. `auto` takes bfloat16 where the hardware multiplies it natively: CUDA
        devices that support it, CPUs with AMX or AVX512-BF16.
    device (torch.device): where the module runs.
    RETURNS (torch.dtype): torch.float32 or torch.bfloat16.
    """
    if precision == "auto":
        return torch.bfloat16 if has_native_bfloat16(device) else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def has_native_bfloat16(device: torch.device) -> bool:
    """device (torch.device): cpu or cuda. RETURNS (bool): whether its matrix units take bfloat16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
