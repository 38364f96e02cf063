"""What sampling costs in arithmetic: a masked diffusion model against autoregression with a cache (theory.md 9).

For each of n layers of width d a token passes 8 d^2 + 6 d w operations in its matrices, w = 8 d/3 being the width of
the gated MLP, rounded up, and 4 c d in attention over a context of c tokens, and 2 d |V| at the end; a multiplication
with its addition counts twice.

    one evaluation of all L tokens    n [L d (8 d + 6 w) + 4 L^2 d]       + 2 L d |V|
    L tokens one after another        n [L d (8 d + 6 w) + 2 d L (L+1)]   + 2 L d |V|

They differ in attention alone, which half of the time looks at what is not there yet. So one evaluation costs as much
as all of autoregression, and diffusion can win in time, never in arithmetic.
"""

from __future__ import annotations

from torch import Tensor

from unmask.networks.model.shape import Shape


def evaluation(shape: Shape, length: int) -> float:
    """FLOP of one forward pass over all tokens."""
    return _matrices(shape, length) + shape.layers * 4.0 * length**2 * shape.hidden


def autoregression(shape: Shape, length: int) -> float:
    """FLOP of writing them one by one; token t attends to t, sum_t 4 t d = 2 d L (L+1)."""
    return _matrices(shape, length) + shape.layers * 2.0 * length * (length + 1) * shape.hidden


def training(shape: Shape, length: int) -> float:
    """FLOP of learning from one sequence: an evaluation, and twice as much to go back through it."""
    return 3.0 * evaluation(shape, length)


def break_even(shape: Shape, length: int) -> float:
    """Evaluations that cost as much arithmetic as autoregression: a little less than one."""
    return autoregression(shape, length) / evaluation(shape, length)


def evaluations(delta: Tensor, length: int, batch: int = 1) -> float:
    """Rounds that reveal something, sum_k 1 - (1 - delta_k)^(L b): of the others the last answer still holds.

    All b rows of a batch share an evaluation, so that one of them is enough to need it.
    """
    return float((1 - (1 - delta) ** (length * batch)).sum())


def _matrices(shape: Shape, length: int) -> float:
    return length * shape.hidden * (shape.layers * (8.0 * shape.hidden + 6.0 * shape.wide) + 2.0 * shape.vocabulary)
