"""P2, path planning (arXiv 2502.03540, and the code of its authors): a planner decides what stands after each round.

With D positions to fill and kappa of the schedule done after a round, draw a token z_j for every hidden position, let
the planner score all of them, drawn and standing, and let the D - floor((1 - kappa) D) best stand: others are hidden,
also those that stood. What was given is never asked about.

    planner    score of z_j
    self       log p(z_j | x_R) where it is hidden; eta log p(x_j | x_(R - j)) where it stands: P2's own
    language   log q(z_j | all other z): that of the language itself, over what would stand if all of it did, times eta
               where it stands. What a planner that is another network learns at best; it costs no evaluation. Only for
               a denoiser with a language.
    noise      log P(z_j is no noise): DDPD's (arXiv 2410.06264) for tokens of which half are uniform, that is
               q / (q + 1 / V) of the same q; a probability, so that eta weighs both alike
    or a function of (view, z) that returns scores (B, L), -inf for what shall not stand if anything else may

eta weighs what stands: at 0 it stays (MaskGIT's rule), at 1 both are alike, above it is hidden rather than what is new.
The published code scores a fresh draw also where a token stands, by a network that sees that token; here it is the
token itself, given the others. Its planner, where it has one, scores only what stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Stream
from unmask.core.errors import UnmaskError, shown
from unmask.denoisers.canvas import Canvas, by_length
from unmask.ideal import Ideal
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.ranking import check_ranking, ranks
from unmask.samplers.view import View

PLANNERS = ("self", "language", "noise")
LEAST = 1e-300  # of a probability whose logarithm is taken
NEAR = 1e-9  # of a whole number of positions


@SAMPLERS.register("p2")
@dataclass(frozen=True)
class PathPlanning(Sampler):
    """P2: a planner scores what is drawn and what stands, and the best of both stand after each round."""

    pace = "rounds"
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
        ours = view.hidden | view.revealed
        scores = torch.where(view.revealed, self.eta, 1.0) * self._scores(view, whole)
        number = ours.sum(1)
        stand = number - ((1 - view.alpha_next) * number + NEAR).floor().long()
        luck = view.luck(Stream.TIE) if self.ties == "chance" else None
        kept = ours & (ranks(scores, ours, luck, view.resolution) < stand.unsqueeze(1))
        return Choice(view.hidden & kept, tokens, hide=view.revealed & ~kept)

    def _scores(self, view: View, whole: Tensor) -> Tensor:
        if callable(self.planner):
            scores = self.planner(view, whole)
            if not isinstance(scores, Tensor) or scores.shape != whole.shape or bool(scores.isnan().any()):
                raise UnmaskError(f"the planner of p2 answers {shown(scores)}; expected scores {tuple(whole.shape)}")
            return scores.double()
        if self.planner == "self":
            said = torch.where(view.hidden, view.of(whole), view.looking_back().of(whole))
        else:
            said = _given_the_others(view, whole)
        if self.planner == "noise":
            said = said / (said + 1 / view.canvas.vocabulary)
        return said.clamp(min=LEAST).log()


def _given_the_others(view: View, whole: Tensor) -> Tensor:
    """(B, L) q(z_j | all other z) of rows that are going, by the language; 0 elsewhere."""
    denoiser = view.canvas.denoiser
    if denoiser.language is None:
        what = f"the planner of a language asks the language; {denoiser.name} has none"
        raise UnmaskError(f"{what}. Give planner=self, or a function of (view, tokens)")
    ours, said = view.hidden | view.revealed, torch.zeros(whole.shape, dtype=torch.float64)
    for size, rows in by_length(view.canvas.lengths):
        rows = rows[ours[rows].any(1)]
        row, position = ours[rows, :size].nonzero(as_tuple=True)
        drafted = whole[rows, :size].clone()
        others = Canvas(Ideal(denoiser.language), drafted, view.canvas.luck).around(row, position)
        said[rows[row], position] = others.of(drafted[row, position])
    return said
