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

Two things are another matter in the code that the authors have published, and both can be had:

    published  `loop` there tells its phases by t alone. A round that crosses t_on goes on along the rising line, beyond
               alpha_on; the next ones hide and reveal as if alpha_on stood there, also the one that crosses t_off; and
               the last phase begins where its own line is. So alpha is not kept where a phase ends within a round, and
               the law is another one, the more so the fewer rounds there are; where phases end with rounds it is the
               same. What is hidden after the last round is drawn in it, where the published code takes the likeliest.
    nucleus    tokens are drawn from the likeliest whose probabilities sum to no more than this, and from the first in
               any case: the one that crosses it is dropped. `top_p` of `generate` keeps it, as is usual; at .9 and
               probabilities of .5, .45, .05 that is the difference between one token and two.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.core.errors import UnmaskError
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
    published: bool = False
    nucleus: float = 1.0

    def __post_init__(self) -> None:
        arguments.word("strategy", self.strategy, STRATEGIES)
        for name in ("eta", "t_switch", "alpha_on", "t_on", "nucleus"):
            arguments.number(name, getattr(self, name), most=1.0)
        arguments.number("t_off", self.t_off, least=1e-9, most=self.t_on)
        if self.published and self.strategy != "loop":
            raise UnmaskError(f"published is about strategy loop, whose phases it changes; here it is {self.strategy}")

    @property
    def revises(self) -> bool:
        return True

    def choose(self, view: View) -> Choice:
        t, s = (1 - k.unsqueeze(1).double() / view.rounds.unsqueeze(1) for k in (view.round - 1, view.round))  # (B, 1)
        before, after = view.alpha.unsqueeze(1), view.alpha_next.unsqueeze(1)
        if self.strategy == "loop":
            before, after = self._by_its_code(t, s) if self.published else (self._loop(t), self._loop(s))
        after = torch.where(after > 1 - DONE, 1.0, after)
        most = torch.where(before > 0, ((1 - after) / before).clamp(max=1.0), 1.0)
        sigma = self._sigma(most, t, s)
        luck = view.luck(Stream.ACCEPT)
        if self.strategy == "conf":
            hide, sigma = luck < sigma * _softmax(-view.certainty, view.revealed), torch.zeros_like(sigma)
        else:
            hide = luck < sigma
        rate = torch.where(after < 1, (after - (1 - sigma) * before) / (1 - before), 1.0)
        reveal = view.hidden & (luck < rate)
        return Choice(reveal, self._tokens(view, reveal), hide=view.revealed & hide)

    def _tokens(self, view: View, reveal: Tensor) -> Tensor | None:
        """(B, L) drawn from the published nucleus where it reveals; None: from what the denoiser says."""
        if self.nucleus == 1:
            return None
        chosen = reveal[view.places].nonzero().squeeze(1)
        rows, positions = (place[chosen] for place in view.places)
        tokens = torch.full(view.hidden.shape, view.canvas.vocabulary)
        if len(chosen):
            said = view.marginals[chosen].nucleus(self.nucleus)
            tokens[rows, positions] = view.canvas.draw(said, rows, positions)
        return tokens

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
                late = t <= self.t_off if self.published else s < self.t_off
                return torch.where((t > self.t_on) | late, 0.0, cap)
        return cap

    def _by_its_code(self, t: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """alpha at t and at s, both on the line on which t is; at the end all is revealed."""
        rising = [self.alpha_on * (1 - x) / (1 - self.t_on) if self.t_on < 1 else x for x in (t, s)]
        ending = [1 - (1 - self.alpha_on) * x / self.t_off for x in (t, s)]
        held = torch.full_like(t, self.alpha_on)
        lines = zip(rising, ending, strict=True)
        found = [torch.where(t > self.t_on, up, torch.where(t <= self.t_off, end, held)) for up, end in lines]
        return found[0], torch.where(s < DONE, 1.0, found[1].clamp(max=1.0))

    def _loop(self, t: Tensor) -> Tensor:
        rising = self.alpha_on * (1 - t) / (1 - self.t_on) if self.t_on < 1 else t
        ending = 1 - (1 - self.alpha_on) * t / self.t_off
        return torch.where(t > self.t_on, rising, torch.where(t < self.t_off, ending, self.alpha_on))


def _softmax(scores: Tensor, among: Tensor) -> Tensor:
    """Softmax along each row over the positions among which it is asked; 0 elsewhere."""
    return torch.where(among, scores, -torch.inf).softmax(-1).nan_to_num(0.0)
