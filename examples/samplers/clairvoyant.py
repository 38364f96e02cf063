"""The clairvoyant sampler: reveal independent positions together, from the left.

In each step reveal, from left to right, every hidden position that depends on no position already in the set by more
than gamma:

    I(X_i; X_j | x_R) <= gamma nats for every pair of the set, exactly, from the language itself

Marginals do not contain this, so a sampler that uses only marginals cannot do it. But it is not a bound for other
samplers: it takes the largest set in each step, while the best order may take distant, slightly dependent positions to
finish earlier. On the chain [[.9, .1], [.1, .9]] at L = 7 and gamma = .01 it needs 7 steps, and the order
3,2,3,1,3,2,3 loses nothing in 3. `theory.best_orders` has the limit for all samplers, and best-order reaches it.

In every language each pair is within gamma. The set is the largest if dependence falls with distance (if i < j < k and
X_i depends on X_k by more than gamma, so do X_i on X_j and X_j on X_k). Then the leftmost choice is optimal, by
exchanging the first element of any other set. At gamma = 0 pairs are independent, but three positions together need
not be. An impossible context has no dependence. Only for exact denoisers; steps and schedule are not used.
"""

from dataclasses import dataclass

import torch

from unmask import UnmaskError
from unmask.core import arguments
from unmask.samplers import Choice, Sampler, View

RESOLUTION = 1e-9


@dataclass(frozen=True)
class Clairvoyant(Sampler):
    """All positions that depend on each other by at most gamma nats, from the language itself; steps are not used."""

    pace = "free"
    distribution = "order"
    gamma: float = 0.01

    def __post_init__(self) -> None:
        arguments.number("gamma", self.gamma, what=" of nats")

    def choose(self, view: View) -> Choice:
        denoiser = view.canvas.denoiser
        if denoiser.language is None or not denoiser.ideal:
            problem = f"clairvoyant needs the exact denoiser of a language; the denoiser is {denoiser.name}"
            raise UnmaskError(f"{problem}. Pass a language, or ideal.Ideal(language).")
        reveal = torch.zeros_like(view.hidden)
        for size in view.canvas.lengths.unique().tolist():
            rows = (view.canvas.lengths == size).nonzero().squeeze(1)
            tokens, hidden = view.tokens[rows, :size], view.hidden[rows, :size]
            reveal[rows, :size] = denoiser.language.independent(tokens, hidden, self.gamma + RESOLUTION)
        return Choice(reveal)
