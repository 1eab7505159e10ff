"""Moving averages of weights, in the form that `use_params` of pipelines, Thinc's models and our shims takes."""

from collections import defaultdict
from collections.abc import Mapping

import torch
from thinc.api import torch2xp, xp2torch
from thinc.types import FloatsXd
from torch import Tensor

WeightKey = tuple[int, str]
# Of Thinc: an average forgets what is more than some 10,000 steps ago.
MAX_DECAY = 0.9999


def update_averages(
    averages: dict[WeightKey, FloatsXd], steps: dict[WeightKey, int], weights: Mapping[WeightKey, Tensor]
) -> None:
    """Move the averages towards the weights after a step, with the decay of Thinc's optimizers: (1 + t) / (10 + t) at step t.

    The average of a weight begins with its value after its first step. Thinc begins with zeros: its averages are too small at first, by
    18 % after one step, and a trained checkpoint is not itself any more when it is evaluated then.

    averages (dict): float32 arrays by the id of a model or shim and the name of a weight; changed in place.
    steps (dict): steps of each weight so far; counted here.
    weights (Mapping): those that the step has changed.
    """
    by_step: dict[int, list[WeightKey]] = defaultdict(list)
    for key, weight in weights.items():
        steps[key] += 1
        if key in averages:
            by_step[steps[key]].append(key)
        else:
            averages[key] = torch2xp(weight.detach().clone())
    for t, keys in by_step.items():
        decay = min((1 + t) / (10 + t), MAX_DECAY)
        means = [xp2torch(averages[key], device=weights[key].device) for key in keys]
        torch._foreach_lerp_(means, [weights[key].detach() for key in keys], 1 - decay)
