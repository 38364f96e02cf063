"""Hidden Markov languages: z_1 ~ initial, x_t ~ emission[z_t], z_{t+1} ~ transition[z_t]; optional final weights."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.languages.base import LANGUAGES
from unmask.languages.kernels.machine import Floats, Machine, from_dense
from unmask.languages.machine import MachineLanguage
from unmask.languages.tables import check_smallest, table, weights


@LANGUAGES.register("hmm")
class HMM(MachineLanguage):
    """q(x, z) ~ initial(z_1) prod transition(z_t, z_{t+1}) prod emission(z_t, x_t) final(z_L)     (theory.md 3)

    initial (S), transition (S, S), emission (S, V), final (S) or None: weights of the last state, if not every state
    can be last; every likelihood is then divided by Z_L. Likelihoods are exact up to rounding. So are posteriors,
    unless later evidence leaves only paths below 1e-140 of the probability of another (kernels/messages).
    """

    kind: ClassVar[str] = "hmm"

    def __init__(
        self,
        initial: ArrayLike,
        transition: ArrayLike,
        emission: ArrayLike,
        final: ArrayLike | None = None,
        *,
        names: tuple[str, ...] | None = None,
        end: int | None = None,
        normalise: bool = False,
    ) -> None:
        self.initial = table("initial", initial, (None,), normalise)
        states = len(self.initial)
        self.transition = table("transition", transition, (states, states), normalise)
        self.emission = table("emission", emission, (states, None), normalise)
        self.final = None if final is None else weights("final", final, (states,))
        if self.final is not None and not self.final.any():
            raise UnmaskError("final is zero everywhere, so no sequence can end. Leave it out to allow every end.")
        if self.final is not None:
            check_smallest("final", self.final / np.max(self.final))
            if not self.final[_reachable(self.initial, self.transition)].any():
                raise UnmaskError("no path leads from initial to a state with positive final, so no sequence can end")
        self.vocabulary = self.emission.shape[1]
        self.end = None if end is None else arguments.whole("end", end, 0, self.vocabulary - 1)
        self.name_tokens(names)

    def build(self) -> Machine:
        final = None if self.final is None else self.final / np.max(self.final)
        return from_dense(self.initial, self.transition, self.emission, final)

    def parameters(self) -> dict[str, Any]:
        arrays = {"initial": self.initial, "transition": self.transition, "emission": self.emission}
        if self.final is not None:
            arrays["final"] = self.final
        content: dict[str, Any] = {name: np.asarray(array).tolist() for name, array in arrays.items()}
        return content | ({} if self.end is None else {"end": self.end})


def _reachable(initial: Floats, transition: Floats) -> NDArray[np.bool_]:
    """(S) whether some path visits each state."""
    reached = initial > 0
    while (grown := reached | (reached @ transition > 0)).sum() > reached.sum():
        reached = grown
    return reached
