"""Log-likelihood of texts under a model: exact, in one order, or as a bound with its standard error.

    AR       log p(y | c) = sum_j log p(y_j | c, y_<j), in one model call
    chain    the same sum for a masked model, one model call per token: exact for the order from left to right
    bound    log p(y | c) >= -E (T / m) sum_{j in M} -log p(y_j | c, y without M),  M has m of T positions, m uniform in
             1..T (theory.md 1: NELBO of the sampler that reveals one position at a time)

For an exact denoiser all three are log q(y | c), since its chain rule is the same in every order.

The bound is a mean over sets M: over all 2^T - 1 if they are few, so one token is exact, else over K random sets. A
mean over m of T positions has a variance near 1 / m. So sizes are drawn with P(m) ~ 1 / sqrt(m), the k-th from the k-th
of K equal parts, and weighted by the inverse. Then the variance is spread over all sets, and its estimate has nearly K
degrees of freedom. B rows, L positions, T of them the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.denoisers import Denoiser, as_marginals
from unmask.models.open.model import OpenModel

AT_ONCE = 8  # rows
FEW = 16  # positions; up to here all sets are enumerated


class Sets(NamedTuple):
    """Sets of positions and their weights; drawn: whether they are a random selection."""

    hidden: Tensor  # Bool (K, T)
    weights: Tensor  # (K) float64, sum 1
    drawn: bool


class Likelihood(NamedTuple):
    """Log-likelihood of a target y after a context c."""

    nats: float  # log p(y | c), or a lower bound
    error: float  # standard error, 0 without random sets
    greedy: bool | None  # whether each token is the most likely one after its predecessors; None if not computed
    model_calls: int


@torch.no_grad()
def read(model: OpenModel, rows: Sequence[Tensor], firsts: Sequence[int]) -> list[Likelihood]:
    """Log-likelihoods under an AR model, of each row from its position in `firsts` on."""
    lengths = torch.tensor(list(map(len, rows)))
    width = int(lengths.max())
    tokens = torch.full((len(rows), width + 1), model.vocabulary)  # no row reads the padding behind it
    for number, row in enumerate(rows):
        tokens[number, 1 : 1 + len(row)] = row

    position = torch.arange(width)
    targets = (position < lengths.unsqueeze(1)) & (position >= torch.tensor(firsts).unsqueeze(1))

    reader = model.causal(len(rows), width)
    marginals = as_marginals(reader.extend(tokens[:, :-1], None, targets))
    symbols = tokens[:, 1:][targets]

    nats = torch.zeros(targets.shape, dtype=torch.float64)
    nats[targets] = marginals.of(symbols).log()
    likeliest = torch.ones_like(targets)
    likeliest[targets] = marginals.best == symbols
    totals = zip(nats.sum(1).tolist(), likeliest.all(1).tolist(), strict=True)
    return [Likelihood(total, 0.0, greedy, 1) for total, greedy in totals]


def chain(denoiser: Denoiser, row: Tensor, first: int) -> Likelihood:
    """Log-likelihood of one token after another, from left to right."""
    places = torch.arange(first, len(row))
    hidden = torch.arange(len(row)) >= places.unsqueeze(1)
    nats, best = _scores(denoiser, row, first, hidden, (torch.arange(len(places)), places))
    return Likelihood(float(nats.sum()), 0.0, bool((best == row[first:]).all()), len(places))


def bound(denoiser: Denoiser, row: Tensor, first: int, sets: Sets) -> Likelihood:
    """Bound of the log-likelihood by the mean over sets of target positions; one model call per set."""
    size = len(row) - first
    many = len(sets.hidden)
    hidden = torch.cat([torch.zeros((many, first), dtype=torch.bool), sets.hidden], 1)
    which, places = hidden.nonzero(as_tuple=True)
    nats, best = _scores(denoiser, row, first, hidden, (which, places))
    means = torch.zeros(many, dtype=torch.float64).index_add_(0, which, nats) * size / sets.hidden.sum(1)

    greedy = bool((best == row[places]).all()) if size == 1 else None
    total = float((sets.weights * means).sum())
    error = 0.0
    if sets.drawn:
        # of a sum of K independent parts, whose means change slowly with k: (p_{k+1} - p_k)^2 / 2 has the mean variance
        # of the two parts, or more; the first and last difference count twice, since one neighbour is missing
        gaps = (sets.weights * (means - total)).diff().square()
        error = float(((gaps.sum() + gaps[0] + gaps[-1]) / 2).sqrt())
    return Likelihood(total, error, greedy, many)


def sets_of(size: int, draws: int, seed: int) -> Sets:
    """All sets of positions of a target if there are at most `draws`, else `draws` random sets."""
    return every(size) if size <= FEW and 2**size - 1 <= draws else drawn(size, draws, seed)


def every(size: int) -> Sets:
    """All sets, with P(M) = 1 / (T C(T, m))."""
    hidden = (torch.arange(1, 2**size).unsqueeze(1) >> torch.arange(size)) % 2 == 1
    sizes = hidden.sum(1)
    alike = sizes.bincount(minlength=size + 1)[sizes]
    return Sets(hidden, 1 / (size * alike.double()), False)


def drawn(size: int, draws: int, seed: int) -> Sets:
    """Random sets: sizes m with P(m) ~ 1 / sqrt(m), the k-th from the k-th of equal parts; uniform positions."""
    generator = torch.Generator().manual_seed(seed)
    quantiles = (torch.arange(draws) + torch.rand(draws, generator=generator, dtype=torch.float64)) / draws
    roots = torch.arange(1, size + 1).double().sqrt()
    parts = (1 / roots).cumsum(0)

    sizes = torch.searchsorted(parts, quantiles * parts[-1]).clamp(max=size - 1) + 1
    weights = roots[sizes - 1]
    return Sets(random_sets(sizes, size, generator), weights / weights.sum(), True)


def random_sets(sizes: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """Bool (.., L): uniform sets of these sizes (..)."""
    ranks = torch.rand((*sizes.shape, length), generator=generator).argsort(-1).argsort(-1)
    return ranks < sizes.unsqueeze(-1)


@torch.no_grad()
def _scores(
    denoiser: Denoiser, row: Tensor, first: int, hidden: Tensor, at: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """(log p of the token, the most likely symbol) at (context, position); context k hides Bool (K, L) of a row.

    The tokens before position `first` are given.
    """
    which, places = at
    tokens = torch.where(hidden, denoiser.vocabulary, row)
    given = torch.where(torch.arange(len(row)) < first, row, denoiser.vocabulary).expand_as(tokens)
    nats, best = [], []
    for part in torch.arange(len(tokens)).split(AT_ONCE):
        mine = (which >= part[0]) & (which <= part[-1])
        marginals = as_marginals(
            denoiser.engine(tokens[part], given[part]).at(which[mine] - part[0], places[mine], None)
        )
        nats.append(marginals.of(row[places[mine]]).log())
        best.append(marginals.best)
    return torch.cat(nats), torch.cat(best)
