"""Hidden Markov languages: z_1 ~ initial, x_t ~ emission[z_t], z_{t+1} ~ transition[z_t]; optional final weights.

Probability tables from users are checked: shape, finiteness, sign, row sums, tiny parameters.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, cut
from unmask.languages.base import LANGUAGES
from unmask.languages.kernels.machine import Floats, Machine, from_dense
from unmask.languages.machine import MachineLanguage

ROW_TOLERANCE, ROUNDING = 1e-9, 1e-12  # errors of a sum: larger ones are refused, smaller ones are ignored
SMALLEST = 1e-20  # below it, products of two messages could underflow, which would make possible tokens impossible


def table(name: str, values: ArrayLike | Any, shape: tuple[int | None, ...], normalise: bool = False) -> Floats:
    """A finite, nonnegative float64 array of this shape (None: any size) whose last axis sums to 1.

    Rows with an error between ROUNDING and ROW_TOLERANCE are divided by their sums.
    """
    array = weights(name, values, shape)
    if normalise:
        array = np.ldexp(array, -np.frexp(array.max(-1, keepdims=True))[1])  # exact, and no sum overflows

    rows = array.reshape(-1, array.shape[-1])
    sums = rows.sum(1)
    if normalise:
        if not (sums > 0).all():
            raise UnmaskError(f"{_row(name, array, int(np.argmin(sums)))} is zero everywhere; it cannot be normalized")
        return check_smallest(name, (rows / sums[:, None]).reshape(array.shape))

    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > ROW_TOLERANCE:
        raise UnmaskError(
            f"{_row(name, array, worst)} sums to {sums[worst]:.12g}",
            "expected 1",
            "Pass --normalise (or normalise=True) to divide each row by its sum, as float32 exports need.",
        )
    if (inexact := np.abs(sums - 1) > ROUNDING).any():  # an error of 1e-9 grows with every position of a sequence
        rows[inexact] /= sums[inexact, None]
    return check_smallest(name, array)


def weights(name: str, values: ArrayLike | Any, shape: tuple[int | None, ...]) -> Floats:
    """A finite, nonnegative float64 array of this shape."""
    try:
        entries = np.asarray(values)
        if entries.dtype.kind not in "iuf":
            raise TypeError("an entry is not a number")
        array = entries.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnmaskError(f"{name} is not a rectangular table of numbers: {cut(str(error))}") from error

    fits = array.ndim == len(shape) and all(e in (None, a) for e, a in zip(shape, array.shape, strict=True))
    if not fits or array.size == 0:
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise UnmaskError(f"{name} has shape {array.shape}; expected ({expected})")

    for bad, problem in ((~np.isfinite(array), "not a finite number"), (array < 0, "negative")):
        if bad.any():
            at = tuple(np.argwhere(bad)[0].tolist())
            raise UnmaskError(f"{name}{list(at)} is {array[at]:g}: {problem}")
    return array


def check_smallest(name: str, array: Floats) -> Floats:
    tiny = (array > 0) & (array < SMALLEST)
    if tiny.any():
        at = tuple(np.argwhere(tiny)[0].tolist())
        raise UnmaskError(f"{name}{list(at)} is {array[at]:g}; expected 0 or at least {SMALLEST:g}")
    return array


def _row(name: str, array: Floats, row: int) -> str:
    index = np.unravel_index(row, array.shape[:-1])
    return name if array.ndim == 1 else f"{name} row {', '.join(map(str, index))}"


@LANGUAGES.register("hmm")
class HMM(MachineLanguage):
    """q(x, z) ~ initial(z_1) prod transition(z_t, z_{t+1}) prod emission(z_t, x_t) final(z_L)     (theory.md 3)

    initial (S), transition (S, S), emission (S, V), final (S) or None: weights of the last state, if not every state
    can be last; every likelihood is then divided by Z_L. Likelihoods are exact up to rounding. So are posteriors
    (machine.py), unless later evidence leaves only paths below 1e-140 of the probability of another (kernels/messages).
    """

    kind: ClassVar[str] = "hmm"

    def __init__(
        self,
        initial: ArrayLike,
        transition: ArrayLike,
        emission: ArrayLike,
        final: ArrayLike | None = None,
        *,
        end: int | None = None,
        normalise: bool = False,
    ) -> None:
        self.initial = table("initial", initial, (None,), normalise)
        states = len(self.initial)
        self.transition = table("transition", transition, (states, states), normalise)
        self.emission = table("emission", emission, (states, None), normalise)

        self.final = None
        if final is not None:
            self.final = weights("final", final, (states,))
            if not self.final.any():
                raise UnmaskError("final is zero everywhere, so no sequence can end. Leave it out to allow every end.")
            check_smallest("final", self.final / np.max(self.final))
            if not self.final[_reachable(self.initial, self.transition)].any():
                raise UnmaskError("no path leads from initial to a state with positive final, so no sequence can end")

        self.vocabulary = self.emission.shape[1]
        if end is not None:
            self.end = arguments.whole("end", end, 0, self.vocabulary - 1)

    def build(self) -> Machine:
        final = None if self.final is None else self.final / np.max(self.final)
        return from_dense(self.initial, self.transition, self.emission, final)

    def parameters(self) -> dict[str, Any]:
        arrays = {"initial": self.initial, "transition": self.transition, "emission": self.emission}
        arrays |= entries.given({"final": self.final})
        return {name: np.asarray(array).tolist() for name, array in arrays.items()} | entries.given({"end": self.end})


def _reachable(initial: Floats, transition: Floats) -> NDArray[np.bool_]:
    """(S) whether some path visits each state."""
    reached = initial > 0
    while (grown := reached | (reached @ transition > 0)).sum() > reached.sum():
        reached = grown
    return reached
