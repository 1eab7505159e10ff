"""Load a pipeline and gold documents, and predict with the clock running."""

import hashlib
import time
from pathlib import Path
from typing import NamedTuple

import spacy
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example
from tqdm import tqdm

from ..errors import Errors


class Predictions(NamedTuple):
    """Predicted documents beside gold, and the seconds that predicting took (tokenizing included)."""

    examples: list[Example]
    seconds: float


def load_pipeline(pipeline: str) -> Language:
    """Load a trained pipeline.

    pipeline (str): A folder that `spacy train` wrote, or the name of an installed pipeline package.
    RETURNS (Language): The pipeline.
    RAISES (ValueError): E501 when there is neither; E502 when a folder does not load.
    """
    path = Path(pipeline)
    if not path.exists() and not spacy.util.is_package(pipeline):
        raise ValueError(Errors.E501.format(pipeline=pipeline))
    if path.exists() and not (path / "config.cfg").is_file():
        raise ValueError(Errors.E502.format(pipeline=pipeline))
    return spacy.load(pipeline)


def load_examples(nlp: Language, data: Path) -> list[Example]:
    """Read gold documents and pair each with an unannotated one of the pipeline's own tokens.

    Documents without text are kept, which spaCy's `Corpus` passes over.

    nlp (Language): The pipeline that will predict.
    data (Path): A `.spacy` file, or a folder of them.
    RETURNS (list[Example]): One example per document.
    RAISES (ValueError): E503 nothing is there, E504 it cannot be read, E505 it holds no document.
    """
    if not data.exists():
        raise ValueError(Errors.E503.format(path=data))
    try:
        files = sorted(data.rglob("*.spacy")) if data.is_dir() else [data]
        docs = [doc for file in files for doc in DocBin().from_disk(file).get_docs(nlp.vocab)]
    except Exception as err:  # msgpack, zlib and spaCy each have errors of their own
        raise ValueError(Errors.E504.format(path=data, error=err)) from err
    if not docs:
        raise ValueError(Errors.E505.format(path=data))
    return [Example(nlp.make_doc(doc.text), doc) for doc in docs]


def predict(nlp: Language, examples: list[Example], *, progress: bool = False) -> Predictions:
    """Run the pipeline over the texts of the gold documents.

    nlp (Language): A trained pipeline.
    examples (list[Example]): Gold documents; their predicted sides are left as they are.
    progress (bool): Whether to show a progress bar on stderr.
    RETURNS (Predictions): New examples with the predictions, and seconds.
    """
    started = time.perf_counter()
    texts = (eg.reference.text for eg in examples)
    docs = list(tqdm(nlp.pipe(texts), total=len(examples), unit="doc", desc="Predicting", disable=not progress))
    seconds = time.perf_counter() - started
    paired = [Example(doc, eg.reference) for doc, eg in zip(docs, examples, strict=True)]
    return Predictions(paired, seconds)


def sha256(data: Path) -> str:
    """Compute the checksum of a file, or of a folder's files in the order of their names.

    data (Path): A file or folder.
    RETURNS (str): 64 hexadecimal digits.
    """
    files = sorted(p for p in data.rglob("*") if p.is_file()) if data.is_dir() else [data]
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
