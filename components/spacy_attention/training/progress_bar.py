"""How far a training has come and how fast it goes, on one line of the terminal."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from tqdm import tqdm

FORMAT = "{percentage:3.0f}%|{bar}| step {n_fmt}/{total_fmt} [{elapsed}, {remaining} left{postfix}]"
# Where the number of steps is not known before.
FORMAT_WITHOUT_END = "step {n_fmt} [{elapsed}{postfix}]"
# Share of the last step in the speeds that are shown.
SMOOTHING = 0.1


class ProgressBar:
    """Shown on a terminal only.

    max_steps (int): of the config; 0 for no end.
    begin (int): number of the first step.
    file (IO): where it is shown.
    """

    def __init__(self, max_steps: int, *, begin: int, file: IO):
        total, form = (max_steps + 1, FORMAT) if max_steps else (None, FORMAT_WITHOUT_END)
        self.bar = tqdm(total=total, initial=begin, bar_format=form, file=file, disable=None, leave=False, unit=" steps")
        self._counts: tuple[float, ...] | None = None
        self._speeds: tuple[float, float] | None = None

    def add_step(self, info: Mapping[str, Any]) -> None:
        """info (Mapping): what loggers get: `docs`, `pieces` and `update_seconds` so far."""
        docs, pieces, seconds = counts = (info["docs"], info["pieces"], info["update_seconds"])
        if self._counts is not None and seconds > self._counts[2]:
            taken = seconds - self._counts[2]
            now = ((docs - self._counts[0]) / taken, (pieces - self._counts[1]) / taken)
            before = self._speeds or now
            self._speeds = (_smooth(before[0], now[0]), _smooth(before[1], now[1]))
            self.bar.set_postfix_str(f"{self._speeds[0]:,.0f} docs/s, {self._speeds[1]:,.0f} pieces/s", refresh=False)
        self._counts = counts
        self.bar.update(1)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Within this context other lines can be written; the bar goes on below them."""
        with tqdm.external_write_mode():
            yield

    def close(self) -> None:
        """Take it away."""
        self.bar.close()


def without_bars(logger: dict[str, Any]) -> None:
    """Keep the loggers of a config, changed in place, from showing progress bars of their own. logger (dict): the block, may hold others."""
    logger.pop("progress_bar", None)
    for value in logger.values():
        if isinstance(value, dict):
            without_bars(value)


def _smooth(before: float, now: float) -> float:
    return before + SMOOTHING * (now - before)
