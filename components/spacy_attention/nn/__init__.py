"""Pure PyTorch: attention, encoder, conditional random field, pooling. Knows neither spaCy nor Thinc."""

from .attention import scaled_dot_product_attention

__all__ = ["scaled_dot_product_attention"]
