"""What a step of training changes: the weights, their moving average, the moments of AdamW."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.swa_utils import get_ema_multi_avg_fn

from unmask.networks.model.shape import Shape
from unmask.networks.model.trunk import Trunk
from unmask.networks.training.recipe import BETAS, Recipe

MOMENTS = ("exp_avg", "exp_avg_sq")
LOOKED_UP = ("embed.weight", "place")  # a row at a time: no matrices, and not decayed


def names(recipe: Recipe, step: int) -> tuple[str, ...]:
    """What there is of each weight after so many steps: the parts that `Learner.tensors` has."""
    return ("weights", *(("average",) if recipe.average else ()), *(MOMENTS if step else ()))


class Learner:
    """A trunk that learns; `average` is what is used afterwards."""

    def __init__(self, shape: Shape, recipe: Recipe, device: torch.device) -> None:
        self.recipe = recipe
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.trunk = Trunk(shape).to(device)
        self.average = copy.deepcopy(self.trunk).requires_grad_(False) if recipe.average else self.trunk
        named = dict(self.trunk.named_parameters())
        self.decayed = {name: weight for name, weight in named.items() if weight.dim() > 1 and name not in LOOKED_UP}
        self.others = {name: weight for name, weight in named.items() if name not in self.decayed}
        groups = [
            {"params": list(self.decayed.values()), "weight_decay": recipe.weight_decay},
            {"params": list(self.others.values()), "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=recipe.rate, betas=BETAS, fused=True)

    @property
    def weights(self) -> dict[str, Parameter]:
        """In the order of the optimiser."""
        return self.decayed | self.others

    def update(self, step: int) -> Tensor:
        """Apply the gradients of a step: their norm, before it was clipped."""
        weights = list(self.weights.values())
        norm = torch.nn.utils.clip_grad_norm_(weights, self.recipe.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate_at(step)
        self.optimiser.step()
        self.optimiser.zero_grad()
        if self.average is not self.trunk:
            averages = [self.average.get_parameter(name) for name in self.weights]
            get_ema_multi_avg_fn(self.recipe.average_at(step))(averages, weights, None)
        return norm

    def tensors(self) -> dict[str, Tensor]:
        """All of it, by name."""
        found: dict[str, Tensor] = {f"weights/{name}": weight for name, weight in self.weights.items()}
        if self.average is not self.trunk:
            found |= {f"average/{name}": weight for name, weight in self.average.named_parameters()}
        for name, weight in self.weights.items():
            if weight in self.optimiser.state:  # from the first step on
                found |= {f"{moment}/{name}": self.optimiser.state[weight][moment] for moment in MOMENTS}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in found.items()}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], step: int) -> None:
        """What `tensors` was after so many steps."""
        for name, weight in self.weights.items():
            weight.copy_(tensors[f"weights/{name}"])
            if self.average is not self.trunk:
                self.average.get_parameter(name).copy_(tensors[f"average/{name}"])
        if step:
            whole = self.optimiser.state_dict()
            whole["state"] = {
                number: {"step": torch.tensor(float(step))}
                | {moment: tensors[f"{moment}/{name}"] for moment in MOMENTS}
                for number, name in enumerate(self.weights)
            }
            self.optimiser.load_state_dict(whole)
