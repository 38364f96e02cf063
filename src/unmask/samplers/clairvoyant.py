"""The clairvoyant sampler: what any adaptive sampler could reach if it knew how positions depend on each other.

In each round reveal, from left to right, every hidden position that depends on none already taken by more than gamma:

    I(X_i; X_j | x_R) <= gamma nats for every pair of the set, exactly, by the language itself

Marginals do not show this, so no sampler that reads them alone can do it. That every pair is within gamma holds for
every language. That no larger set would do holds where dependence falls with distance (if i < j < k and X_i depends on
X_k by more than gamma, so do X_i on X_j and X_j on X_k): then the leftmost choice, again and again, is a largest set,
by exchanging the first element of any other. At gamma = 0 pairs are independent, though three positions together need
not be. A context that is impossible has no dependence. Only for exact denoisers; steps and schedule are not used.

The interval language has a closed form: two hidden places of one interval share one fair bit, ln 2 nats, whatever else
is revealed, and places of two intervals nothing.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.denoisers import Exact
from unmask.errors import UnmaskError
from unmask.exact import messages, pairs
from unmask.languages import Interval
from unmask.languages.base import MachineLanguage
from unmask.samplers import checks
from unmask.samplers.contract import SAMPLERS, Choice, Sampler, View

RESOLUTION = 1e-9


@SAMPLERS.register("clairvoyant")
@dataclass(frozen=True)
class Clairvoyant(Sampler):
    """The largest set without dependence above gamma nats, by the language itself; steps are not used."""

    pace = "free"
    law = "order"
    gamma: float = 0.01

    def __post_init__(self) -> None:
        checks.number("gamma", self.gamma, unit=" of nats")

    def choose(self, view: View) -> Choice:
        denoiser = view.canvas.denoiser
        if not isinstance(denoiser, Exact):
            what = (
                f"the clairvoyant sampler asks a language how its positions depend; {type(denoiser).__name__} is none"
            )
            raise UnmaskError(f"{what}. Give a language, or denoisers.Exact(language)")
        hidden = torch.zeros_like(view.canvas.hidden)
        hidden[:, view.window] = view.hidden
        if isinstance(denoiser.language, Interval):
            apart = self._of_intervals(denoiser.language.width, hidden)
        else:
            assert isinstance(denoiser.language, MachineLanguage)
            apart = self._of_machine(denoiser.language, view.canvas.tokens, hidden)
        return Choice(apart[:, view.window])

    def _of_intervals(self, width: int, hidden: Tensor) -> Tensor:
        if self.gamma + RESOLUTION >= math.log(2):
            return hidden
        padded = torch.nn.functional.pad(hidden, (0, -hidden.shape[1] % width)).unflatten(1, (-1, width))
        return (padded & (padded.cumsum(2) == 1)).flatten(1)[:, : hidden.shape[1]]

    def _of_machine(self, language: MachineLanguage, tokens: Tensor, hidden: Tensor) -> Tensor:
        rows = hidden.any(1)
        machine, read = language.machine, tokens[rows].numpy()
        forward = np.empty((*read.shape, machine.states))
        backward, chosen = np.empty_like(forward), np.zeros(read.shape, bool)
        messages.fill_rows(machine, read, forward, backward, np.empty(read.shape, bool))
        pairs.apart_rows(machine, read, forward, backward, hidden[rows].numpy(), self.gamma + RESOLUTION, chosen)
        apart = torch.zeros_like(hidden)
        apart[rows] = torch.from_numpy(chosen)
        return apart
