"""A surrogate of log p(x) against the exact policy gradient g: its bias, its noise, and the reward that it gains.

    g^ = E_x[w(A(x)) grad s(x)],    x ~ p of the sampler,    A(x) = r(x) - E r

bias      |E g^ - g| / |g|                 cosine, length   of E g^ and g, and |E g^| / |g|
variance  E |g^ - E g^|^2 / |g|^2 of a group of rollouts, with K model calls for each; those of `exact`
          and `trajectory` are exact given the texts, so their variance is that of the rollouts alone
reward    after steps along E g^ of a fixed length, each from a new gradient

E over x is exact; E over the surrogate's own random numbers too for registered ones, else a mean over draws.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.chance import check_seed
from unmask.core.errors import UnmaskError, shown
from unmask.diagnosis.contexts import Contexts
from unmask.diagnosis.policy.gradient import Policy, Reward, Task, flat, task_of
from unmask.diagnosis.policy.surrogates import SURROGATES, Surrogate, named
from unmask.samplers import Sampler
from unmask.samplers.schedules import ScheduleLike

GROUP, GROUPS, DRAWS = 16, 24, 64
STEPS = 1, 40
LENGTH = 0.1  # of a step, in weights


class Noise(NamedTuple):
    """Gradients of groups of rollouts, with K model calls for each rollout."""

    variance: float  # E |g^ - mean|^2 / |g|^2
    cosine: float  # mean cosine with g


@dataclass(frozen=True)
class Comparison:
    """A surrogate's gradient against the exact one."""

    surrogate: str
    bias: float
    cosine: float
    length: float
    noise: dict[int, Noise]  # for each number of model calls
    rewards: dict[int, float]  # the expected reward after this number of steps; 0: before

    def table(self) -> dict[str, float]:
        """Its numbers by name."""
        first = {"bias": self.bias, "cosine": self.cosine, "length": self.length}
        for number, noise in self.noise.items():
            first |= {f"variance at {number}": noise.variance, f"cosine at {number}": noise.cosine}
        return first | entries.renamed("reward after {} steps", self.rewards)


class Moment:
    """A policy at its present weights: the distribution of its texts, advantages, and directions in the table."""

    def __init__(self, policy: Policy, contexts: Contexts, task: Task) -> None:
        self.policy, self.contexts, self.task = policy, contexts, task

    @cached_property
    def p(self) -> Tensor:
        """(V^L), with its gradient."""
        return self.task.distribution(self.contexts)

    @property
    def reward(self) -> float:
        return float(self.p.detach() @ self.task.rewards)

    @property
    def advantage(self) -> Tensor:
        return self.task.rewards - self.reward

    def chances(self, surrogate: Surrogate) -> Tensor:
        """(V^L): p with the gradient that a surrogate without a score takes."""
        return self.task.distribution(self.contexts, True) if surrogate.of_paths else self.p

    def direction(self, surrogate: Surrogate) -> Tensor:
        """(C, L, V): E g^ in the table of log-probabilities."""
        p, advantage = self.p.detach(), self.advantage
        weight = surrogate.weight(p, advantage)
        if surrogate.score is None:
            value = self.chances(surrogate) @ weight
        else:
            more = {"advantage": advantage} if surrogate.sided else {}
            value = (p * weight) @ surrogate.score(self.contexts, self.contexts.texts, None, **more)
        return torch.autograd.grad(value, self.contexts.log, retain_graph=True)[0]

    def sampled(self, surrogate: Surrogate, rows: Tensor, generator: torch.Generator, **options: Any) -> Tensor:
        """(weights): the mean of w(A) grad s of texts, by number (B), through the network itself."""
        p, x, advantage = self.p.detach(), self.contexts.texts[rows], self.advantage
        weight = surrogate.weight(p, advantage)[rows] / len(x)
        if surrogate.score is None:
            value = weight @ (self.chances(surrogate)[rows] / p[rows])
            (direction,) = torch.autograd.grad(value, self.contexts.log, retain_graph=True)
            return self.policy.pulled(self.contexts, [direction])[0]
        if surrogate.sided:
            options["advantage"] = advantage[rows]
        scores = checked(surrogate.score(self.policy, x, generator, **options), len(x))
        return flat(torch.autograd.grad(weight @ scores.double(), self.policy.weights, materialize_grads=True))


def checked(scores: object, rows: int) -> Tensor:
    """Check the numbers (B) that a surrogate has returned."""
    problem = ""
    if not isinstance(scores, Tensor):
        problem = shown(scores)
    elif scores.shape != (rows,):
        problem = f"shape {tuple(scores.shape)}"
    elif not scores.requires_grad:
        problem = "numbers without a gradient"
    elif bool((bad := ~scores.detach().isfinite()).any()):
        problem = f"{float(scores.detach()[bad][0])} for row {int(bad.int().argmax())}"

    if problem:
        raise UnmaskError(
            f"the surrogate returns {problem}",
            f"expected ({rows},), finite, with a gradient. Return one number for each text",
        )
    assert isinstance(scores, Tensor)
    return scores


def improved(now: Moment, surrogate: Surrogate, steps: int, size: float) -> Iterator[float]:
    """The expected reward after each step of this size along E g^, of a copy of the model."""
    policy = copy.deepcopy(now.policy)
    for _ in range(steps):
        vector = now.policy.pulled(now.contexts, [now.direction(surrogate)])[0]
        policy.move(size * vector / vector.norm().clamp(min=1e-300))
        now = Moment(policy, policy.contexts(now.contexts.tokens.shape[1]), now.task)
        yield now.reward


def noise(
    now: Moment, surrogate: Surrogate, exact: Tensor, seed: int, groups: int, group: int, **options: Any
) -> Noise:
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for _ in range(groups):
        rows = torch.multinomial(now.p.detach(), group, replacement=True, generator=generator)
        parts.append(now.sampled(surrogate, rows, generator, **options))
    vectors = torch.stack(parts)
    return Noise(
        variance=float(vectors.var(0).sum() / exact.square().sum()),
        cosine=float(torch.cosine_similarity(vectors, exact.unsqueeze(0)).mean()),
    )


def compare(
    surrogate: str | Surrogate | Callable[..., Tensor],
    model: Any,
    sampler: str | Sampler,
    steps: int,
    reward: Reward,
    length: int,
    *,
    schedule: ScheduleLike = "linear",
    vocabulary: int | None = None,
    calls: Sequence[int] = (1, 4, 16),
    group: int = GROUP,
    groups: int = GROUPS,
    draws: int = DRAWS,
    along: Sequence[int] = STEPS,
    step: float = LENGTH,
    seed: int = 0,
) -> Comparison:
    """Compare a surrogate's gradient with the exact one of `gradient`, which has the other arguments.

    surrogate: a name of SURROGATES; or a function (model, texts (B, L), generator) -> (B) with a gradient, where
        model(contexts (R, L)) returns log-probabilities (R, L, V).
    calls: numbers K of model calls for each rollout; a function decides itself, its K is 1.
    group, groups: rollouts of a group, and number of groups, for the variance.
    draws: random numbers over which the expectation of a function is a mean.
    along: numbers of steps along the surrogate's expectation; step: the length of each in the space of the weights.
    """
    used = named(surrogate)
    own = used not in SURROGATES.values()
    policy = Policy(model, vocabulary)
    contexts = policy.contexts(arguments.length(length))
    now = Moment(policy, contexts, task_of(contexts, sampler, steps, reward, schedule))
    seed = check_seed(seed)
    if own:
        used = Surrogate(averaged(used.score, arguments.whole("draws", draws), seed))
    exact, mean = policy.pulled(contexts, [now.direction(SURROGATES["exact"]), now.direction(used)])

    how = (now, used, exact, seed, groups, group)
    if own or used.score is None:
        noisy = {1: noise(*how)}
    else:
        noisy = {number: noise(*how, calls=arguments.whole("calls", number)) for number in calls}

    gains = dict(enumerate(improved(now, used, max(along, default=0), step), 1))

    size, other = exact.norm(), mean.norm()
    about = surrogate if isinstance(surrogate, str) else getattr(surrogate, "__name__", type(surrogate).__name__)
    return Comparison(
        surrogate=about,
        bias=float((mean - exact).norm() / size),
        cosine=float(exact @ mean / (size * other).clamp(min=1e-300)),
        length=float(other / size),
        noise=noisy,
        rewards={0: now.reward} | entries.picked(gains, along),
    )


def averaged(score: Any, draws: int, seed: int) -> Callable[..., Tensor]:
    """A function's score; without a generator its mean over draws."""

    def mean(model: Any, x: Tensor, generator: torch.Generator | None) -> Tensor:
        if generator is not None:
            return score(model, x, generator)
        generator = torch.Generator().manual_seed(seed)
        return torch.stack([checked(score(model, x, generator), len(x)) for _ in range(draws)]).mean(0)

    return mean
