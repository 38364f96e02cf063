"""Threshold and factor (Fast-dLLM, arXiv 2505.22618): reveal all confident positions in each step.

    threshold  reveal every position with max_v p(v) > threshold, and at least the `least` most confident. least above 1
               is SDAR's low_confidence_dynamic, and LLaDA2's loop, with block_length / least steps per block. `counts`
               has one least per step; its last entry applies to all later steps. Where the steps do not divide a
               block, their loops give the remainder to the first steps: counts=(2, 1, 1) with 3 steps per block of 4
    factor     with confidences c_(1) >= c_(2) >= .. reveal the n most confident, n the largest with
               (n+1)(1 - c_(n)) < factor, at least one. The published code reveals all hidden positions also where n
               would be one less than that, because its loop leaves its index at the last position in both cases. So
               it adds the last position however uncertain it is, and of two hidden positions it always reveals both
               (published=True). Its distribution differs by a total variation of .14 in a 2-gram of four positions at
               factor 1.3.

Tokens are drawn after the choice, at a temperature that the confidences do not use: the paper's is 0. Steps and
schedule are not used. The paper uses both inside blocks: blocks(block_length=32, inner=threshold).
"""

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.ranking import DrawsAfter, check_ranking, chosen, in_order
from unmask.samplers.view import View


@SAMPLERS.register("threshold")
@dataclass(frozen=True)
class Threshold(DrawsAfter):
    """Fast-dLLM: reveal all positions with confidence above a threshold; steps and schedule are not used."""

    pace = "free"
    threshold: float = 0.9
    temperature: float = 1.0
    ties: str = "chance"
    least: int = 1
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        arguments.number("threshold", self.threshold, most=1.0)
        arguments.whole("least", self.least, 1, arguments.MOST_LENGTH)
        for count in self.counts:
            arguments.whole("a number of counts", count, 1, arguments.MOST_LENGTH)
        if self.counts and self.least != 1:
            problem = f"least is {self.least} and counts is {self.counts}"
            raise UnmaskError(f"{problem}; expected one of the two. Leave least out.")
        check_ranking(self.temperature, self.ties)

    def choose(self, view: View) -> Choice:
        counts = torch.tensor(self.counts or (self.least,))
        least = counts[(view.step - 1).clamp(min=0, max=len(counts) - 1)].unsqueeze(1)
        first = in_order(view, view.confidence, self.ties) < least
        return chosen(view, view.hidden & ((view.confidence > self.threshold) | first), self.temperature)


@SAMPLERS.register("factor")
@dataclass(frozen=True)
class Factor(DrawsAfter):
    """Fast-dLLM: the n most confident, n the largest with (n+1)(1 - confidence) < factor; steps are not used."""

    pace = "free"
    factor: float = 1.0
    temperature: float = 1.0
    ties: str = "chance"
    published: bool = False

    def __post_init__(self) -> None:
        arguments.number("factor", self.factor)
        check_ranking(self.temperature, self.ties)

    def choose(self, view: View) -> Choice:
        place = in_order(view, view.confidence, self.ties)
        enough = (place + 2) * (1 - view.confidence) < self.factor  # a prefix: both factors grow with the rank
        reveal = view.hidden & (enough | (place == 0))
        if self.published:
            reveal |= view.hidden & (view.hidden.sum(1) - reveal.sum(1) == 1).unsqueeze(1)
        return chosen(view, reveal, self.temperature)
