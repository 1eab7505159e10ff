"""Predict the texts of a .spacy file with any pipeline, write classes and entities as JSON; needs spaCy."""

import json
import sys
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc, DocBin


def main() -> None:
    """Run as `predict_texts.py PIPELINE DATA.spacy OUT.json`."""
    pipeline, data, output = sys.argv[1:]
    nlp = spacy.load(pipeline)
    texts = [doc.text for doc in DocBin().from_disk(data).get_docs(nlp.vocab)]
    Path(output).write_text(json.dumps([describe(doc) for doc in nlp.pipe(texts)]), "utf8")


def describe(doc: Doc) -> dict[str, Any]:
    """List what was predicted.

    doc (Doc): A predicted document.
    RETURNS (dict[str, Any]): `cats` (label -> probability) and `ents` (start, end in characters, label,
        confidence; the confidence is None for a pipeline without it).
    """
    ents = [
        [
            ent.start_char,
            ent.end_char,
            ent.label_,
            ent._.confidence if ent.has_extension("confidence") else None,
        ]
        for ent in doc.ents
    ]
    return {"cats": doc.cats, "ents": ents}


if __name__ == "__main__":
    main()
