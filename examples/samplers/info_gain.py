"""Info-Gain (arXiv 2602.18176): compare several candidates for a step, and take the one with the least entropy left.

A candidate is a set of positions, their number given by the schedule, with a token drawn at each. The first takes the
most confident by max_v p(v); each of the others draws its own tokens y, and its set without replacement by
softmax(p(y) / noise). Repeated sets are left out. Each candidate costs a model call for the row, and the step takes
the candidate with the largest

    J = IG - C,   C = sum of the entropies of its positions,   IG = mean entropy of the hidden before - after

or the first of equal ones. A set of all hidden positions needs no model call. These calls decide which tokens stay, so
the sampler claims no distribution. The paper's runs use 8 candidates; its code can also commit all positions above a
threshold without these calls; that is `threshold`, and not included here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.samplers import Choice, Sampler, View, check_ranking, in_order


@dataclass(frozen=True)
class InfoGain(Sampler):
    """Info-Gain: compares several candidates for a step by model calls, takes the one with the least entropy left."""

    candidates: int = 4
    noise: float = 0.1
    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        arguments.whole("candidates", self.candidates, 1, arguments.FEW)
        arguments.number("noise", self.noise, above=True)
        check_ranking(self.temperature, self.ties)

    def choose(self, view: View) -> Choice:
        sets, drawn = zip(*(self._candidate(view, k) for k in range(self.candidates)), strict=True)
        reveal, tokens = torch.stack(sets), torch.stack(drawn)  # (C, B, L) each
        new = torch.stack([~(reveal[:k] == reveal[k]).all(2).any(0) for k in range(self.candidates)])  # Bool (C, B)
        left = view.hidden & ~reveal
        gain = self._gain(view, reveal, tokens, left & (new.sum(0) > 1).view(1, -1, 1) & new.unsqueeze(2))
        gain = torch.where(new, torch.round(gain / view.resolution), -torch.inf)
        best, row = gain.argmax(0), torch.arange(len(view.hidden))
        return Choice(reveal[best, row], tokens[best, row])

    def _candidate(self, view: View, k: int) -> tuple[Tensor, Tensor]:
        """(reveal, Bool (B, L), tokens (B, L)): the most confident for k = 0, random otherwise."""
        tokens = view.draw(self.temperature)
        scores = view.confidence if k == 0 else view.of(tokens.clamp(max=view.canvas.vocabulary - 1))
        if k:
            rows, positions = (torch.arange(size) for size in view.hidden.shape)
            visits = (view.turn * self.candidates + k).unsqueeze(1)
            rng = view.canvas.rng.uniform(Stream.ACCEPT, rows.unsqueeze(1), positions, visits)
            scores = scores - self.noise * (-rng.log()).log()
        return in_order(view, scores, self.ties) < torch.where(view.hidden, view.count.unsqueeze(1), 0), tokens

    def _gain(self, view: View, reveal: Tensor, tokens: Tensor, left: Tensor) -> Tensor:
        """(C, B): J of the candidates, without terms that are equal in a row.

        left, Bool (C, B, L): positions that each candidate leaves hidden, nowhere if it needs no model call."""
        entropy = view.entropy
        cost = (reveal * entropy).sum(2)
        which, rows, positions = left.nonzero(as_tuple=True)
        if not len(which):
            return -cost
        index, contexts = (which * len(entropy) + rows).unique_consecutive(return_inverse=True)
        needed, candidate = index % len(entropy), index // len(entropy)
        read = torch.where(reveal[candidate, needed], tokens[candidate, needed], view.tokens[needed])
        time = None
        if not view.canvas.time_free:
            here = (view.hidden | view.revealed).sum(1)[needed].clamp(min=1)
            time = left.sum(2)[candidate, needed].double() / here
        marginals = view.canvas.ask(read, needed, positions, time, contexts)
        after = torch.zeros(len(index), dtype=torch.float64).index_add_(0, contexts, marginals.entropy)
        mean = torch.zeros_like(cost)
        mean[candidate, needed] = after / contexts.bincount(minlength=len(index))
        return -cost - mean
