"""The best order: of all orders of N rounds the one that loses least, by the language itself (theory.md 7.3, 7.6).

KL(q || p_order) of a fixed order is its mean over x ~ q of what each round pays for drawing tokens apart, and of all
orders of N rounds some one pays least. No random order of N rounds can pay less on average, for a mean is no less than
the least (theory/best_orders.py). It is found where that is tractable: in first-order chains, as a shortest path over
gaps, and in the interval language. Which one it is depends on where tokens are given, and not on which they are; inside
blocks all that lies outside counts as given. The schedule is not used, N is.
"""

from dataclasses import dataclass

import torch

from unmask.core.errors import UnmaskError
from unmask.denoisers.canvas import by_length
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.view import View


@SAMPLERS.register("best-order")
@dataclass(frozen=True)
class BestOrder(Sampler):
    """The fixed order that loses least in N rounds, by the language itself: chains and intervals."""

    pace = "rounds"
    law = "order"

    def choose(self, view: View) -> Choice:
        language = view.canvas.denoiser.language
        if language is None:
            what = f"best-order asks a language for its best order; {view.canvas.denoiser.name} has none"
            raise UnmaskError(f"{what}. Give a language, or ideal.Ideal(language)")
        order = view.memory.setdefault("order", torch.zeros_like(view.tokens))
        begun = (view.round == 1) & view.hidden.any(1)
        for size, rows in by_length(view.canvas.lengths):
            rows = rows[begun[rows]]
            for rounds in view.rounds[rows].unique().tolist():
                these = rows[view.rounds[rows] == rounds]
                order[these, :size] = language.best_order(view.hidden[these, :size], rounds)
        return Choice(view.hidden & (order == view.round.unsqueeze(1)))
