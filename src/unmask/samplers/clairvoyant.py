"""The clairvoyant sampler: reveal together, from the left, what does not depend on each other.

In each round reveal, from left to right, every hidden position that depends on none already taken by more than gamma:

    I(X_i; X_j | x_R) <= gamma nats for every pair of the set, exactly, by the language itself

Marginals do not show this, so no sampler that reads them alone can do it. It is no bound on what others can do, though:
it takes the most that it can in each round, and the best takes far-apart positions that depend a little, to be done
sooner. On the chain [[.9, .1], [.1, .9]] at L = 7 and gamma = .01 it needs 7 rounds, where the order 3,2,3,1,3,2,3
loses nothing in 3. What no choice can beat is `theory.best_orders`, and best-order follows its order. That every pair
is within gamma holds for every language. That no larger set would do holds where dependence falls with distance (if i <
j < k and X_i depends on X_k by more than gamma, so do X_i on X_j and X_j on X_k): then the leftmost choice, again and
again, is a largest set, by exchanging the first element of any other. At gamma = 0 pairs are independent, though three
positions together need not be. A context that is impossible has no dependence. Only for exact denoisers; steps and
schedule are not used.
"""

from dataclasses import dataclass

import torch

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.denoisers.canvas import by_length
from unmask.samplers.contract import SAMPLERS, Choice, Sampler
from unmask.samplers.view import View

RESOLUTION = 1e-9


@SAMPLERS.register("clairvoyant")
@dataclass(frozen=True)
class Clairvoyant(Sampler):
    """What does not depend on each other by more than gamma nats, by the language itself; steps are not used."""

    pace = "free"
    law = "order"
    gamma: float = 0.01

    def __post_init__(self) -> None:
        arguments.number("gamma", self.gamma, what=" of nats")

    def choose(self, view: View) -> Choice:
        denoiser = view.canvas.denoiser
        if denoiser.language is None or not denoiser.ideal:
            what = f"the clairvoyant sampler asks a language how its positions depend; {denoiser.name} is none"
            raise UnmaskError(f"{what}. Give a language, or ideal.Ideal(language)")
        reveal = torch.zeros_like(view.hidden)
        for size, rows in by_length(view.canvas.lengths):
            tokens, hidden = view.tokens[rows, :size], view.hidden[rows, :size]
            reveal[rows, :size] = denoiser.language.independent(tokens, hidden, self.gamma + RESOLUTION)
        return Choice(reveal)
