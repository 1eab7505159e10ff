"""A short summary of a data file: counts, labels, lengths and balance."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, DocBin
from wasabi import Printer

from ..errors import Errors
from .docs import fill_cats
from .encoding import read_head
from .run import read_inputs


def inspect_file(path: Path, nlp: Language, *, format: str = "auto", progress: bool = True) -> dict[str, Any]:
    """Summarize a source file or a `.spacy` file.

    path (Path): the file.
    nlp (Language): its tokenizer makes the tokens of a source file, its vocab those of a `.spacy` file.
    format (str): format of a source file, or `auto`.
    progress (bool): show a progress bar.
    RETURNS (dict[str, Any]): see `summarize`, and `file`, `format`, `problems` (count by "kind, action").
    RAISES (ValueError): E414 for a broken `.spacy` file, and what `read_inputs` raises.
    """
    if path.suffix == ".spacy":
        docs, name, problems = _read_docbin(path, nlp), "spacy", Counter[str]()
    else:
        batch = read_inputs([path], nlp, format=format, progress=progress)
        fill_cats(batch.entries)
        docs, name = [entry.doc for entry in batch.entries], batch.formats[str(path)]
        listed = batch.problems + [problem for entry in batch.entries for problem in entry.problems]
        problems = Counter(f"{problem.kind}, {problem.action}" for problem in listed)
    return {"file": str(path), "format": name, **summarize(docs), "problems": dict(problems.most_common())}


def summarize(docs: list[Doc]) -> dict[str, Any]:
    """Count what documents hold.

    docs (list[Doc]): annotated documents.
    RETURNS (dict[str, Any]): `docs`; `classes` and `entities` (count by label, most frequent first);
        `balance` (rarest class to most frequent, in [0, 1]; None without classes); `without_classes`;
        `without_entities` (annotated as having none); `entities_unset` (not annotated); `tokens` (`min`,
        `median`, `p95`, `max` per document).
    """
    classes = Counter(label for doc in docs for label, value in doc.cats.items() if value >= 0.5)
    entities = Counter(ent.label_ for doc in docs for ent in doc.ents)
    unset = sum(not doc.has_annotation("ENT_IOB") for doc in docs)
    return {
        "docs": len(docs),
        "classes": dict(classes.most_common()),
        "balance": min(classes.values()) / max(classes.values()) if classes else None,
        "entities": dict(entities.most_common()),
        "without_classes": sum(not doc.cats for doc in docs),
        "without_entities": sum(not doc.ents for doc in docs) - unset,
        "entities_unset": unset,
        "tokens": _quantiles([len(doc) for doc in docs]),
    }


def print_summary(summary: dict[str, Any], msg: Printer) -> None:
    """Print a summary as tables.

    summary (dict[str, Any]): what `inspect_file` returns.
    msg (Printer): where to.
    """
    msg.divider(f"{summary['file']} ({summary['format']})")
    tokens = ", ".join(f"{name} {value}" for name, value in summary["tokens"].items())
    balance = "-" if summary["balance"] is None else f"{summary['balance']:.2f} (rarest to most frequent class)"
    rows = [
        ("documents", summary["docs"]),
        ("tokens", tokens),
        ("without classes", summary["without_classes"]),
        ("without entities", summary["without_entities"]),
        ("entities not annotated", summary["entities_unset"]),
        ("class balance", balance),
    ]
    msg.table(rows)
    for title, unit in (("classes", "documents"), ("entities", "spans"), ("problems", "listed")):
        if summary[title]:
            _print_counts(summary[title], title, unit, msg)


def _print_counts(counts: dict[str, int], title: str, unit: str, msg: Printer) -> None:
    total = sum(counts.values())
    rows = [(label, count, f"{count / total:.1%}") for label, count in counts.items()]
    msg.table(rows, header=(title, unit, "share"), divider=True, aligns=("l", "r", "r"))


def _read_docbin(path: Path, nlp: Language) -> list[Doc]:
    read_head(path)  # checks that there is such a file
    try:
        return list(DocBin().from_disk(path).get_docs(nlp.vocab))
    except Exception as error:  # zlib, msgpack and numpy each raise their own kinds for broken bytes
        raise ValueError(Errors.E414.format(path=path, reason=error)) from error


def _quantiles(lengths: list[int]) -> dict[str, int]:
    # Nearest rank: a length that some document has.
    ordered = sorted(lengths) or [0]
    shares = {"min": 0.0, "median": 0.5, "p95": 0.95, "max": 1.0}
    return {name: ordered[max(math.ceil(share * len(ordered)) - 1, 0)] for name, share in shares.items()}
