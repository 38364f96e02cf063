"""What a step of training changes: the weights, their moving average, what the optimisers keep of the gradients."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.swa_utils import get_ema_multi_avg_fn

from unmask.networks.model.shape import Shape
from unmask.networks.model.trunk import Trunk
from unmask.networks.training.recipe import BETAS, Recipe

MOMENTS = {"adamw": ("exp_avg", "exp_avg_sq"), "muon": ("momentum_buffer",)}
LOOKED_UP = ("embed.weight", "place")  # a row at a time: no matrices, and not decayed
ENDS = ("head", "time")  # matrices that no block has: their rows are symbols, or frequencies, one by one


def optimiser_of(recipe: Recipe, name: str, dimensions: int) -> str:
    """Whose a weight is."""
    inner = dimensions == 2 and name not in LOOKED_UP and not name.startswith(ENDS)
    return recipe.optimiser if inner else "adamw"


def kept(recipe: Recipe, step: int, name: str, dimensions: int) -> tuple[str, ...]:
    """What there is of a weight after so many steps: the parts that `Learner.tensors` has."""
    moments = MOMENTS[optimiser_of(recipe, name, dimensions)] if step else ()
    return ("weights", *(("average",) if recipe.average else ()), *moments)


class Learner:
    """A trunk that learns; `average` is what is used afterwards."""

    def __init__(self, shape: Shape, recipe: Recipe, device: torch.device) -> None:
        self.recipe = recipe
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.trunk = Trunk(shape).to(device)
        self.average = copy.deepcopy(self.trunk).requires_grad_(False) if recipe.average else self.trunk
        self.weights: dict[str, Parameter] = dict(self.trunk.named_parameters())
        owners = {name: optimiser_of(recipe, name, weight.dim()) for name, weight in self.weights.items()}
        matrices = [weight for name, weight in self.weights.items() if owners[name] == "muon"]
        rest = {name: weight for name, weight in self.weights.items() if owners[name] != "muon"}
        decayed = [weight for name, weight in rest.items() if weight.dim() > 1 and name not in LOOKED_UP]
        plain = [weight for name, weight in rest.items() if weight.dim() < 2 or name in LOOKED_UP]
        groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        self.optimisers: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, betas=BETAS, fused=True)]
        if matrices:  # by this adjustment one rate does for both
            muon = torch.optim.Muon(matrices, weight_decay=recipe.weight_decay, adjust_lr_fn="match_rms_adamw")
            self.optimisers.append(muon)

    def update(self, step: int) -> Tensor:
        """Apply the gradients of a step: their norm, before it was clipped."""
        weights = list(self.weights.values())
        norm = torch.nn.utils.clip_grad_norm_(weights, self.recipe.clip)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = self.recipe.rate_at(step)
            optimiser.step()
            optimiser.zero_grad()
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
            for optimiser in self.optimisers:
                if weight in optimiser.state:  # from the first step on
                    state = optimiser.state[weight]
                    found |= {f"{moment}/{name}": state[moment] for moment in self._moments(name)}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in found.items()}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], step: int) -> None:
        """What `tensors` was after so many steps."""
        for name, weight in self.weights.items():
            weight.copy_(tensors[f"weights/{name}"])
            if self.average is not self.trunk:
                self.average.get_parameter(name).copy_(tensors[f"average/{name}"])
        if step:
            for optimiser in self.optimisers:
                self._remind(optimiser, tensors, step)

    def _remind(self, optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor], step: int) -> None:
        names = {weight: name for name, weight in self.weights.items()}
        mine = [names[weight] for group in optimiser.param_groups for weight in group["params"]]
        whole = optimiser.state_dict()
        whole["state"] = {
            number: {"step": torch.tensor(float(step))}
            | {moment: tensors[f"{moment}/{name}"] for moment in self._moments(name)}
            for number, name in enumerate(mine)
        }
        optimiser.load_state_dict(whole)

    def _moments(self, name: str) -> tuple[str, ...]:
        return MOMENTS[optimiser_of(self.recipe, name, self.weights[name].dim())]
