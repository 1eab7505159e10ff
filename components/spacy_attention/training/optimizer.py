"""`spacy-attention.AdamW.v1`: torch's fused AdamW over the weights of the whole pipeline, one clip, one step."""

import math
from typing import Any

import torch
from thinc.api import Optimizer, xp2torch
from thinc.optimizers import FloatOrSeq
from thinc.types import FloatsXd

from ..errors import Errors
from ..types import ParameterKey
from .averages import update_averages
from .gradients import Buffers, total_norm

RATES = {"backbone": "learn_rate", "encoder": "encoder_rate", "head": "head_rate"}


def create_adamw(
    learn_rate: FloatOrSeq,
    *,
    encoder_rate: FloatOrSeq | None = None,
    head_rate: FloatOrSeq | None = None,
    layer_decay: float = 1.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    grad_clip: float = 1.0,
    use_averages: bool = False,
) -> "AdamW":
    """Make the optimizer (Loshchilov and Hutter 2019) with decoupled weight decay on matrices only.

    learn_rate (float or schedule): of the backbone, and of everything that has no rate of its own.
    encoder_rate, head_rate (float, schedule or None): of encoders, and of heads and all that is trained from scratch.
    layer_decay (float): factor on the rate for each layer further from the top of the backbone, in (0, 1].
    beta1, beta2, eps (float): as in Adam.
    weight_decay (float): none on biases, norms and other vectors.
    grad_clip (float): largest norm of the gradient of the whole pipeline; 0 for no limit.
    use_averages (bool): keep a moving average of every weight in `averages`, which spaCy evaluates and saves in place of the weights.
    RETURNS (AdamW): the optimizer.
    RAISES (ValueError): E605 for a `layer_decay` out of its range.
    """
    return AdamW(
        learn_rate,
        encoder_rate=encoder_rate,
        head_rate=head_rate,
        layer_decay=layer_decay,
        betas=(beta1, beta2),
        eps=eps,
        weight_decay=weight_decay,
        grad_clip=grad_clip,
        use_averages=use_averages,
    )


class AdamW(Optimizer):
    """Collects gradients during `finish_update` and applies them in `step_schedules`, which spaCy's loop calls once per batch.

    A loop that never calls `step_schedules` trains as well: what is collected is applied when the same weight comes again.
    """

    def __init__(
        self,
        learn_rate: FloatOrSeq,
        *,
        encoder_rate: FloatOrSeq | None,
        head_rate: FloatOrSeq | None,
        layer_decay: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        grad_clip: float,
        use_averages: bool,
    ):
        if not 0 < layer_decay <= 1:
            raise ValueError(Errors.E605.format(found=layer_decay))
        super().__init__(learn_rate, L2=weight_decay, grad_clip=float(grad_clip), eps=eps, use_averages=use_averages)
        self.layer_decay = layer_decay
        self.own_rates = set()
        for name, rate in (("encoder_rate", encoder_rate), ("head_rate", head_rate)):
            if rate is not None:
                self._set_attr_or_schedule(name, rate)
                self.own_rates.add(name)
        self._torch = torch.optim.AdamW([torch.zeros(0)], lr=0.0, betas=betas, eps=eps, weight_decay=weight_decay, fused=True)
        self._torch.param_groups.clear()
        self._arrays: dict[Any, torch.nn.Parameter] = {}
        self._known: dict[Any, torch.nn.Parameter] = {}
        self._collected: dict[Any, tuple[torch.nn.Parameter, torch.Tensor]] = {}
        self._buffers = Buffers()
        self._remembered: dict[Any, dict[str, torch.Tensor]] = {}

    def collect_parameter(self, key: ParameterKey, parameter: torch.nn.Parameter) -> None:
        """Take a gradient for the next step. key (ParameterKey): of the weight. parameter (Parameter): its `.grad` becomes None."""
        gradient, parameter.grad = parameter.grad, None
        self._collect(key, parameter, gradient, component=key.component, below_top=key.below_top)

    def __call__(
        self, key: tuple[int, str], weights: FloatsXd, gradient: FloatsXd, *, lr_scale: float = 1.0
    ) -> tuple[FloatsXd, FloatsXd]:
        """Take the gradient of a Thinc array, which is changed in place at the next step.

        key (tuple): of the array. weights, gradient (FloatsXd): of one shape; the gradient is set to zero.
        RETURNS (tuple): the same arrays.
        """
        parameter = self._arrays.get(key)
        if parameter is None or parameter.data_ptr() != xp2torch(weights).data_ptr():
            parameter = self._arrays[key] = torch.nn.Parameter(xp2torch(weights))
        self._collect(key, parameter, xp2torch(gradient.copy()), component="head", below_top=0)
        gradient *= 0
        return weights, gradient

    @property
    def gradients(self) -> dict[Any, torch.Tensor]:
        """By key, what was collected for the next step; others of the same shapes can take its place, in their order."""
        return {key: gradient for key, (_, gradient) in self._collected.items()}

    @gradients.setter
    def gradients(self, gradients: dict[Any, torch.Tensor]) -> None:
        self._collected = {key: (self._collected[key][0], gradient) for key, gradient in gradients.items()}

    def step(self) -> None:
        """Clip what was collected by the norm of all of it, and apply it. RAISES (ValueError): E632 when that is not finite."""
        self._forget_frozen()
        collected, self._collected = self._collected, {}
        pairs = [(parameter, gradient) for parameter, gradient in collected.values() if parameter.requires_grad]
        if not pairs:
            return
        parameters = [parameter for parameter, _ in pairs]
        gradients = [gradient.coalesce() if gradient.is_sparse else gradient for _, gradient in pairs]
        # The kernel reads every gradient anyway; it divides by what a scaler of mixed precision would tell it here.
        norm = total_norm(gradients)
        if not math.isfinite(norm.item()):
            raise ValueError(Errors.E632.format(norm=norm.item()))
        divisor = ((norm + 1e-6) / self.grad_clip).clamp(min=1.0) if self.grad_clip else None
        self._torch.grad_scale = divisor  # type: ignore[attr-defined]
        for group in self._torch.param_groups:
            group["lr"] = getattr(self, group["rate"]) * group["scale"]
        # What the parameters themselves hold now is of a batch whose collection has just begun: of the next step.
        with self._buffers.attach(parameters, gradients):
            self._torch.step()
        # The fused kernel does not count as a change; who keeps copies of the weights must see that there was one.
        torch.autograd.graph.increment_version(parameters)
        if self.averages is not None:
            # Both kinds of keys begin with an id and a name, which is what `use_params` looks for.
            weights = {key[:2]: parameter for key, (parameter, _) in collected.items()}
            update_averages(self.averages, self.nr_update, weights)

    def moments(self) -> dict[Any, dict[str, torch.Tensor]]:
        """RETURNS (dict): per key of a weight its moments and its number of steps, by the names that torch gives them."""
        return self._remembered | {key: self._torch.state[parameter] for key, parameter in self._known.items()}

    def restore(self, moments: dict[Any, dict[str, torch.Tensor]]) -> None:
        """moments (dict): as from `moments`; each is taken up when its weight comes for the first time."""
        self._remembered = dict(moments)

    def step_schedules(self) -> None:
        """Apply what was collected at the rates of this step, then move every schedule to the next."""
        self.step()
        super().step_schedules()

    def _forget_frozen(self) -> None:
        """Let go of the moments of weights that no longer learn: should they learn again, these would be of another time."""
        for parameter in self._known.values():
            if not parameter.requires_grad:
                self._torch.state.pop(parameter, None)
                self._buffers.forget(parameter)

    def _collect(self, key: Any, parameter: Any, gradient: Any, *, component: str, below_top: int) -> None:
        if key in self._collected:
            self.step()
        if self._known.get(key) is not parameter:
            self._register(key, parameter, component, below_top)
        self._collected[key] = (parameter, gradient)

    def _register(self, key: Any, parameter: torch.nn.Parameter, component: str, below_top: int) -> None:
        """Put a weight into the group of its rate and decay; one that took the place of another inherits its moments."""
        before = self._known.get(key)
        if before is not None:
            for group in self._torch.param_groups:
                group["params"] = [parameter if p is before else p for p in group["params"]]
            if before in self._torch.state:
                self._torch.state[parameter] = self._torch.state.pop(before)
            self._buffers.forget(before)
        else:
            self._group(component, below_top, decays=parameter.ndim > 1)["params"].append(parameter)
        if key in self._remembered:
            moments = self._remembered.pop(key)
            self._torch.state[parameter] = {name: value.to(parameter.device) for name, value in moments.items()}
        self._known[key] = parameter

    def _group(self, component: str, below_top: int, *, decays: bool) -> dict[str, Any]:
        rate = RATES[component] if RATES[component] in self.own_rates else "learn_rate"
        scale = self.layer_decay**below_top if component == "backbone" else 1.0
        for group in self._torch.param_groups:
            if (group["rate"], group["scale"], group["weight_decay"] > 0) == (rate, scale, decays and self.L2 > 0):
                return group
        group = {**self._torch.defaults, "params": [], "rate": rate, "scale": scale}
        group["weight_decay"] = self.L2 if decays else 0.0
        self._torch.param_groups.append(group)
        return group

