"""P2, path planning (arXiv 2502.03540, and the authors' code): a planner chooses the tokens kept after each step.

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
from typing import Annotated

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.ranking import Temperature, Ties, lowest
from unmask.samplers.view import View

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
        best = lowest(view, -scores, editable, stay, self.ties)
        return Choice(view.hidden & best, tokens, hide=view.revealed & ~best)

    def _scores(self, view: View, whole: Tensor) -> Tensor:
        if callable(self.planner):
            scores = self.planner(view, whole)
            if not isinstance(scores, Tensor) or scores.shape != whole.shape or bool(scores.isnan().any()):
                raise UnmaskError(f"the planner of p2 returns {shown(scores)}; expected scores {tuple(whole.shape)}")
            return scores.double()
        p = torch.where(view.hidden, view.of(whole), view.looking_back().of(whole))
        return p.clamp(min=LEAST).log()
