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

P2, path planning (arXiv 2502.03540, and the authors' code): a planner chooses the tokens kept after each step.

Draw a token z_j for every hidden position, and let the planner score all drawn and revealed tokens. Of D positions to
fill, with kappa of the schedule done after the step, keep the D - floor((1 - kappa) D) best. Hide the others, also
revealed ones. Given tokens are never scored.

    planner    score of z_j
    self       log p(z_j | x_R) where it is hidden; eta log p(x_j | x_(R - j)) where it is revealed: P2's own
    or a function of (view, z) that returns scores (B, L), -inf for tokens to keep only if nothing else is left, such as
    log q(z_j | all other z) of a language, the optimum for a separate planner network

eta weighs revealed tokens: at 0 they stay (MaskGIT's rule), at 1 both are equal, above 1 they are hidden before new
ones. The published code scores a new draw also at revealed positions, by a network that reads the token there; here the
score is that of the token itself, given the others. Its planner network, if any, scores only revealed tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.core.errors import UnmaskError, shown
from unmask.samplers.contract import SAMPLERS, Choice, Fraction, Sampler
from unmask.samplers.ranking import Temperature, Ties, ranks
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
            problem = f"strategy is {self.strategy} with published=True"
            raise UnmaskError(f"{problem}; expected loop, the only strategy that published changes")

    @property
    def revises(self) -> bool:
        return True

    @property
    def chooses_before_drawing(self) -> bool:
        return self.nucleus == 1

    def choose(self, view: View) -> Choice:
        t = 1 - (view.step - 1).unsqueeze(1).double() / view.steps.unsqueeze(1)  # (B, 1)
        s = 1 - view.step.unsqueeze(1).double() / view.steps.unsqueeze(1)
        before = view.alpha.unsqueeze(1)
        after = view.alpha_next.unsqueeze(1)
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
        rows, positions = (place[chosen] for place in view.places)
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
        start = [self._rising(x) for x in (t, s)]
        ending = [1 - (1 - self.alpha_on) * x / self.t_off for x in (t, s)]
        level = torch.full_like(t, self.alpha_on)
        lines = zip(start, ending, strict=True)
        before, after = (torch.where(t > self.t_on, up, torch.where(t <= self.t_off, end, level)) for up, end in lines)
        return before, torch.where(s < DONE, 1.0, after.clamp(max=1.0))

    def _rising(self, t: Tensor) -> Tensor:
        """The line of alpha before t_on."""
        return self.alpha_on * (1 - t) / (1 - self.t_on) if self.t_on < 1 else t

    def _loop(self, t: Tensor) -> Tensor:
        ending = 1 - (1 - self.alpha_on) * t / self.t_off
        return torch.where(t > self.t_on, self._rising(t), torch.where(t < self.t_off, ending, self.alpha_on))


LEAST = 1e-300  # of a probability whose logarithm is taken
NEAR = 1e-9  # of a whole number of positions


@SAMPLERS.register("p2")
@dataclass(frozen=True)
class PathPlanning(Sampler):
    """P2: a planner scores drawn and revealed tokens, and the best of both are kept after each step."""

    pace = "steps"
    revises = True
    planner: str | Callable[[View, Tensor], Tensor] = "self"
    eta: Annotated[float, arguments.number] = 1.0
    temperature: Temperature = 1.0
    ties: Ties = "chance"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.planner):
            arguments.word("planner", self.planner, ("self",))

    def choose(self, view: View) -> Choice:
        tokens = view.draw(self.temperature)
        whole = torch.where(view.hidden, tokens, view.tokens)
        editable = view.hidden | view.revealed
        scores = torch.where(view.revealed, self.eta, 1.0) * self._scores(view, whole)
        count = editable.sum(1)
        stay = count - ((1 - view.alpha_next) * count + NEAR).floor().long()
        rng = view.rng(Stream.TIE) if self.ties == "chance" else None
        best = editable & (ranks(scores, editable, rng, view.resolution) < stay.unsqueeze(1))
        return Choice(view.hidden & best, tokens, hide=view.revealed & ~best)

    def _scores(self, view: View, whole: Tensor) -> Tensor:
        if callable(self.planner):
            scores = self.planner(view, whole)
            if not isinstance(scores, Tensor) or scores.shape != whole.shape or bool(scores.isnan().any()):
                raise UnmaskError(f"the planner of p2 returns {shown(scores)}; expected scores {tuple(whole.shape)}")
            return scores.double()
        p = torch.where(view.hidden, view.of(whole), view.looking_back().of(whole))
        return p.clamp(min=LEAST).log()
