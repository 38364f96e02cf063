"""Adaptive rules: in each step reveal every position of a window that passes a test, or else the surest one.

    reveal = { i in window : ready(i) }, and the highest score of the window's first part if none there is ready

One rule, nine samplers: each has its own test, and some their own window or score.

    sampler          paper                      ready                                            window     score
    threshold        Fast-dLLM, 2505.22618      confidence > threshold                           all        confidence
    factor           Fast-dLLM                  (n + 1)(1 - c_(n)) < factor                      all        confidence
    entropy-bounded  EB, 2505.24857             sum of H - max of H <= gamma                     all        a proxy
    entropy-sum      Cai and Li, 2603.22248     sum of H before it <= threshold                  all        a proxy
    settled          2512.02044, 2604.17068     mean confidence >= threshold, same best symbol   all        that mean
    klass            KLASS, 2511.05664 v1       confidence > threshold, KL < kl for some steps   all        confidence
    localleap        LocalLeap, 2510.07081 v1   confidence >= threshold, less near such a one    all        confidence
    deferred         2601.02076 v1, 2602.05992  confidence >= threshold                          sliding    confidence
    multi-block      d3LLM, 2601.07568; D2F     entropy <= threshold                             blocks     -entropy

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
from unmask.samplers.contract import SAMPLERS, Choice, Flag, Fraction, Nats, Places, Some
from unmask.samplers.ranking import SCORES, ChoosesFirst, above, arranged, at_least, chosen, in_order
from unmask.samplers.view import View, agreement, divergence


class Adaptive(ChoosesFirst):
    """The rule. A sampler of it writes `ready`; by default the window is all hidden positions, the score confidence."""

    pace = "free"
    least: int = 1
    """Number of positions that are revealed if none is ready."""

    def ready(self, view: View, inside: Tensor) -> Tensor:
        """Bool (B, L): the positions that pass the test; inside, Bool (B, L): the window."""
        raise NotImplementedError

    def places(self, view: View) -> tuple[Tensor, Tensor]:
        """Bool (B, L) each: the positions that may be revealed, and those of which at least one must be."""
        return view.hidden, view.hidden

    def scores(self, view: View) -> Tensor:
        """(B, L), after `ready`: which positions are surest."""
        return view.confidence

    def choose(self, view: View) -> Choice:
        inside, first = self.places(view)
        ready = inside & self.ready(view, inside)
        none = ~(ready & first).any(1, keepdim=True)
        surest = self.surest(view, first, self.scores(view), self.least)
        return chosen(view, ready | (surest & none), self.temperature)


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
            problem = f"least is {self.least} and counts is {self.counts}"
            raise UnmaskError(f"{problem}; expected one of the two. Leave least out.")

    def ready(self, view: View, inside: Tensor) -> Tensor:
        counts = torch.tensor(self.counts or (self.least,))
        least = counts[(view.step - 1).clamp(min=0, max=len(counts) - 1)].unsqueeze(1)
        return above(view, view.confidence, self.threshold) | self.surest(view, inside, view.confidence, least)


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

    def ready(self, view: View, inside: Tensor) -> Tensor:
        place = in_order(view, view.confidence, self.ties)
        doubt = (place + 2) * (1 - view.confidence)  # a prefix: both factors grow with the rank
        enough = inside & ((doubt < self.factor - view.resolution) | (place == 0))
        if self.published:
            enough |= (inside.sum(1) - enough.sum(1) == 1).unsqueeze(1)
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

    def ready(self, view: View, inside: Tensor) -> Tensor:
        anchors = inside & at_least(view, view.confidence, self.threshold)
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

    def ready(self, view: View, inside: Tensor) -> Tensor:
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

    def ready(self, view: View, inside: Tensor) -> Tensor:
        return self.affordable(view, self.threshold)

    def error(self, entropies: Tensor) -> Tensor:
        return torch.nn.functional.pad(entropies.cumsum(1)[:, :-1], (1, 0))


# ------------------------------------------------------------------------------------- memory of earlier steps


@SAMPLERS.register("settled")
@dataclass(frozen=True)
class Settled(Adaptive):
    """Reveal positions that are confident on average and stable for several steps; steps are not used.

        m_t = momentum m_t-1 + (1 - momentum) max_v p_t(v),   m_1 = max_v p_1(v)

    Ready: m_t >= threshold, and the same most likely symbol for `agree` steps, including this one. agree > 1 is a
    stability window, momentum > 0 the exponential mean of confidences. Papers build these in different ways; this is
    the plain form of either, not that of one paper."""

    threshold: Fraction = 0.9
    agree: Annotated[int, partial(arguments.whole, most=arguments.MOST_STEPS)] = 2
    momentum: Annotated[float, arguments.share] = 0.0

    def ready(self, view: View, inside: Tensor) -> Tensor:
        known = view.memory.get("best", torch.zeros_like(view.tokens)) > 0
        before = view.memory.get("mean", torch.zeros_like(view.confidence))
        mean = torch.where(known, self.momentum * before + (1 - self.momentum) * view.confidence, view.confidence)
        view.memory["mean"] = mean
        return (agreement(view) >= self.agree) & at_least(view, mean, self.threshold)

    def scores(self, view: View) -> Tensor:
        mean: Tensor = view.memory["mean"]
        return mean


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

    def ready(self, view: View, inside: Tensor) -> Tensor:
        sure = above(view, view.confidence, self.threshold)
        if self.history == 0:
            return sure
        lowest = self.threshold - (self.history - 1) * math.sqrt(self.kl / 2)
        calm = divergence(view, inside & (view.confidence >= lowest)) < self.kl
        stable = view.memory.get("stable", torch.zeros_like(view.tokens))
        view.memory["stable"] = stable = torch.where(calm, stable + 1, 0)
        return sure & (stable >= self.history)


# ---------------------------------------------------------------------------------------------------------- windows


@SAMPLERS.register("deferred")
@dataclass(frozen=True)
class Deferred(Adaptive):
    """Deferred commitment: a threshold in a window that slides from the first hidden position.

    The window is as long as possible with at most `window` hidden positions and at most `longest` positions. When its
    first position is revealed, it slides on, so uncertain positions at its end wait for context; a block would have to
    fill them. The paper also extends blocks at low confidence, for models that use blocks; this is left out."""

    threshold: Fraction = 0.9
    window: Some = 16
    longest: Some = 64

    def places(self, view: View) -> tuple[Tensor, Tensor]:
        place = torch.arange(view.hidden.shape[1])
        first = view.hidden.int().argmax(1, keepdim=True)
        inside = view.hidden & (view.hidden.cumsum(1) <= self.window) & (place < first + self.longest)
        return inside, inside

    def ready(self, view: View, inside: Tensor) -> Tensor:
        return at_least(view, view.confidence, self.threshold)


@SAMPLERS.register("multi-block")
@dataclass(frozen=True)
class MultiBlock(Adaptive):
    """d3LLM, D2F: several active blocks, with one entropy threshold for all of them.

    Blocks of fixed length become active from the left: the next one when at least a fraction `join` of the newest is
    revealed, or when it is full; one per step. In the first unfinished block the most confident position is revealed if
    none there is below the threshold. The published code reveals the most confident position of all active blocks in
    any case, because its loop over the threshold skips the first index (published=True). It also marks a block when
    most of the one before is revealed, but always continues with the first unfinished block; so without its cache the
    mark changes nothing."""

    threshold: Nats = 0.5
    block_length: Some = 32
    join: Fraction = 0.1
    published: Flag = False

    def places(self, view: View) -> tuple[Tensor, Tensor]:
        here = view.hidden | view.revealed
        block = torch.where(here, (here.cumsum(1) - 1) // self.block_length, -1)
        active = view.memory.get("active", torch.zeros((len(here), 1), dtype=torch.int64)).clamp(min=1)
        newest = block == active - 1  # of the active blocks
        fraction = (newest & view.revealed).sum(1, keepdim=True) / newest.sum(1, keepdim=True).clamp(min=1)
        full = ~(newest & view.hidden).any(1, keepdim=True)
        view.memory["active"] = active = active + ((fraction >= self.join) | full)
        first = torch.where(view.hidden, block, len(block[0])).amin(1, keepdim=True)
        return view.hidden & (block < active), view.hidden & (block == first)

    def ready(self, view: View, inside: Tensor) -> Tensor:
        certain = ~above(view, view.entropy, self.threshold)
        return certain | self.surest(view, inside, self.scores(view)) if self.published else certain

    def scores(self, view: View) -> Tensor:
        return -view.entropy
