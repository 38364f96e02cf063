"""Training options: targets, optimiser, cosine with warm-up, average of the weights; and one step with them.

The paper uses sampled tokens as targets, and AdamW. With an exact language the targets can be distributions
(objectives.py), and Muon replaces the momentum of each matrix by the nearest orthogonal matrix. docs/networks.md
compares them.

torch's optimisers are called as functions of tensors: their classes import torch's compiler, which takes a second.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.adamw import adamw
from torch.optim.swa_utils import get_ema_multi_avg_fn

from unmask.core import arguments, entries
from unmask.core.chance import check_seed
from unmask.models.trained.shape import Shape, strict
from unmask.models.trained.trunk import Trunk

TARGETS = ("tokens", "posterior")
OPTIMISERS = ("adamw", "muon")
BETAS = (0.9, 0.999)
WARM_UP_OF_AVERAGE = 10.0  # the average of the first t steps forgets with (1 + t)/(10 + t)
TRAINING_SHARE = 0.99  # fraction of a fixed set for training (the paper's)
LARGEST = 1e6  # of rates, so that no product overflows in single precision
MOST = {"steps": 10**9, "batch": 2**24, "samples": 2**40, "run": arguments.MOST_LENGTH}
MOMENTS = {"adamw": ("exp_avg", "exp_avg_sq"), "muon": ("momentum_buffer",)}
ADAMW: dict[str, Any] = {"beta1": BETAS[0], "beta2": BETAS[1], "eps": 1e-8, "amsgrad": False, "maximize": False}
MOMENTUM = 0.95  # of Muon, with Nesterov's correction
POLYNOMIAL, ITERATIONS = (3.4445, -4.775, 2.0315), 5  # of the Newton-Schulz iteration
MATCHED = 0.2  # root mean square of an update of AdamW, so that both use the same rate
FASTER = {  # times the rate
    "windows.table": 4.0,  # entries of rare windows have to grow within few visits
    "chain.table": 14.0,  # logarithms of a whole chain, which need no visit
    "chain.begin": 14.0,
}
LOOKED_UP = ("embed.weight", "place")  # used one row at a time: not matrices, no weight decay
ENDS = ("head", "time", "windows", "chain")  # matrices outside the blocks: their rows are single symbols or frequencies

# Without the noise of sampled targets, small batches are as good as large ones, and a rate that stays high is better.
SOON = {"batch": 16, "rate": 7e-3, "fall": 0.6, "spread": 0.5, "run": 7, "targets": "posterior", "optimiser": "muon"}
# The answer to a prompt is certain: its tokens are its distributions, and the prompt is always shown.
QUESTIONS = {"batch": 64, "spread": 0.0, "run": 1, "targets": "tokens", "prompt_length": 8}
RECIPES: dict[str, dict[str, Any]] = {
    # Section 5 and Table 3; the batch is that of Sahoo et al., whose framework the paper follows: its own is illegible.
    "paper": {"epochs": 20, "samples": 1_000_000, "batch": 512, "rate": 3e-4, "average": 0.9999},
    "small": {"steps": 4000, "batch": 64, "rate": 2e-3},
    "quick": SOON | {"steps": 1200, "average": 0.995},
    "thorough": SOON | {"steps": 6000, "average": 0.998},
    "chain": SOON | {"steps": 1000, "average": 0.995},
    "sums": SOON | {"steps": 4000, "average": 0.998, "rate": 4e-3, "spread": 0.7},
    "questions": SOON | QUESTIONS | {"steps": 1500, "average": 0.995, "rate": 4e-3},
    "text": {"steps": 1600, "batch": 32, "rate": 6e-3, "fall": 0.6, "average": 0.99, "optimiser": "muon"},
}
OF_NOISE = {"uniform": {"spread": 0.0, "run": 1}}  # it has no masks
OF_KIND: dict[tuple[str, str], dict[str, Any]] = {  # an AR model learns from every position
    ("quick", "ar"): {"steps": 800, "run": 1},
    ("thorough", "ar"): {"steps": 1500, "average": 0.995, "run": 1},
    ("chain", "ar"): {"steps": 1000, "run": 1},
    ("sums", "ar"): SOON | {"steps": 1500, "average": 0.995, "run": 1},
    ("questions", "ar"): {"steps": 800},
}


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the trained weights, except the language and the shape."""

    steps: int
    batch: int  # sequences per step
    rate: float  # its maximum
    warm_up: float = 0.1  # fraction of the steps in which the rate rises
    fall: float = 1.0  # fraction at the end in which it falls to zero as half a cosine; at most 1 - warm_up
    weight_decay: float = 0.0  # of matrices
    average: float = 0.999  # decay of the weight average per step, in the long run; 0: no average
    clip: float = 1.0  # largest norm of a gradient
    samples: int | None = None  # size of a fixed set; None: every example is new
    spread: float = 0.0  # fraction of the steps with some evenly spread masks (MDM), fewer and fewer of them
    run: int = 1  # longest run of positions that these masks hide
    prompt_length: int = 0  # tokens that are always shown, and not learned
    targets: str = "tokens"  # or the exact distribution of each, "posterior"
    optimiser: str = "adamw"  # or "muon" for matrices, with AdamW for the rest
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        arguments.word("targets", self.targets, TARGETS)
        arguments.word("optimiser", self.optimiser, OPTIMISERS)
        for name, most in MOST.items():
            if name != "samples" or self.samples is not None:
                arguments.whole(name, getattr(self, name), 1, most)
        for name in ("rate", "clip"):
            arguments.number(name, getattr(self, name), most=LARGEST, above=True)
        arguments.number("weight_decay", self.weight_decay, most=LARGEST)
        for name in ("warm_up", "average"):
            arguments.share(name, getattr(self, name))
        for name in ("fall", "spread"):
            arguments.number(name, getattr(self, name), most=1)

    def rate_at(self, step: int) -> float:
        """Rate of a step, from 0: rises to `rate` in the warm-up and falls along half a cosine at the end."""
        warm = max(1, round(self.warm_up * self.steps))
        if step < warm:
            return self.rate * (step + 1) / warm
        top = max(warm, round((1 - self.fall) * self.steps))
        return self.rate * 0.5 * (1 + math.cos(math.pi * max(0, step + 1 - top) / (self.steps + 1 - top)))

    def spread_at(self, step: int) -> float:
        """Fraction of the rows of a step with evenly spread masks: all at first, none in the end."""
        return max(0.0, 1 - step / (self.spread * self.steps)) if self.spread else 0.0

    def average_at(self, step: int) -> float:
        """Decay of the weight average at a step: smaller at first, to forget the untrained weights."""
        return min(self.average, (1 + step) / (WARM_UP_OF_AVERAGE + step))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Recipe:
        return strict(given, cls, "entry of a recipe", "the recipe of a training")


def recipe(name: str, kind: str = "mdm", noise: str = "mask", **changes: Any) -> Recipe:
    """Recipe of a preset for a kind of network and its noise; a change of None keeps the value of the preset.

    `epochs`, the number of passes over a fixed set, is used if `steps` is not given.
    """
    arguments.word("preset of a network", name, RECIPES)
    values = RECIPES[name] | OF_KIND.get((name, kind), {}) | OF_NOISE.get(noise, {})
    values |= entries.given(changes)
    epochs = values.pop("epochs", None)
    if epochs is not None and "steps" not in values:
        values["steps"] = math.ceil(epochs * training_size(values["samples"]) / values["batch"])
    return Recipe.from_dict(values)


def training_size(samples: int) -> int:
    """Number of training sequences in a fixed set."""
    return min(round(TRAINING_SHARE * samples), samples - 1)


def optimiser_of(recipe: Recipe, name: str, dimensions: int) -> str:
    """Optimiser of a weight."""
    inner = dimensions == 2 and name not in LOOKED_UP and not name.startswith(ENDS)
    return recipe.optimiser if inner else "adamw"


def parts_of(recipe: Recipe, step: int, name: str, dimensions: int) -> tuple[str, ...]:
    """Parts of a weight in `Learner.tensors` after a number of steps."""
    parts = ["weights"]
    if recipe.average:
        parts.append("average")
    if step:
        parts += MOMENTS[optimiser_of(recipe, name, dimensions)]
    return tuple(parts)


def orthogonal(matrix: Tensor) -> Tensor:
    """About the nearest orthogonal matrix (singular values 0.7 to 1.2): Newton-Schulz, x (a + b xx' + c (xx')^2).

    In float32: many processors multiply small matrices of bfloat16 twenty times slower.
    """
    a, b, c = POLYNOMIAL
    if len(matrix) > matrix.shape[1]:
        return orthogonal(matrix.T).T
    x = matrix / matrix.norm().clamp(min=1e-7)
    for _ in range(ITERATIONS):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x


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
        rest = entries.without(self.weights, self.matrices)
        rest = entries.without(rest, FASTER)
        decayed = [name for name, weight in rest.items() if weight.dim() > 1 and name not in LOOKED_UP]
        self.groups = [(decayed, 1.0, recipe.weight_decay), (list(entries.without(rest, decayed)), 1.0, 0.0)]
        for name in entries.picked(FASTER, self.weights):
            self.groups.append(([name], FASTER[name], 0.0))

    def update(self, step: int) -> Tensor:
        """Apply the gradients of a step; return their norm before clipping."""
        weights = list(self.weights.values())
        norm = torch.nn.utils.clip_grad_norm_(weights, self.recipe.clip)
        if not self.state:
            self._begin(lambda kind, name: torch.zeros_like(self.weights[name]), 0)
        with torch.no_grad():
            self._apply(self.recipe.rate_at(step))
        if self.average is not self.trunk:
            averages = list(map(self.average.get_parameter, self.weights))
            get_ema_multi_avg_fn(self.recipe.average_at(step))(averages, weights, None)
        return norm

    def tensors(self) -> dict[str, Tensor]:
        """Weights, averages and moments by name."""
        tensors: dict[str, Tensor] = entries.renamed("weights/{}", self.weights)
        if self.average is not self.trunk:
            tensors |= entries.renamed("average/{}", dict(self.average.named_parameters()))
        for name, state in self.state.items():
            tensors |= {f"{moment}/{name}": state[moment] for moment in self._moments(name)}
        return tensors

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
        for names, pace, decay in self.groups:
            weights: list[Tensor] = list(entries.picked(self.weights, names).values())
            gradients = entries.present(entries.column(weights, "grad"))
            steps, first, second = (self._states(names, part) for part in ("step", "exp_avg", "exp_avg_sq"))
            adamw(weights, gradients, first, second, [], steps, fused=True, lr=rate * pace, weight_decay=decay, **ADAMW)

        for name in self.matrices:
            weight = self.weights[name]
            buffer = self.state[name]["momentum_buffer"]
            assert weight.grad is not None
            buffer.lerp_(weight.grad, 1 - MOMENTUM)
            update = orthogonal(weight.grad.lerp(buffer, MOMENTUM))
            weight.mul_(1 - rate * self.recipe.weight_decay)
            weight.sub_(update, alpha=rate * MATCHED * math.sqrt(max(weight.shape)))

        for weight in self.weights.values():
            weight.grad = None

    def _states(self, names: Sequence[str], part: str) -> list[Tensor]:
        return [self.state[name][part] for name in names]

    def _moments(self, name: str) -> tuple[str, ...]:
        return MOMENTS[optimiser_of(self.recipe, name, self.weights[name].dim())]
