"""How well probabilities agree with what happens, and the temperature that makes them agree better."""

import math
from collections.abc import Callable, Iterable

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[numpy.float64]

BINS = 10
# Significant ones; JSON, in which settings are saved, would round for itself.
DIGITS = 6
# The temperature is looked for between this and its inverse: beyond it a few texts of a small dev corpus would decide.
COLDEST = 0.1


def expected_calibration_error(probabilities: Floats, right: Floats, *, bins: int = BINS) -> float | None:
    """Mean distance between what was said and what happened, over bins with the same number of predictions.

    Bins of equal width would leave most of them empty, since most predictions are sure (Nguyen and O'Connor 2015, section 3).

    probabilities (Floats): (predictions,) in [0, 1]. right (Floats): (predictions,) 1 where it happened, else 0.
    bins (int): how many, where there are as many predictions.
    RETURNS (float | None): in [0, 1], None without predictions or with some that are no numbers.
    """
    n = len(probabilities)
    if not _can_be_judged(probabilities):
        return None
    order = numpy.argsort(probabilities, kind="stable")
    parts = numpy.array_split(order, min(bins, n))
    return float(sum(abs(probabilities[part].mean() - right[part].mean()) * len(part) for part in parts) / n)


def brier_score(probabilities: Floats, right: Floats) -> float | None:
    """Mean square of the distance between what was said and what happened (Brier 1950).

    probabilities (Floats), right (Floats): (predictions,).
    RETURNS (float | None): in [0, 1], None without predictions.
    """
    return float(((probabilities - right) ** 2).mean()) if _can_be_judged(probabilities) else None


def _can_be_judged(probabilities: Floats) -> bool:
    """Whether there are any, and all are numbers, which those of a training that went wrong are not."""
    return bool(len(probabilities)) and bool(numpy.isfinite(probabilities).all())


def fit_temperature(losses: Callable[[Tensor], Iterable[Tensor]]) -> float:
    """Find the temperature with the least loss (Guo et al. 2017, section 4.2).

    losses (Callable): from a temperature, a scalar by which scores are to be divided, to differentiable losses that add up to that over
        the dev corpus; one by one, so that only one needs memory for its gradient.
    RETURNS (float): in [`COLDEST`, 1 / `COLDEST`]; 1 where the loss does not depend on it, or is no number.
    """
    log_temperature = torch.zeros((), dtype=torch.float64, requires_grad=True)
    limit = -float(numpy.log(COLDEST))
    optimizer = torch.optim.LBFGS([log_temperature], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        # Outside of the limits the loss goes on as a straight line that leads back.
        inside = log_temperature.clamp(-limit, limit)
        beyond = 1e3 * (log_temperature - inside).abs()
        temperature = inside.detach().exp().requires_grad_()
        total = beyond.item()
        for loss in losses(temperature):
            loss.backward()
            total += loss.item()
        slope = 0.0 if temperature.grad is None else temperature.grad
        (beyond + slope * inside.exp()).backward()
        return total

    with torch.no_grad():
        if not math.isfinite(sum(loss.item() for loss in losses(log_temperature.exp()))):
            return 1.0
    optimizer.step(closure)
    return _round(float(log_temperature.detach().clamp(-limit, limit).exp()))


def best_threshold(probabilities: Floats, right: NDArray[numpy.bool_]) -> float | None:
    """The threshold with the highest F1, in the middle between two probabilities; of several the one closest to one half.

    probabilities (Floats): (predictions,) in [0, 1]. right (NDArray): (predictions,) bool.
    RETURNS (float | None): in [0, 1); None where nothing is right.
    """
    if not right.any() or not _can_be_judged(probabilities):
        return None
    order = numpy.argsort(-probabilities, kind="stable")
    found, hits = probabilities[order], right[order].cumsum()
    n = numpy.arange(1, len(found) + 1)
    f_scores = 2 * hits / (n + hits[-1])
    below = numpy.append(found[1:], 0.0)
    # Equal probabilities cannot be told apart.
    f_scores[found == below] = -1.0
    middles = (found + below) / 2
    best = numpy.flatnonzero(f_scores >= f_scores.max() - 1e-12)
    chosen = best[numpy.abs(middles[best] - 0.5).argmin()]
    rounded = _round(float(middles[chosen]))
    # Between two that are very close, rounding could move it beyond one of them.
    return rounded if below[chosen] < rounded <= found[chosen] else float(middles[chosen])


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
