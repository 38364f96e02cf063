"""The best order: the order of N steps with the least KL divergence, from the language (theory.md 7.3, 7.6).

KL(q || p_order) of a fixed order is the mean over x ~ q of the cost of drawing tokens independently in each step. The
best order of N steps has the least cost, so no random order of N steps has less (theory/best_orders.py). It is computed
where that is tractable: in first-order chains, as a shortest path over gaps, and in the interval language. It depends
on the positions of given tokens, but not on their values; inside blocks all other positions count as given. N is used,
the schedule is not.
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
    """The fixed order with the least KL in N steps, from the language itself: chains and intervals."""

    pace = "steps"
    distribution = "order"

    def choose(self, view: View) -> Choice:
        language = view.canvas.denoiser.language
        if language is None:
            problem = f"best-order needs a language; {view.canvas.denoiser.name} has none"
            raise UnmaskError(f"{problem}. Pass a language, or ideal.Ideal(language).")
        order = view.memory.setdefault("order", torch.zeros_like(view.tokens))
        begun = (view.step == 1) & view.hidden.any(1)
        for size, rows in by_length(view.canvas.lengths):
            rows = rows[begun[rows]]
            for steps in view.steps[rows].unique().tolist():
                these = rows[view.steps[rows] == steps]
                order[these, :size] = language.best_order(view.hidden[these, :size], steps)
        return Choice(view.hidden & (order == view.step.unsqueeze(1)))
