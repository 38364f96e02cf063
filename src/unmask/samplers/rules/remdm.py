"""ReMDM (Wang et al., arXiv 2503.00307; theory.md 10): revealed positions may be hidden again and redrawn.

From t to s, with sigma in [0, sigma_max], sigma_max = min(1, (1 - alpha_s) / alpha_t):

    revealed:  hidden again with probability sigma
    hidden:    token v with probability (alpha_s - (1 - sigma) alpha_t) / (1 - alpha_t) p(v), else it stays hidden

This keeps the marginals q(z_s | x): after each step a position is revealed with probability alpha_s, for any sigma.

    cap      sigma = min(eta, sigma_max)
    rescale  sigma = eta sigma_max
    switch   cap, but sigma = 0 before t = t_switch
    loop     alpha rises to alpha_on at t_on without remasking, stays there with cap until t_off, then rises to 1
    conf     sigma_i = eta_i sigma_max, eta = softmax of -psi over the revealed, psi_i the probability of i when it was
             revealed. As published, sigma is 0 for hidden positions, so until the last step up to one more position
             per step is hidden than alpha gives

t goes from 1 to 0 in N equal steps. `loop` has its own alpha, piecewise linear. Each step that changes a row needs a
model call for it, and with remasking nearly all steps do.

Two options follow the authors' published code:

    published  `loop` chooses its phase by t alone. A step that crosses t_on continues on the rising line, beyond
               alpha_on; the next steps hide and reveal as if alpha were alpha_on, including the one that crosses
               t_off; and the last phase begins on its own line. So alpha is not kept where a phase ends within a step,
               and the distribution differs, the more the fewer steps there are; where phases end with steps it is
               the same. Tokens still hidden after the last step are sampled; the published code takes the argmax.
    nucleus    draw from the most likely tokens whose probabilities sum to at most this, at least one; the token that
               crosses the limit is dropped. `top_p` of `generate` keeps it, as usual: at .9 and probabilities
               .5, .45, .05 this is one token against two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.core.errors import UnmaskError
from unmask.samplers.contract import SAMPLERS, Choice, Fraction, Sampler
from unmask.samplers.view import View

STRATEGIES = ("cap", "rescale", "switch", "loop", "conf")
DONE = 1e-9


@SAMPLERS.register("remdm")
@dataclass(frozen=True)
class ReMDM(Sampler):
    """Ancestral sampling that hides some revealed positions and draws them again."""

    pace = "steps"
    strategy: Annotated[str, partial(arguments.word, known=STRATEGIES)] = "cap"
    eta: Fraction = 0.04
    t_switch: Fraction = 0.55
    t_on: Fraction = 0.55
    t_off: float = 0.05
    alpha_on: Fraction = 0.9
    published: bool = False
    nucleus: Fraction = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.number("t_off", self.t_off, least=1e-9, most=self.t_on)
        if self.published and self.strategy != "loop":
            raise UnmaskError(
                f"strategy is {self.strategy} with published=True",
                "expected loop, the only strategy that published changes",
            )

    @property
    def revises(self) -> bool:
        return True

    @property
    def chooses_before_drawing(self) -> bool:
        return self.nucleus == 1

    def choose(self, view: View) -> Choice:
        t = 1 - (view.step - 1).unsqueeze(1).double() / view.steps.unsqueeze(1)  # (B, 1)
        s = 1 - view.step.unsqueeze(1).double() / view.steps.unsqueeze(1)
        before, after = view.alpha.unsqueeze(1), view.alpha_next.unsqueeze(1)
        if self.strategy == "loop" and self.published:
            before, after = self._by_its_code(t, s)
        elif self.strategy == "loop":
            before, after = self._loop(t), self._loop(s)
        after = torch.where(after > 1 - DONE, 1.0, after)

        most = torch.where(before > 0, ((1 - after) / before).clamp(max=1.0), 1.0)
        sigma = self._sigma(most, t, s)
        rng = view.rng(Stream.ACCEPT)
        hide = rng < sigma
        if self.strategy == "conf":
            doubts = torch.where(view.revealed, -view.certainty, -torch.inf).softmax(-1).nan_to_num(0.0)
            hide = rng < sigma * doubts
            sigma = torch.zeros_like(sigma)  # of hidden positions, as published

        rate = torch.where(after < 1, (after - (1 - sigma) * before) / (1 - before), 1.0)
        reveal = view.hidden & (rng < rate)
        return Choice(reveal, self._tokens(view, reveal), hide=view.revealed & hide)

    def _tokens(self, view: View, reveal: Tensor) -> Tensor | None:
        """(B, L) drawn from the published nucleus at revealed positions; None: draw from the marginals."""
        if self.nucleus == 1:
            return None
        chosen = reveal[view.places].nonzero().squeeze(1)
        rows, positions = view.places[0][chosen], view.places[1][chosen]
        tokens = torch.full(view.hidden.shape, view.canvas.vocabulary)
        if len(chosen):
            marginals = view.marginals[chosen].nucleus(self.nucleus)
            tokens[rows, positions] = view.canvas.draw(marginals, rows, positions)
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
        """alpha at t and at s, both on the line of t; at the end all is revealed."""
        level = torch.full_like(t, self.alpha_on)
        alphas = []
        for x in (t, s):
            ending = 1 - (1 - self.alpha_on) * x / self.t_off
            alphas.append(torch.where(t > self.t_on, self._rising(x), torch.where(t <= self.t_off, ending, level)))
        before, after = alphas
        return before, torch.where(s < DONE, 1.0, after.clamp(max=1.0))

    def _rising(self, t: Tensor) -> Tensor:
        """The line of alpha before t_on."""
        return self.alpha_on * (1 - t) / (1 - self.t_on) if self.t_on < 1 else t

    def _loop(self, t: Tensor) -> Tensor:
        ending = 1 - (1 - self.alpha_on) * t / self.t_off
        return torch.where(t > self.t_on, self._rising(t), torch.where(t < self.t_off, ending, self.alpha_on))
