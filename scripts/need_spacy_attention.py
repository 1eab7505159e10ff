"""Imported by every packaged pipeline, so that a missing plugin is named before spaCy misses a factory."""

try:
    import spacy_attention  # noqa: F401
except ModuleNotFoundError as err:
    if err.name != "spacy_attention":
        raise
    raise ModuleNotFoundError(
        "This pipeline needs the package 'spacy-attention', which is not installed here. Install it: "
        "python -m pip install spacy-attention (with --find-links FOLDER for a folder that holds its wheel).",
        name="spacy_attention",
    ) from err
