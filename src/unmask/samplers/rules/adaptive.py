"""Adaptive rules: in each step reveal every hidden position that passes a test, or else the surest one.

    sampler          paper                      ready                                            surest by
    threshold        Fast-dLLM, 2505.22618      confidence > threshold                           confidence
    factor           Fast-dLLM                  (n + 1)(1 - c_(n)) < factor                      confidence
    entropy-bounded  EB, 2505.24857             sum of H - max of H <= gamma                     a proxy
    entropy-sum      Cai and Li, 2603.22248     sum of H before it <= threshold                  a proxy
    klass            KLASS, 2511.05664 v1       confidence > threshold, KL < kl for some steps   confidence
    localleap        LocalLeap, 2510.07081 v1   confidence >= threshold, less near such a one    confidence

confidence = max_v p(v), H = entropy in nats. Numbers closer than `view.resolution` are equal: a test with > or < fails
for equal numbers, one with >= or <= passes. Tokens are drawn after the choice, at a temperature that the test does not
use; the papers' is 0. Their caches are not implemented. In `blocks` each rule applies within the block, with a memory
that is empty where the block begins. Steps and schedule are not used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.samplers.contract import SAMPLERS, Choice, Fraction, Nats, Places, Some
from unmask.samplers.ranking import SCORES, ChoosesFirst, above, arranged, at_least, chosen, in_order
from unmask.samplers.view import View, divergence


class Adaptive(ChoosesFirst):
    """The rule. A sampler of it writes `ready`; by default the score is the confidence."""

    pace = "free"
    least: int = 1
    """Number of positions that are revealed if none is ready."""

    def ready(self, view: View) -> Tensor:
        """Bool (B, L): the positions that pass the test."""
        raise NotImplementedError

    def scores(self, view: View) -> Tensor:
        """(B, L): which positions are surest."""
        return view.confidence

    def choose(self, view: View) -> Choice:
        ready = view.hidden & self.ready(view)
        surest = self.surest(view, view.hidden, self.scores(view), self.least)
        return chosen(view, ready | (surest & ~ready.any(1, keepdim=True)), self.temperature)


# ------------------------------------------------------------------------------------------------- confidence alone


@SAMPLERS.register("threshold")
@dataclass(frozen=True)
class Threshold(Adaptive):
    """Fast-dLLM: reveal all positions with confidence above a threshold; steps and schedule are not used.

    At least the `least` most confident are revealed in any case: above 1 this is SDAR's low_confidence_dynamic, and
    LLaDA2's loop, with block_length / least steps per block. `counts` has one least per step; its last entry applies to
    all later steps. Where the steps do not divide a block, their loops give the remainder to the first steps:
    counts=(2, 1, 1) with 3 steps per block of 4. The paper uses it inside blocks: blocks(block_length=32, inner=..)."""

    threshold: Fraction = 0.9
    least: Some = 1
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for count in self.counts:
            arguments.whole("a number of counts", count, 1, arguments.MOST_LENGTH)
        if self.counts and self.least != 1:
            raise UnmaskError(
                f"least is {self.least} and counts is {self.counts}", "expected one of the two", "Leave least out."
            )

    def ready(self, view: View) -> Tensor:
        counts = torch.tensor(self.counts or (self.least,))
        least = counts[(view.step - 1).clamp(min=0, max=len(counts) - 1)].unsqueeze(1)
        return above(view, view.confidence, self.threshold) | self.surest(view, view.hidden, view.confidence, least)


@SAMPLERS.register("factor")
@dataclass(frozen=True)
class Factor(Adaptive):
    """Fast-dLLM: the n most confident, n the largest with (n+1)(1 - confidence) < factor; steps are not used.

    The published code reveals all hidden positions also where n would be one less than that, because its loop leaves
    its index at the last position in both cases. So it adds the last position however uncertain it is, and of two
    hidden positions it always reveals both (published=True). Its distribution differs by a total variation of .14 in a
    2-gram of four positions at factor 1.3."""

    factor: Annotated[float, arguments.number] = 1.0
    published: bool = False

    def ready(self, view: View) -> Tensor:
        place = in_order(view, view.confidence, self.ties)
        doubt = (place + 2) * (1 - view.confidence)  # a prefix: both factors grow with the rank
        enough = view.hidden & ((doubt < self.factor - view.resolution) | (place == 0))
        if self.published:
            enough |= (view.hidden.sum(1) - enough.sum(1) == 1).unsqueeze(1)
        return enough


@SAMPLERS.register("localleap")
@dataclass(frozen=True)
class LocalLeap(Adaptive):
    """LocalLeap: all confident positions, and less confident neighbours of these; steps are not used.

    Positions at most `radius` from one that reaches the threshold need only threshold - relief. The paper's thresholds
    are 0.9 and 0.75, and its radius 4; neighbours are counted on the canvas, and revealed within their block."""

    threshold: Fraction = 0.9
    relief: float = 0.15
    radius: Places = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("relief", self.relief, most=self.threshold, what=", the threshold")

    def ready(self, view: View) -> Tensor:
        anchors = view.hidden & at_least(view, view.confidence, self.threshold)
        before = torch.nn.functional.pad(anchors.cumsum(1), (1, 0))  # (B, L + 1)
        place, size = torch.arange(anchors.shape[1]), anchors.shape[1]
        near = before[:, (place + self.radius + 1).clamp(max=size)] > before[:, (place - self.radius).clamp(min=0)]
        return anchors | (near & at_least(view, view.confidence, self.threshold - self.relief))


# ------------------------------------------------------------------------------- entropy budgets (theory.md 10)


Proxy = Annotated[str, partial(arguments.word, known=SCORES)]


class Budget(Adaptive):
    """Take positions one after another by a proxy of their error, as long as the error is at most a budget in nats."""

    proxy: str

    def scores(self, view: View) -> Tensor:
        return SCORES[self.proxy](view)

    def affordable(self, view: View, budget: float) -> Tensor:
        """Bool (B, L): the positions whose error, with all before them, is within the budget."""
        place = in_order(view, self.scores(view), self.ties)
        error = self.error(arranged(view, view.entropy, place))
        return ~above(view, error.gather(1, place), budget)

    def error(self, entropies: Tensor) -> Tensor:
        """(B, L): an estimate for the first n positions, from their entropies (B, L) in order."""
        raise NotImplementedError


@SAMPLERS.register("entropy-bounded")
@dataclass(frozen=True)
class EntropyBounded(Budget):
    """EB: the most positions whose entropies, except the largest, sum to at most gamma nats; steps are not used.

    For the ideal denoiser TC(X_U | x_R) <= sum H - max H, so the error is at most gamma per step. gamma = 0 reveals
    certain positions and one more. If positions are sorted by entropy, the largest is the last, and this is
    `entropy-sum`."""

    gamma: Nats = 0.1
    proxy: Proxy = "entropy"

    def ready(self, view: View) -> Tensor:
        return self.affordable(view, self.gamma)

    def error(self, entropies: Tensor) -> Tensor:
        return entropies.cumsum(1) - entropies.cummax(1).values


@SAMPLERS.register("entropy-sum")
@dataclass(frozen=True)
class EntropySum(Budget):
    """Reveal until the cumulative entropy exceeds a threshold in nats; steps and schedule are not used.

    The error is at most the threshold per step. The steps are about H(X) / threshold, fewer if the language has
    dependence. The order in which positions are taken is our choice."""

    threshold: Nats = 1.0
    proxy: Proxy = "chance"

    def ready(self, view: View) -> Tensor:
        return self.affordable(view, self.threshold)

    def error(self, entropies: Tensor) -> Tensor:
        return torch.nn.functional.pad(entropies.cumsum(1)[:, :-1], (1, 0))


# ------------------------------------------------------------------------------------- memory of earlier steps


@SAMPLERS.register("klass")
@dataclass(frozen=True)
class Klass(Adaptive):
    """KLASS: reveal confident positions whose marginals were stable in the last steps; steps are not used.

    Ready: max_v p_t(v) > threshold, and KL(p_t || p_t-1) < kl in each of the last `history` steps, which need
    `history` + 1 model calls; or else the `least` most confident. The published code differs in three ways. If no
    position is ready, it reveals the schedule's number of positions, and a block may end with masks. Its history
    carries over to the next block. It compares the first model call with zeros, which also counts as unstable.

    By Pinsker's inequality |max p_t - max p_t-1| <= sqrt(KL / 2). So a position below threshold - (history - 1)
    sqrt(kl / 2) cannot be in a stable run that ends above the threshold, and no KL is computed there."""

    threshold: Fraction = 0.9
    kl: Annotated[float, partial(arguments.number, above=True, what=" of nats")] = 0.01
    history: Annotated[int, partial(arguments.whole, least=0, most=arguments.MOST_STEPS)] = 2
    least: Some = 1

    def ready(self, view: View) -> Tensor:
        sure = above(view, view.confidence, self.threshold)
        if self.history == 0:
            return sure
        lowest = self.threshold - (self.history - 1) * math.sqrt(self.kl / 2)
        calm = divergence(view, view.hidden & (view.confidence >= lowest)) < self.kl
        stable = view.memory.get("stable", torch.zeros_like(view.tokens))
        view.memory["stable"] = stable = torch.where(calm, stable + 1, 0)
        return sure & (stable >= self.history)
