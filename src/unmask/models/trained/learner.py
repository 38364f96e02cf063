"""One step of training: the weights, their moving average, and the moments of the optimisers.

torch's optimisers are called as functions of tensors: their classes import torch's compiler, which takes a second.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim._muon import muon
from torch.optim.adamw import adamw
from torch.optim.swa_utils import get_ema_multi_avg_fn

from unmask.models.trained.recipe import BETAS, Recipe
from unmask.models.trained.shape import Shape
from unmask.models.trained.trunk import Trunk

MOMENTS = {"adamw": ("exp_avg", "exp_avg_sq"), "muon": ("momentum_buffer",)}
ADAMW: dict[str, Any] = {"beta1": BETAS[0], "beta2": BETAS[1], "eps": 1e-8, "amsgrad": False, "maximize": False}
MUON: dict[str, Any] = {
    "momentum": 0.95,
    "nesterov": True,
    "ns_coefficients": (3.4445, -4.775, 2.0315),
    "ns_steps": 5,
    "eps": 1e-7,
    "adjust_lr_fn": "match_rms_adamw",  # so that both use the same rate
    "has_complex": False,
}
LOOKED_UP = ("embed.weight", "place")  # used one row at a time: not matrices, no weight decay
ENDS = ("head", "time")  # matrices outside the blocks: their rows are single symbols or frequencies


def optimiser_of(recipe: Recipe, name: str, dimensions: int) -> str:
    """Optimiser of a weight."""
    inner = dimensions == 2 and name not in LOOKED_UP and not name.startswith(ENDS)
    return recipe.optimiser if inner else "adamw"


def parts_of(recipe: Recipe, step: int, name: str, dimensions: int) -> tuple[str, ...]:
    """Parts of a weight in `Learner.tensors` after a number of steps."""
    moments = MOMENTS[optimiser_of(recipe, name, dimensions)] if step else ()
    return ("weights", *(("average",) if recipe.average else ()), *moments)


class Learner:
    """A trunk in training; `average` is the result."""

    def __init__(self, shape: Shape, recipe: Recipe, device: torch.device) -> None:
        self.recipe = recipe
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.trunk = Trunk(shape).to(device)
        self.average = copy.deepcopy(self.trunk).requires_grad_(False) if recipe.average else self.trunk
        self.weights: dict[str, Parameter] = dict(self.trunk.named_parameters())
        self.state: dict[str, dict[str, Tensor]] = {}  # optimiser state by weight, from the first step on
        self.matrices = [name for name in self.weights if self._moments(name) == MOMENTS["muon"]]
        rest = [name for name in self.weights if name not in self.matrices]
        decayed = [name for name in rest if self.weights[name].dim() > 1 and name not in LOOKED_UP]
        plain = [name for name in rest if name not in decayed]
        self.groups = (decayed, recipe.weight_decay), (plain, 0.0)

    def update(self, step: int) -> Tensor:
        """Apply the gradients of a step; return their norm before clipping."""
        weights = list(self.weights.values())
        norm = torch.nn.utils.clip_grad_norm_(weights, self.recipe.clip)
        if not self.state:
            self._begin(lambda kind, name: torch.zeros_like(self.weights[name]), 0)
        with torch.no_grad():
            self._apply(self.recipe.rate_at(step))
        if self.average is not self.trunk:
            averages = [self.average.get_parameter(name) for name in self.weights]
            get_ema_multi_avg_fn(self.recipe.average_at(step))(averages, weights, None)
        return norm

    def tensors(self) -> dict[str, Tensor]:
        """Weights, averages and moments by name."""
        tensors: dict[str, Tensor] = {f"weights/{name}": weight for name, weight in self.weights.items()}
        if self.average is not self.trunk:
            tensors |= {f"average/{name}": weight for name, weight in self.average.named_parameters()}
        for name, state in self.state.items():
            tensors |= {f"{moment}/{name}": state[moment] for moment in self._moments(name)}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], step: int) -> None:
        """Set the state to the `tensors` after a number of steps."""
        for name, weight in self.weights.items():
            weight.copy_(tensors[f"weights/{name}"])
            if self.average is not self.trunk:
                self.average.get_parameter(name).copy_(tensors[f"average/{name}"])
        if step:
            self._begin(lambda moment, name: tensors[f"{moment}/{name}"], step)

    def _begin(self, moment_of: Callable[[str, str], Tensor], step: int) -> None:
        """Set the state of the optimisers after a number of steps."""
        for name, weight in self.weights.items():
            moments = {moment: moment_of(moment, name).to(weight.device) for moment in self._moments(name)}
            self.state[name] = {"step": torch.tensor(float(step), device=weight.device)} | moments

    def _apply(self, rate: float) -> None:
        """Update the weights and remove the gradients."""
        for names, decay in self.groups:
            weights, gradients = self._learning(names)
            steps, first, second = (self._states(names, part) for part in ("step", "exp_avg", "exp_avg_sq"))
            adamw(weights, gradients, first, second, [], steps, fused=True, lr=rate, weight_decay=decay, **ADAMW)
        if self.matrices:
            buffers, decay = self._states(self.matrices, "momentum_buffer"), self.recipe.weight_decay
            muon(*self._learning(self.matrices), buffers, lr=rate, weight_decay=decay, **MUON)
        for weight in self.weights.values():
            weight.grad = None

    def _learning(self, names: Sequence[str]) -> tuple[list[Tensor], list[Tensor]]:
        """(weights, gradients)."""
        weights: list[Tensor] = [self.weights[name] for name in names]
        return weights, [weight.grad for weight in weights if weight.grad is not None]

    def _states(self, names: Sequence[str], part: str) -> list[Tensor]:
        return [self.state[name][part] for name in names]

    def _moments(self, name: str) -> tuple[str, ...]:
        return MOMENTS[optimiser_of(self.recipe, name, self.weights[name].dim())]
