"""Position encodings that are added to the token vectors before the first block."""

import math

import torch
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """Sines and cosines of geometric wavelengths (Vaswani et al. 2017, section 3.5), added to the input.

    width (int): width of the token vectors; an odd one leaves out the last cosine.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, X: Tensor) -> Tensor:
        """X (Tensor): (batch, tokens, width). RETURNS (Tensor): X plus the encoding of positions 0, 1, 2, ..."""
        return X + sinusoidal_table(X.shape[1], self.width, X.device).to(X.dtype)


def sinusoidal_table(positions: int, width: int, device: torch.device | None = None) -> Tensor:
    """The encoding of the first positions.

    positions (int): how many.
    width (int): width of each.
    RETURNS (Tensor): (positions, width) float32; even columns sines, odd columns cosines.
    """
    position = torch.arange(positions, device=device, dtype=torch.float32)[:, None]
    even = torch.arange(0, width, 2, device=device, dtype=torch.float32)
    angle = position * torch.exp(even * (-math.log(10000.0) / width))
    table = torch.empty(positions, width, device=device)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle[:, : width // 2].cos()
    return table


class NoPositions(nn.Module):
    """Leaves the input as it is: order is known from the backbone, or does not matter."""

    def __init__(self, width: int):
        super().__init__()

    def forward(self, X: Tensor) -> Tensor:
        """X (Tensor): any. RETURNS (Tensor): X."""
        return X


POSITIONS: dict[str, type[nn.Module]] = {"sinusoidal": SinusoidalPositions, "none": NoPositions}
