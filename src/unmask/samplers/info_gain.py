"""Info-Gain (arXiv 2602.18176): of several ways to spend a round, the one that leaves least in doubt.

A candidate is a set of as many positions as the schedule gives, with a token drawn at each. The first takes the surest
by max_v p(v); each of the others draws its tokens y and its set anew, without replacement by softmax(p(y) / noise).
Sets that came before are left out. Each candidate is looked at, counted as an evaluation of the row, and the one with
the most of

    J = IG - C,   C = sum of the entropies it takes,   IG = mean entropy of the hidden before - after

is carried out, the first of equal ones. Where a set takes all that is hidden nothing is asked. What is seen decides
which tokens stay, so that there is no law of tokens given their places. The papers' runs take 8 candidates; the code
can also commit whatever is above a threshold without looking, which is `threshold`, and not built in here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.ranking import check_ranking, in_order
from unmask.samplers.view import View


@SAMPLERS.register("info-gain")
@dataclass(frozen=True)
class InfoGain(Sampler):
    """Info-Gain: looks ahead at several candidates for a round, and takes the one that leaves least in doubt."""

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
        """(reveal, Bool (B, L), tokens (B, L)): the first by the surest, others by chance."""
        tokens = view.draw(self.temperature)
        scores = view.confidence if k == 0 else view.of(tokens.clamp(max=view.canvas.vocabulary - 1))
        if k:
            rows, positions = (torch.arange(size) for size in view.hidden.shape)
            visits = (view.turn * self.candidates + k).unsqueeze(1)
            luck = view.canvas.luck.uniform(Stream.ACCEPT, rows.unsqueeze(1), positions, visits)
            scores = scores - self.noise * (-luck.log()).log()
        return in_order(view, scores, self.ties) < torch.where(view.hidden, view.count.unsqueeze(1), 0), tokens

    def _gain(self, view: View, reveal: Tensor, tokens: Tensor, left: Tensor) -> Tensor:
        """(C, B): J of the candidates, but for what all of a row have in common; left, Bool (C, B, L), is what each
        leaves hidden, and nothing where it is not to be asked about."""
        entropy = view.entropy
        cost = (reveal * entropy).sum(2)
        which, rows, positions = left.nonzero(as_tuple=True)
        if not len(which):
            return -cost
        index, contexts = (which * len(entropy) + rows).unique_consecutive(return_inverse=True)
        asked, candidate = index % len(entropy), index // len(entropy)
        read = torch.where(reveal[candidate, asked], tokens[candidate, asked], view.tokens[asked])
        time = None
        if not view.canvas.time_free:
            here = (view.hidden | view.revealed).sum(1)[asked].clamp(min=1)
            time = left.sum(2)[candidate, asked].double() / here
        said = view.canvas.ask(read, asked, positions, time, contexts)
        after = torch.zeros(len(index), dtype=torch.float64).index_add_(0, contexts, said.entropy)
        mean = torch.zeros_like(cost)
        mean[candidate, asked] = after / contexts.bincount(minlength=len(index))
        return -cost - mean
