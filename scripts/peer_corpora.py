"""The three corpora of benchmark_peers.py: short, mixed and long texts, the same ones in every run."""

import math
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import spacy

from spacy_attention.convert.run import read_inputs

HELPDESK = Path("assets/helpdesk/test.yml")
SEED = 0
# Parts of the mixed corpus, chosen to give about 34,000 words with the lengths that a real inbox has: many short, some long.
MIXED_SNIPS, MIXED_REVIEWS = 250, 99
PIECE_WORDS = (20, 730)


def read_helpdesk() -> list[str]:
    """RETURNS (list[str]): the 200 test messages of the project."""
    return _read([HELPDESK])


def read_mixed() -> list[str]:
    """Utterances of SNIPS, helpdesk messages and pieces of movie reviews, shuffled.

    A piece is the beginning of a review; its length in words is drawn so that its logarithm is uniform over `PIECE_WORDS`.

    RETURNS (list[str]): 549 texts.
    """
    rng = random.Random(SEED)
    snips = rng.sample(_read(snips_files("validate_*.json")), MIXED_SNIPS)
    reviews = rng.sample(_review_texts(), MIXED_REVIEWS)
    low, high = (math.log(words) for words in PIECE_WORDS)
    pieces = [_first_words(text, round(math.exp(rng.uniform(low, high)))) for text in reviews]
    texts = snips + read_helpdesk() + pieces
    rng.shuffle(texts)
    return texts


def read_movie_reviews() -> list[str]:
    """RETURNS (list[str]): the 2,000 reviews in an order that is shuffled, so that any first part has both classes."""
    texts = _review_texts()
    random.Random(SEED).shuffle(texts)
    return texts


CORPORA: dict[str, Callable[[], list[str]]] = {
    "helpdesk": read_helpdesk,
    "mixed": read_mixed,
    "movie_reviews": read_movie_reviews,
}
# Texts taken when no limit is given; 0 for all. The long ones take the stock pipeline a minute per hundred.
DEFAULT_LIMITS = {"helpdesk": 0, "mixed": 0, "movie_reviews": 60}


def read_corpus(name: str, *, limit: int = 0) -> list[str]:
    """Read a corpus.

    name (str): a key of `CORPORA`.
    limit (int): the first so many texts; 0 for what `DEFAULT_LIMITS` says.
    RETURNS (list[str]): its texts.
    """
    texts = CORPORA[name]()
    return texts[: limit or DEFAULT_LIMITS[name] or None]


def snips_files(pattern: str) -> list[Path]:
    """Find files of SNIPS.

    pattern (str): of their names.
    RETURNS (list[Path]): one per intent, sorted.
    """
    files = sorted((data_folder() / "snips").rglob(pattern))
    if not files:
        raise SystemExit(f"Expected SNIPS files {pattern} below the folder snips of SPACY_ATTENTION_DATA, found none.")
    return files


def data_folder() -> Path:
    """RETURNS (Path): the folder named in SPACY_ATTENTION_DATA."""
    folder = os.environ.get("SPACY_ATTENTION_DATA")
    if not folder or not Path(folder).is_dir():
        raise SystemExit(
            "Set SPACY_ATTENTION_DATA to the folder with snips/ and movie_reviews/; --corpus helpdesk needs neither."
        )
    return Path(folder)


def _read(files: list[Path]) -> list[str]:
    return [entry.doc.text for entry in read_inputs(files, spacy.blank("en"), progress=False).entries]


def _review_texts() -> list[str]:
    with zipfile.ZipFile(data_folder() / "movie_reviews" / "movie_reviews.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".txt") and Path(name).parent.name in ("neg", "pos"))
        return [archive.read(name).decode("utf8") for name in names]


def _first_words(text: str, n: int) -> str:
    return " ".join(text.split(" ")[:n])
