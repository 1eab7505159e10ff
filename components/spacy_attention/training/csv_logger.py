"""`spacy-attention.csv_logger.v1`: a row of a table for every evaluation of a training."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from spacy.language import Language

from .folders import append_text, replace_text

LogStep = Callable[[dict[str, Any] | None], None]
Logger = Callable[[Language, IO, IO], tuple[LogStep, Callable[[], None]]]
FIELDS = ("step", "epoch", "seconds", "words", "score")


def create_csv_logger(output_file: str) -> Logger:
    """Make a logger for `[training.logger]`, alone or as a link of `spacy.ChainLogger.v1`.

    Columns: step, epoch, seconds, words, score (as it chooses the best model), the loss of each trained component since the row before,
    and the scores that `[training.score_weights]` names, in [0, 1]; empty where a score is missing.

    output_file (str): the table. A training that begins writes it anew; one that is resumed keeps the rows of earlier steps.
    RETURNS (Callable): called with the pipeline and two streams, which are not used.
    """
    path = Path(output_file)

    def setup(nlp: Language, stdout: IO, stderr: IO) -> tuple[LogStep, Callable[[], None]]:
        pipes = [name for name, pipe in nlp.pipeline if getattr(pipe, "is_trainable", False)]
        names = [name for name, weight in nlp.config["training"]["score_weights"].items() if weight is not None]
        header = [*FIELDS, *(f"loss_{name}" for name in pipes), *names]
        begun = False

        def log_step(info: dict[str, Any] | None) -> None:
            nonlocal begun
            if info is None:
                return
            if not begun:
                _begin(path, header, before=info["step"])
                begun = True
            row = {field: info[field] for field in FIELDS}
            row |= {f"loss_{name}": float(info["losses"].get(name, 0.0)) for name in pipes}
            row |= {name: info["other_scores"].get(name) for name in names}
            append_text(path, _to_csv([[row[name] for name in header]]))

        return log_step, lambda: None

    return setup


def _begin(path: Path, header: list[str], *, before: int) -> None:
    """Write the header, and again the rows of a table with the same one up to a step."""
    rows = _read(path) if before and path.exists() else []
    kept = [row for row in rows[1:] if len(row) == len(header) and int(row[0]) < before] if rows[:1] == [header] else []
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, _to_csv([header, *kept]))


def _read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf8", newline="") as file_:
        return list(csv.reader(file_))


def _to_csv(rows: list[list[Any]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
