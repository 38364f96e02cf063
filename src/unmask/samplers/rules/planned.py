"""P2, path planning (arXiv 2502.03540, and the authors' code): a planner chooses the tokens kept after each step.

Draw a token z_j for every hidden position, and let the planner score all drawn and revealed tokens. Of D positions to
fill, with kappa of the schedule done after the step, keep the D - floor((1 - kappa) D) best. Hide the others, also
revealed ones. Given tokens are never scored.

    planner    score of z_j
    self       log p(z_j | x_R) where it is hidden; eta log p(x_j | x_(R - j)) where it is revealed: P2's own
    language   log q(z_j | all other z), of the language itself with all drawn tokens in place, times eta for revealed
               tokens. This is the optimum for a separate planner network; it costs no model call. Only for a denoiser
               with a language.
    noise      log P(z_j is not noise): DDPD's (arXiv 2410.06264) for tokens of which half are uniform, that is
               q / (q + 1 / V) of the same q; a probability, so that eta weighs both equally
    or a function of (view, z) that returns scores (B, L), -inf for tokens to keep only if nothing else is left

eta weighs revealed tokens: at 0 they stay (MaskGIT's rule), at 1 both are equal, above 1 they are hidden before new
ones. The published code scores a new draw also at revealed positions, by a network that reads the token there; here the
score is that of the token itself, given the others. Its planner network, if any, scores only revealed tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.core.errors import UnmaskError, shown
from unmask.denoisers import Ideal
from unmask.denoisers.canvas import Canvas, by_length
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.ranking import check_ranking, ranks
from unmask.samplers.view import View

PLANNERS = ("self", "language", "noise")
LEAST = 1e-300  # of a probability whose logarithm is taken
NEAR = 1e-9  # of a whole number of positions


@SAMPLERS.register("p2")
@dataclass(frozen=True)
class PathPlanning(Sampler):
    """P2: a planner scores drawn and revealed tokens, and the best of both are kept after each step."""

    pace = "steps"
    revises = True
    planner: str | Callable[[View, Tensor], Tensor] = "self"
    eta: float = 1.0
    temperature: float = 1.0
    ties: str = "chance"

    def __post_init__(self) -> None:
        if not callable(self.planner):
            arguments.word("planner", self.planner, PLANNERS)
        arguments.number("eta", self.eta)
        check_ranking(self.temperature, self.ties)

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
        if self.planner == "self":
            p = torch.where(view.hidden, view.of(whole), view.looking_back().of(whole))
        else:
            p = _given_the_others(view, whole)
        if self.planner == "noise":
            p = p / (p + 1 / view.canvas.vocabulary)
        return p.clamp(min=LEAST).log()


def _given_the_others(view: View, whole: Tensor) -> Tensor:
    """(B, L) q(z_j | all other z) in rows that are active, by the language; 0 elsewhere."""
    denoiser = view.canvas.denoiser
    if denoiser.language is None:
        problem = f"the planner of p2 needs a language; {denoiser.name} has none"
        raise UnmaskError(f"{problem}. Pass planner=self, or a function of (view, tokens).")
    editable, out = view.hidden | view.revealed, torch.zeros(whole.shape, dtype=torch.float64)
    for size, rows in by_length(view.canvas.lengths):
        rows = rows[editable[rows].any(1)]
        row, position = editable[rows, :size].nonzero(as_tuple=True)
        drafted = whole[rows, :size].clone()
        marginals = Canvas(Ideal(denoiser.language), drafted, view.canvas.rng).around(row, position)
        out[rows[row], position] = marginals.of(drafted[row, position])
    return out
