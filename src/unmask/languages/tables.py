"""Checks of probability tables that come from outside: shape, finiteness, sign, row sums, tiny parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unmask.core.errors import UnmaskError, cut
from unmask.kernels.machine import Floats

ROW_TOLERANCE, ROUNDING = 1e-9, 1e-12  # of a sum: what is refused, and what is left as it is
SMALLEST = 1e-20  # below it, products over two messages could underflow and turn the possible into the impossible


def table(name: str, values: ArrayLike | Any, shape: tuple[int | None, ...], normalise: bool = False) -> Floats:
    """A finite, nonnegative float64 array of this shape (None: any size) whose last axis sums to 1.

    Rows that are off by less than ROW_TOLERANCE are divided by their sums, but for what is rounding.
    """
    array = weights(name, values, shape)
    if normalise:
        array = np.ldexp(array, -np.frexp(array.max(-1, keepdims=True))[1])  # exact, and no sum overflows
    rows = array.reshape(-1, array.shape[-1])
    sums = rows.sum(1)
    if normalise:
        if not (sums > 0).all():
            raise UnmaskError(f"{_row(name, array, int(np.argmin(sums)))} is zero everywhere; it cannot be normalised")
        return check_smallest(name, (rows / sums[:, None]).reshape(array.shape))
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > ROW_TOLERANCE:
        advice = "--normalise (or normalise=True) divides each row by its sum, as float32 exports need"
        raise UnmaskError(f"{_row(name, array, worst)} sums to {sums[worst]:.12g}, not 1; {advice}")
    if (wrong := np.abs(sums - 1) > ROUNDING).any():  # one in 10^9 grows with every place of a long sequence
        rows[wrong] /= sums[wrong, None]
    return check_smallest(name, array)


def weights(name: str, values: ArrayLike | Any, shape: tuple[int | None, ...]) -> Floats:
    """A finite, nonnegative float64 array of this shape."""
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "iuf":
            raise TypeError("it holds what is no number")
        array = found.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnmaskError(f"{name} is not a rectangular table of numbers: {cut(str(error))}") from error
    expected = "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
    fits = array.ndim == len(shape) and all(e in (None, a) for e, a in zip(shape, array.shape, strict=True))
    if not fits or array.size == 0:
        raise UnmaskError(f"{name} has shape {array.shape}; expected {expected}")
    for wrong, what in ((~np.isfinite(array), "not a finite number"), (array < 0, "negative")):
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise UnmaskError(f"{name}{list(at)} is {array[at]:g}: {what}")
    return array


def check_smallest(name: str, array: Floats) -> Floats:
    tiny = (array > 0) & (array < SMALLEST)
    if tiny.any():
        at = tuple(int(i) for i in np.argwhere(tiny)[0])
        raise UnmaskError(f"{name}{list(at)} is {array[at]:g}: below {SMALLEST:g}; make it zero, or larger")
    return array


def _row(name: str, array: Floats, row: int) -> str:
    index = np.unravel_index(row, array.shape[:-1])
    return name if array.ndim == 1 else f"{name} row {', '.join(str(int(i)) for i in index)}"
