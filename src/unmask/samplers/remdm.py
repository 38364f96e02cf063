"""ReMDM (Wang et al., arXiv 2503.00307; theory.md 10): what is revealed may be hidden again and drawn anew.

From t to s, with sigma in [0, sigma_max], sigma_max = min(1, (1 - alpha_s) / alpha_t):

    revealed:  hidden again with probability sigma
    hidden:    token v with probability (alpha_s - (1 - sigma) alpha_t) / (1 - alpha_t) p(v), else it stays hidden

which keeps the marginals q(z_s | x): a position is revealed after each round with probability alpha_s, whatever sigma.

    cap      sigma = min(eta, sigma_max)
    rescale  sigma = eta sigma_max
    switch   cap, but sigma = 0 before t = t_switch
    loop     alpha rises to alpha_on at t_on without remasking, stays there with cap until t_off, then rises to 1
    conf     sigma_i = eta_i sigma_max, eta = softmax of -psi over the revealed, psi_i the probability that i had when
             it was revealed; as published sigma is 0 for the hidden, so that up to one position a round more is hidden
             than alpha says, until the last round

t goes from 1 to 0 in N equal rounds. `loop` has an alpha of its own, in straight lines. Each row is evaluated again in
every round that changes it, and remasking changes nearly all.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.view import View

STRATEGIES = ("cap", "rescale", "switch", "loop", "conf")
DONE = 1e-9


@SAMPLERS.register("remdm")
@dataclass(frozen=True)
class ReMDM(Sampler):
    """Ancestral sampling that hides some of what it has revealed, and draws it again."""

    pace = "rounds"
    strategy: str = "cap"
    eta: float = 0.04
    t_switch: float = 0.55
    t_on: float = 0.55
    t_off: float = 0.05
    alpha_on: float = 0.9

    def __post_init__(self) -> None:
        arguments.word("strategy", self.strategy, STRATEGIES)
        for name in ("eta", "t_switch", "alpha_on", "t_on"):
            arguments.number(name, getattr(self, name), most=1.0)
        arguments.number("t_off", self.t_off, least=1e-9, most=self.t_on)

    def choose(self, view: View) -> Choice:
        t, s = (1 - k.unsqueeze(1).double() / view.rounds.unsqueeze(1) for k in (view.round - 1, view.round))  # (B, 1)
        before, after = view.alpha.unsqueeze(1), view.alpha_next.unsqueeze(1)
        if self.strategy == "loop":
            before, after = self._loop(t), self._loop(s)
        after = torch.where(after > 1 - DONE, 1.0, after)
        most = torch.where(before > 0, ((1 - after) / before).clamp(max=1.0), 1.0)
        sigma = self._sigma(most, t, s)
        luck = view.luck(Stream.ACCEPT)
        if self.strategy == "conf":
            hide, sigma = luck < sigma * _softmax(-view.certainty, view.revealed), torch.zeros_like(sigma)
        else:
            hide = luck < sigma
        rate = torch.where(after < 1, (after - (1 - sigma) * before) / (1 - before), 1.0)
        return Choice(view.hidden & (luck < rate), hide=view.revealed & hide)

    def _sigma(self, most: Tensor, t: Tensor, s: Tensor) -> Tensor:
        cap = most.clamp(max=self.eta)
        match self.strategy:
            case "conf":
                return most
            case "rescale":
                return self.eta * most
            case "switch":
                return torch.where(t > self.t_switch, 0.0, cap)
            case "loop":
                return torch.where((t > self.t_on) | (s < self.t_off), 0.0, cap)
        return cap

    def _loop(self, t: Tensor) -> Tensor:
        rising = self.alpha_on * (1 - t) / (1 - self.t_on) if self.t_on < 1 else t
        ending = 1 - (1 - self.alpha_on) * t / self.t_off
        return torch.where(t > self.t_on, rising, torch.where(t < self.t_off, ending, self.alpha_on))


def _softmax(scores: Tensor, among: Tensor) -> Tensor:
    """Softmax along each row over the positions among which it is asked; 0 elsewhere."""
    return torch.where(among, scores, -torch.inf).softmax(-1).nan_to_num(0.0)
