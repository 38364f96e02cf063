"""Hidden Markov languages: z_1 ~ initial, x_t ~ emission[z_t], z_{t+1} ~ transition[z_t]; an optional good end."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from unmask.errors import UnmaskError
from unmask.exact.machine import Machine, from_dense
from unmask.languages.base import MachineLanguage
from unmask.languages.tables import table, weights


class HMM(MachineLanguage):
    """q(x, z) ~ initial(z_1) prod transition(z_t, z_{t+1}) prod emission(z_t, x_t) final(z_L)     (theory.md 3)

    initial (S), transition (S, S), emission (S, V), final (S) or None: weights at the last position, for languages
    that must end well; then every likelihood is divided by Z_L.
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
            raise UnmaskError("final is zero everywhere: no sequence could end; leave it out to allow every end")
        self.vocabulary = self.emission.shape[1]
        self.names = names
        self.end = end

    def build(self) -> Machine:
        final = None if self.final is None else self.final / self.final.max()
        return from_dense(self.initial, self.transition, self.emission, final)

    def parameters(self) -> dict[str, Any]:
        arrays = {"initial": self.initial, "transition": self.transition, "emission": self.emission}
        if self.final is not None:
            arrays["final"] = self.final
        content: dict[str, Any] = {name: np.asarray(array).tolist() for name, array in arrays.items()}
        return content | ({} if self.end is None else {"end": self.end})
