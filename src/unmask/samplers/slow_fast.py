"""SlowFast sampling (arXiv 2506.10848 v3): look where confidence ends, then fill up to there at once.

A row goes through cycles, each beginning where the last one ended, at position s of its block:

    slow  for at most `rounds` rounds, the end of the cycle is reckoned: one behind the farthest hidden position whose
          confidence is at least `explore`, s + 1 where there is none. Once the last `window` of these have a standard
          deviation below `spread` the last of them is the end; after `rounds` rounds it is their mean, rounded down
    fast  rounds between s and the end, until nothing is hidden there

Every round, slow or fast, reveals all hidden positions whose confidence is at least `sure` if these are two or more,
and the surest one if not: in the slow phase from s on, in the fast one within the cycle. The text ends the slow phase
when the end is found; the published code stays in it for all of `rounds`, with the end that was found first
(published=True). From the second fast call of a cycle on the code cuts the canvas behind the cycle, so that the network
does not see what follows; here it sees all of it.

Tokens are drawn after the choice; the paper's temperature is 0. Steps and schedule are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.samplers.contract import SAMPLERS, Choice
from unmask.samplers.ranking import ChoosesFirst, chosen
from unmask.samplers.view import View


@SAMPLERS.register("slowfast")
@dataclass(frozen=True)
class SlowFast(ChoosesFirst):
    """SlowFast: explore how far confidence reaches, then fill that span; steps are not used."""

    pace = "free"
    sure: float = 0.9
    explore: float = 0.3
    rounds: int = 6
    window: int = 2
    spread: float = 1.0
    published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sure", "explore"):
            arguments.number(name, getattr(self, name), most=1.0)
        for name in ("rounds", "window"):
            arguments.whole(name, getattr(self, name), 1, arguments.FEW)
        arguments.number("spread", self.spread)

    def choose(self, view: View) -> Choice:
        here = view.hidden | view.revealed
        place = torch.arange(here.shape[1]) - here.int().argmax(1, keepdim=True)  # (B, L) within the block
        start, end, fast = self._begin(view, place)
        among = view.hidden & (~fast | (place < end))
        far = torch.where(among & (view.confidence >= self.explore - view.resolution), place + 1, 0).amax(
            1, keepdim=True
        )
        size = torch.where(here, place + 1, 0).amax(1, keepdim=True)
        self._explore(view, torch.minimum(torch.where(far > 0, far, start + 1), size), ~fast)
        sure = among & (view.confidence >= self.sure - view.resolution)
        several = sure.sum(1, keepdim=True) > 1
        reveal = torch.where(several, sure, self.surest(view, among, view.confidence))
        return chosen(view, reveal, self.temperature)

    def _begin(self, view: View, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, 1) where the cycle begins, where it ends, 0 while that is not found, and whether it is in its fast phase:
        of a cycle that is full the next one."""
        none = torch.zeros((len(place), 1), dtype=torch.int64)
        start, end, turns = (view.memory.get(name, none) for name in ("start", "end", "turns"))
        fast = (end > 0) & ((turns >= self.rounds) | (not self.published))
        full = fast & ~(view.hidden & (place < end)).any(1, keepdim=True)
        start, end, turns = torch.where(full, end, start), torch.where(full, 0, end), torch.where(full, 0, turns)
        view.memory.update({"start": start, "end": end, "turns": turns})
        return start, end, fast & ~full

    def _explore(self, view: View, reach: Tensor, slow: Tensor) -> None:
        """One more look of the rows in their slow phase, Bool (B, 1), which reckons the end (B, 1)."""
        seen = view.memory.get("seen", torch.zeros((len(reach), self.window), dtype=torch.int64))
        seen = torch.where(slow, torch.cat([seen[:, 1:], reach], 1), seen)
        turns, end = view.memory["turns"] + slow, view.memory["end"]
        known = turns.clamp(max=self.window)  # the last of `seen` are of this cycle
        steady = (turns >= self.window) & (seen.double().std(1, correction=0, keepdim=True) < self.spread)
        recent = torch.arange(self.window) >= self.window - known
        mean = (torch.where(recent, seen, 0).sum(1, keepdim=True)) // known.clamp(min=1)
        found = torch.where(steady, reach, torch.where(turns >= self.rounds, mean, 0))
        view.memory.update({"seen": seen, "turns": turns, "end": torch.where(slow & (end == 0), found, end)})
