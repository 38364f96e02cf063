"""The likelihood of strings under a draw and an order, and its loss against the language q."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness
from unmask.core.estimates import Estimate
from unmask.core.means import interval, skewed_mean
from unmask.denoisers import Canvas, Denoiser, as_denoiser
from unmask.languages import Language
from unmask.samplers import orders
from unmask.samplers.contract import as_sampler
from unmask.samplers.joint.drawing import Joint, Together
from unmask.samplers.joint.draws import as_joint
from unmask.samplers.schedules import ScheduleLike, deltas

ROWS = 256  # at once
CERTAIN = 1e-9  # a string that leaves less to the others has all the mass


def log_paths(denoiser: Denoiser, tokens: Tensor, order: Tensor, joint: Joint | None) -> Tensor:
    """(B): sum over steps of log J(x_S | x_R) for tokens (B, L) and their steps (B, L), 0 where given.

    joint None: the product, whose log J is a sum of log marginals."""
    start = torch.where(order > 0, denoiser.vocabulary, tokens)
    canvas = Canvas(denoiser, start, Randomness(0, torch.arange(len(tokens))))
    together = None if joint is None else Together(joint, canvas)
    out = torch.zeros(len(tokens), dtype=torch.float64)

    for rows, positions in orders.steps(order):
        shown = tokens[rows, positions]
        if together is None:
            out.index_add_(0, rows, canvas.at(rows, positions, None).of(shown).log())
        else:
            together.at(rows, positions, None)
            out += together.log_probability(rows, positions, tokens)
        canvas.reveal((rows, positions), shown)
    return out


def divergence(
    language: Language,
    draw: str | Joint = "product",
    *,
    steps: int,
    length: int,
    denoiser: Denoiser | None = None,
    sampler: str = "ancestral",
    schedule: ScheduleLike = "linear",
    rows: int = 1000,
    seed: int = 0,
) -> Estimate:
    """E KL(q || p_order) in nats per sequence, from x ~ q: the mean of log q(x) - log p(x | order).

    It bounds KL(q || p). The sampler has to fix its order in advance, as ancestral sampling does.
    denoiser: another one than the language's ideal one, without dependence on the time.
    """
    used = as_sampler(sampler)
    source = as_denoiser(language if denoiser is None else denoiser)
    joint = as_joint(draw, used, source, length)
    delta = deltas(schedule, steps)

    nats, logs = [], []
    for first in range(0, arguments.whole("rows", rows), ROWS):
        count = min(ROWS, rows - first)
        tokens = language.sample(count, length, seed=seed, first_row=first)
        rng = Randomness(seed, torch.arange(first, first + count))
        order = used.order(delta, torch.ones_like(tokens, dtype=torch.bool), rng)
        logs.append(language.log_prob(tokens))
        nats.append(logs[-1] - log_paths(source, tokens, order, joint))

    return mean_loss(torch.cat(nats), torch.cat(logs))


def mean_loss(nats: Tensor, logs: Tensor) -> Estimate:
    """The mean of losses (n) of strings x ~ q with log q(x) (n), of which one string may have most of the mass."""
    most = float(logs.max().exp())
    if 0.5 < most < 1 - CERTAIN:
        # so many rows are expected to be another string, whatever these rows happen to hold
        return interval(nats, seen=len(nats) * (1 - most))
    return skewed_mean(nats, method="monte carlo")
