"""Attention encoder, text classifier and entity recognizer on a transformer backbone, for spaCy."""

from .about import __version__

__all__ = ["__version__"]
