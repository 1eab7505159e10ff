"""Time several things side by side: in turns, so that a busy or slowing machine meets all of them alike."""

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy
from thinc.api import CupyOps, get_current_ops
from tqdm import tqdm

# "value": median over rounds; "low", "high": its 95 % bootstrap interval.
Interval = dict[str, float]

SAMPLES = 10_000


def time_in_turns(runs: Sequence[Callable[[], Any]], *, rounds: int, progress: bool = False) -> list[list[float]]:
    """Run everything once per round, after one round that does not count.

    Every other round goes backwards: a drift of the machine's speed cancels out over two rounds.

    runs (Sequence[Callable]): what is timed.
    rounds (int): counted rounds, at least 1.
    progress (bool): whether to show a progress bar on stderr.
    RETURNS (list[list[float]]): seconds by run and round.
    """
    seconds: list[list[float]] = [[] for _ in runs]
    with tqdm(total=len(runs) * (rounds + 1), unit="run", desc="Warming up", disable=not progress) as bar:
        for turn in range(rounds + 1):
            numbers = range(len(runs)) if turn % 2 else reversed(range(len(runs)))
            for i in numbers:
                elapsed = time_once(runs[i])
                if turn:
                    seconds[i].append(elapsed)
                bar.update()
            bar.set_description("Timing")
    return seconds


def time_once(run: Callable[[], Any]) -> float:
    """Time one call, to the end of what it started on a GPU.

    run (Callable): what is timed; garbage of earlier calls is collected before the clock starts.
    RETURNS (float): seconds.
    """
    gc.collect()
    _wait_for_gpu()
    started = time.perf_counter()
    run()
    _wait_for_gpu()
    return time.perf_counter() - started


def _wait_for_gpu() -> None:
    ops = get_current_ops()
    if isinstance(ops, CupyOps):
        ops.xp.cuda.Device().synchronize()


def rate(amount: float, seconds: Sequence[float]) -> Interval:
    """Compute an amount per second.

    amount (float): what one run works through, for example words.
    seconds (Sequence[float]): of each round.
    RETURNS (Interval): amount per second.
    """
    return median_interval([amount / elapsed for elapsed in seconds])


def speed_up(reference: Sequence[float], seconds: Sequence[float]) -> Interval:
    """Compute how many times faster one run is than another, round by round.

    Both ran in the same round, next to each other, so that what slowed the machine down then hardly shows.

    reference (Sequence[float]): seconds of the other run, by round.
    seconds (Sequence[float]): seconds of this run, in the same rounds.
    RETURNS (Interval): above 1 where this run is faster.
    """
    return median_interval([other / own for other, own in zip(reference, seconds, strict=True)])


def median_interval(values: Sequence[float], *, seed: int = 0) -> Interval:
    """Compute the median and its 95 % percentile bootstrap interval (Efron 1979).

    values (Sequence[float]): one per round; of a single one the interval is the value itself.
    seed (int): of the resampling.
    RETURNS (Interval): `value`, `low`, `high`.
    """
    sample = numpy.asarray(values, dtype="float64")
    drawn = numpy.random.default_rng(seed).choice(sample, size=(SAMPLES, len(sample)))
    low, high = numpy.quantile(numpy.median(drawn, axis=1), [0.025, 0.975])
    return {"value": float(numpy.median(sample)), "low": float(low), "high": float(high)}
