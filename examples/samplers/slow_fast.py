"""SlowFast sampling (arXiv 2506.10848 v3): find where confidence ends, then fill the span up to there.

A row goes through cycles, each from the end of the last one, position s of its block:

    slow  for at most `slow_steps` steps, estimate the end of the cycle: one after the farthest hidden position with a
          confidence of at least `explore`, or else s + 1. When the last `window` estimates have a standard deviation
          below `spread`, the last one is the end; after `slow_steps` steps it is their mean, rounded down
    fast  steps between s and the end, until no position is hidden there

Every step, slow or fast, reveals all hidden positions with a confidence of at least `sure` if these are two or more,
otherwise the most confident one. It chooses from s on in the slow phase, within the cycle in the fast one. The text
ends the slow phase when the end is found; the published code completes all `slow_steps`, with the first end
(published=True). From the second fast call of a cycle on, the code cuts the canvas after the cycle, so the network
cannot read later tokens; here it reads all of them.

Tokens are drawn after the choice; the paper's temperature is 0. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers import Choice, ChoosesFirst, View, chosen


@dataclass(frozen=True)
class SlowFast(ChoosesFirst):
    """SlowFast: find how far confidence reaches, then fill that span; steps are not used."""

    pace = "free"
    sure: float = 0.9
    explore: float = 0.3
    slow_steps: int = 6
    window: int = 2
    spread: float = 1.0
    published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sure", "explore"):
            arguments.number(name, getattr(self, name), most=1.0)
        for name in ("slow_steps", "window"):
            arguments.whole(name, getattr(self, name), 1, arguments.FEW)
        arguments.number("spread", self.spread)

    def choose(self, view: View) -> Choice:
        here = view.hidden | view.revealed
        place = torch.arange(here.shape[1]) - here.int().argmax(1, keepdim=True)  # (B, L) within the block
        start, end, fast = self._begin(view, place)
        among = view.hidden & (~fast | (place < end))
        reached = among & (view.confidence >= self.explore - view.resolution)
        far = torch.where(reached, place + 1, 0).amax(1, keepdim=True)
        size = torch.where(here, place + 1, 0).amax(1, keepdim=True)
        self._explore(view, torch.minimum(torch.where(far > 0, far, start + 1), size), ~fast)
        sure = among & (view.confidence >= self.sure - view.resolution)
        several = sure.sum(1, keepdim=True) > 1
        reveal = torch.where(several, sure, self.surest(view, among, view.confidence))
        return chosen(view, reveal, self.temperature)

    def _begin(self, view: View, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, 1) each: start of the cycle, its end (0 if unknown), and whether it is in its fast phase.

        A full cycle is followed by the next one."""
        none = torch.zeros((len(place), 1), dtype=torch.int64)
        start, end, turns = (view.memory.get(name, none) for name in ("start", "end", "turns"))
        fast = (end > 0) & ((turns >= self.slow_steps) | (not self.published))
        full = fast & ~(view.hidden & (place < end)).any(1, keepdim=True)
        start, end, turns = torch.where(full, end, start), torch.where(full, 0, end), torch.where(full, 0, turns)
        view.memory.update({"start": start, "end": end, "turns": turns})
        return start, end, fast & ~full

    def _explore(self, view: View, reach: Tensor, slow: Tensor) -> None:
        """Record one more estimate of the end, reach (B, 1), for rows in the slow phase, Bool (B, 1)."""
        reaches = view.memory.get("reaches", torch.zeros((len(reach), self.window), dtype=torch.int64))
        reaches = torch.where(slow, torch.cat([reaches[:, 1:], reach], 1), reaches)
        turns, end = view.memory["turns"] + slow, view.memory["end"]
        known = turns.clamp(max=self.window)  # number of reaches in this cycle, the last ones
        steady = (turns >= self.window) & (reaches.double().std(1, correction=0, keepdim=True) < self.spread)
        recent = torch.arange(self.window) >= self.window - known
        mean = (torch.where(recent, reaches, 0).sum(1, keepdim=True)) // known.clamp(min=1)
        estimate = torch.where(steady, reach, torch.where(turns >= self.slow_steps, mean, 0))
        view.memory.update({"reaches": reaches, "turns": turns, "end": torch.where(slow & (end == 0), estimate, end)})
