"""Whole pipelines side by side: speed, memory, load time, size."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from spacy.language import Language
from tqdm import tqdm
from wasabi import Printer

from .footprint import measure_footprint
from .timing import Interval, rate, speed_up, time_in_turns

COLUMNS = ("Pipeline", "Words/s", "95 %", "Ratio", "95 %", "Peak RSS, MB", "Load, s", "Disk, MB")


def pipe_run(nlp: Language, texts: list[str], *, batch_size: int | None = None) -> Callable[[], None]:
    """Make the call that is timed: all of `nlp.pipe`, tokenizing included, no document kept.

    nlp (Language): any pipeline.
    texts (list[str]): what it runs on.
    batch_size (int | None): of `nlp.pipe`; None for the pipeline's own.
    RETURNS (Callable): without arguments.
    """
    return lambda: deque(nlp.pipe(texts, batch_size=batch_size), maxlen=0).clear()


def count_words(nlp: Language, texts: list[str]) -> int:
    """Count spaCy's tokens.

    nlp (Language): its tokenizer makes them.
    texts (list[str]): any.
    RETURNS (int): tokens, punctuation included.
    """
    return sum(len(nlp.make_doc(text)) for text in texts)


def compare_speed(
    names: Sequence[str],
    pipelines: Sequence[Language],
    texts: list[str],
    *,
    rounds: int,
    batch_size: int | None = None,
    progress: bool = False,
) -> list[dict[str, Any]]:
    """Time pipelines in turns.

    names (Sequence[str]): folder or package of each.
    pipelines (Sequence[Language]): the first is what the others are compared with, and its tokens are the words of all, so that
        ratios of words/s are ratios of time.
    texts (list[str]): what they run on.
    rounds (int): counted rounds.
    batch_size (int | None): see `pipe_run`.
    progress (bool): whether to show a progress bar on stderr.
    RETURNS (list[dict[str, Any]]): per pipeline `name`, `components`, and what `speed_rows` gives.
    """
    words = count_words(pipelines[0], texts)
    runs = [pipe_run(nlp, texts, batch_size=batch_size) for nlp in pipelines]
    speeds = speed_rows(time_in_turns(runs, rounds=rounds, progress=progress), words)
    return [
        {"name": name, "components": list(nlp.pipe_names), **row} for name, nlp, row in zip(names, pipelines, speeds, strict=True)
    ]


def speed_rows(seconds: list[list[float]], words: int) -> list[dict[str, Any]]:
    """Turn seconds into rates and ratios.

    seconds (list[list[float]]): by run and round; the first run is the reference.
    words (int): that each run goes through.
    RETURNS (list[dict[str, Any]]): per run `words_per_second`, `ratio`, `seconds`.
    """
    return [{"words_per_second": rate(words, own), "ratio": speed_up(seconds[0], own), "seconds": own} for own in seconds]


def add_footprints(
    rows: list[dict[str, Any]], texts: list[str], *, batch_size: int | None = None, gpu_id: int = -1, progress: bool = False
) -> None:
    """Measure each pipeline in a process of its own, one after the other.

    rows (list[dict[str, Any]]): what `compare_speed` returned, `name` being folder or package; changed in place.
    texts (list[str]), batch_size (int | None), gpu_id (int): see `measure_footprint`.
    progress (bool): whether to show a progress bar on stderr.
    RAISES (ValueError): E509 when such a process fails.
    """
    for row in tqdm(rows, unit="pipeline", desc="Memory", disable=not progress):
        row.update(measure_footprint(row["name"], texts, batch_size=batch_size, gpu_id=gpu_id))


def print_rows(rows: list[dict[str, Any]], msg: Printer) -> None:
    """Print the table.

    rows (list[dict[str, Any]]): with or without footprints.
    msg (Printer): where to print.
    """
    cells = [
        (
            row["name"],
            f"{row['words_per_second']['value']:,.0f}",
            _range(row["words_per_second"], ",.0f"),
            f"{row['ratio']['value']:.2f}",
            _range(row["ratio"], ".2f"),
            *(
                _figure(row.get(key), form)
                for key, form in (("peak_rss_mb", ",.0f"), ("load_seconds", ".1f"), ("size_mb", ",.1f"))
            ),
        )
        for row in rows
    ]
    msg.table(cells, header=COLUMNS, divider=True, aligns=("l", *["r"] * (len(COLUMNS) - 1)), max_col=80)


def _range(interval: Interval, form: str) -> str:
    return f"{interval['low']:{form}} to {interval['high']:{form}}"


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"
