"""Gaffke's bound on a mean from n samples in [0, 1], without an assumption on their distribution.

With x_(1) .. x_(n) the samples and D ~ Dirichlet(1, .., 1) of n+1 parts, the (1-alpha)-quantile of

    D_1 x_1 + .. + D_n x_n + D_(n+1) 1

is at least the mean with probability 1 - alpha: the last part is of the values that did not occur. For samples that
are 0 or 1 this is Clopper and Pearson's bound, which is proven. For other samples it is Gaffke's conjecture (2005): no
counterexample is known, and tests/core/test_coverage.py finds none. For large n it is as narrow as a normal interval;
proven bounds (Hoeffding's, or by betting) are 1.4 times as wide.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]

MOST = 1.0  # largest bend of the contour
NODES = 80  # of the contour
REACH = 10.0  # end of the contour: the integrand of even one sample has fallen below e^-20 of its height


def gaffke_end(values: Floats, counts: Floats, tail: float, side: int) -> float:
    """The lower bound (side -1) or the upper one (1), from distinct values in [0, 1] (K) and counts.

    It is the t with P(side sum_k D_k atoms_k > side t) = `tail`; the last atom is 0 or 1.
    """
    from scipy.optimize import brentq

    last = float(side > 0)
    atoms = np.append(values, last)
    shapes = np.append(counts, 1.0)
    if (atoms == last).all():
        return last

    def excess(t: float) -> float:
        return float(np.log(max(exceeds(side * (atoms - t), shapes), 1e-12) / tail))

    expected = float(atoms @ shapes / shapes.sum())
    return float(brentq(excess, expected, last - side * 1e-13, xtol=1e-15, rtol=1e-11))


def exceeds(gains: Floats, shapes: Floats) -> float:
    """P(sum_k gains_k G_k > 0) for independent G_k ~ Gamma(shapes_k) whose weighted sum has a mean of at most 0.

    Computes the inverse Laplace transform (1/2 pi i) int e^K(s) ds / s, K(s) = -sum_k shapes_k log(1 - gains_k s), on a
    hyperbola s = saddle + w (bend (cosh u - 1) + i sinh u). It leaves the saddle point in the direction in which the
    integrand falls fastest; the third derivative gives the side. With many values of tiny gain, the integrand rises
    again far from the saddle. Then the straight line (bend = 0), on which each factor falls, has the smaller sum of
    moduli and is used.
    """
    from scipy.optimize import brentq

    pole = 1 / np.max(gains)

    def slope(x: float) -> float:
        return float((shapes * gains / (1 - gains * x * pole)).sum() - 1 / (x * pole))

    saddle = brentq(slope, 1e-15, 1 - 1e-12, rtol=1e-6) * pole  # any line near it will do
    steep = gains / (1 - gains * saddle)
    second = float((shapes * steep**2).sum()) + saddle**-2
    third = 2 * float((shapes * steep**3).sum()) - 2 * saddle**-3
    width = second**-0.5
    bend = min(max(third * width / (3 * second), -MOST), MOST)

    straight = _along(gains, shapes, saddle, width, 0.0)
    bent = _along(gains, shapes, saddle, width, bend)
    best = min(straight, bent, key=lambda line: np.abs(line).sum())  # the straight one, if the bent sum overflows
    return float(best.real.sum() / np.pi)


def _along(gains: Floats, shapes: Floats, saddle: float, width: float, bend: float) -> Complex:
    """The terms of the sum over the nodes of a contour."""
    u = np.linspace(0, REACH, NODES)
    points = saddle + width * (bend * (np.cosh(u) - 1) + 1j * np.sinh(u))
    steps = width * (np.cosh(u) - 1j * bend * np.sinh(u)) * (u[1] - u[0])
    steps[0] /= 2
    real = 1 - np.outer(points.real, gains)  # a complex log is slow
    imaginary = -np.outer(points.imag, gains)
    heights = -np.log(real**2 + imaginary**2) @ shapes / 2 - 1j * (np.arctan2(imaginary, real) @ shapes)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.exp(heights - np.log(points)) * steps
