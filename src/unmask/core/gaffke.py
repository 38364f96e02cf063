"""Gaffke's bound on a mean: what n samples within [0, 1] say of it, without an assumption on their law.

With x_(1) .. x_(n) the samples and D ~ Dirichlet(1, .., 1) of n+1 parts, the (1-alpha)-quantile of

    D_1 x_1 + .. + D_n x_n + D_(n+1) 1

is at least the mean with probability 1 - alpha: the last part stands for what was not seen. Of samples that are 0 or 1
this is Clopper and Pearson's bound, which is proven; for others it is Gaffke's conjecture (2005), which nobody has
found to fail, and neither has tests/core/test_coverage.py. For large n it is as narrow as a normal interval; the
bounds that are proven (Hoeffding's, or by betting) are wider by 1.4 there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]

MOST = 1.0  # how far the contour bends
NODES = 80  # of the contour
REACH = 10.0  # its end, where the integrand of even one sample has fallen below e^-20 of its height


def ends(values: Floats, counts: Floats, tail: float) -> tuple[float, float]:
    """The lower and upper bound, each missed with `tail`; values in [0, 1] (K), all different, and their counts."""
    shapes = np.append(counts, 1.0)
    return _end(np.append(values, 0.0), shapes, tail, -1), _end(np.append(values, 1.0), shapes, tail, 1)


def _end(atoms: Floats, shapes: Floats, tail: float, side: int) -> float:
    """t where P(side sum_k D_k atoms_k > side t) is `tail`."""
    from scipy.optimize import brentq

    last = float(atoms[-1])
    if (atoms == last).all():
        return last

    def excess(t: float) -> float:
        return float(np.log(max(exceeds(side * (atoms - t), shapes), 1e-12) / tail))

    expected = float(atoms @ shapes / shapes.sum())
    return float(brentq(excess, expected, last - side * 1e-13, xtol=1e-15, rtol=1e-11))


def exceeds(gains: Floats, shapes: Floats) -> float:
    """P(sum_k gains_k G_k > 0) of independent G_k ~ Gamma(shapes_k), where the sum is expected at or below 0.

    The inverse Laplace transform (1/2 pi i) int e^K(s) ds / s, K(s) = -sum_k shapes_k log(1 - gains_k s), along a
    hyperbola s = saddle + w (bend (cosh u - 1) + i sinh u) that leaves the saddle point where the integrand falls
    fastest: the third derivative gives the side. Many values of tiny gain let the integrand rise again far from there;
    the straight line, bend = 0, on which each factor falls, then has the smaller sum of moduli, and is taken.
    """
    from scipy.optimize import brentq

    pole = 1 / gains.max()

    def slope(x: float) -> float:
        return float((shapes * gains / (1 - gains * x * pole)).sum() - 1 / (x * pole))

    saddle = brentq(slope, 1e-15, 1 - 1e-12, rtol=1e-6) * pole  # any line near it will do
    steep = gains / (1 - gains * saddle)
    second = float((shapes * steep**2).sum()) + saddle**-2
    third = 2 * float((shapes * steep**3).sum()) - 2 * saddle**-3
    width = second**-0.5
    bend = min(max(third * width / (3 * second), -MOST), MOST)
    straight, bent = (_along(gains, shapes, saddle, width, each) for each in (0.0, bend))
    best = bent if np.abs(bent).sum() < np.abs(straight).sum() else straight  # also where the bent sum overflows
    return float(best.real.sum() / np.pi)


def _along(gains: Floats, shapes: Floats, saddle: float, width: float, bend: float) -> Complex:
    """The terms of the sum over the nodes of a contour."""
    u = np.linspace(0, REACH, NODES)
    points = saddle + width * (bend * (np.cosh(u) - 1) + 1j * np.sinh(u))
    steps = width * (np.cosh(u) - 1j * bend * np.sinh(u)) * (u[1] - u[0])
    steps[0] /= 2
    real, imaginary = 1 - np.outer(points.real, gains), -np.outer(points.imag, gains)  # a complex log is slow
    heights = -np.log(real**2 + imaginary**2) @ shapes / 2 - 1j * (np.arctan2(imaginary, real) @ shapes)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.exp(heights - np.log(points)) * steps
