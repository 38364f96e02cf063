"""How likely a model finds what follows a context: exactly, in one order, or as a bound with its standard error.

    AR       log p(y | c) = sum_j log p(y_j | c, y_<j), all of them in one evaluation
    chain    of a masked model the same sum, an evaluation each: exact of the order from left to right
    bound    log p(y | c) >= -E (T / m) sum_{j in M} -log p(y_j | c, y without M),  M being m of T places, m uniform in
             1..T (theory.md 1: NELBO of the sampler that reveals one place at a time; of an exact denoiser all three
             are log q(y | c), whose chain rule is the same in every order)

The bound is a mean over sets M: over all 2^T - 1 where these are few, so that one token is exact, else over K drawn
sets. A mean over m of T places has a variance near 1 / m, so sizes are drawn with P(m) ~ 1 / sqrt(m), the k-th from the
k-th of K equal parts, and weighted by its inverse. Then no few sets have most of the variance, and the standard error,
which is estimated from the sets, has nearly K degrees of freedom. B rows, L positions, T of them the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from unmask.denoisers import Denoiser
from unmask.denoisers.marginals import as_marginals

if TYPE_CHECKING:
    from unmask.hub.model import OpenModel

AT_ONCE = 8  # rows
FEW = 16  # places, all sets of which are made at most


class Sets(NamedTuple):
    """Sets of places, and what each counts of the mean; drawn: whether there are others."""

    hidden: Tensor  # Bool (K, T)
    weights: Tensor  # (K) float64, which sum to 1
    drawn: bool


class Likelihood(NamedTuple):
    """Of a target y behind a context."""

    nats: float  # log p(y | c), or what bounds it from below
    error: float  # its standard error, 0 where nothing was drawn
    greedy: bool | None  # whether each token is the likeliest behind those before it; None where that was not asked
    evaluations: int


@torch.no_grad()
def read(model: OpenModel, rows: Sequence[Tensor], firsts: Sequence[int]) -> list[Likelihood]:
    """By an AR model, of what stands in rows from these places on."""
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    tokens = torch.full((len(rows), width + 1), model.vocabulary)  # what stands behind a row is read by none of it
    for number, row in enumerate(rows):
        tokens[number, 1 : 1 + len(row)] = row
    place = torch.arange(width)
    asked = (place < lengths.unsqueeze(1)) & (place >= torch.tensor(firsts).unsqueeze(1))
    reader = model.causal(len(rows), width)
    said = as_marginals(reader.extend(tokens[:, :-1], None, asked))
    there = tokens[:, 1:][asked]
    nats = torch.zeros(asked.shape, dtype=torch.float64)
    nats[asked] = said.of(there).log()
    likeliest = torch.ones_like(asked)
    likeliest[asked] = said.best == there
    found = zip(nats.sum(1).tolist(), likeliest.all(1).tolist(), strict=True)
    return [Likelihood(total, 0.0, greedy, 1) for total, greedy in found]


def chain(denoiser: Denoiser, row: Tensor, first: int) -> Likelihood:
    """By one token after another, from left to right."""
    places = torch.arange(first, len(row))
    hidden = torch.arange(len(row)) >= places.unsqueeze(1)
    nats, best = _said(denoiser, row, hidden, (torch.arange(len(places)), places))
    return Likelihood(float(nats.sum()), 0.0, bool((best == row[first:]).all()), len(places))


def bound(denoiser: Denoiser, row: Tensor, first: int, sets: Sets) -> Likelihood:
    """By the mean over sets of places of the target; a set is an evaluation."""
    size, many = len(row) - first, len(sets.hidden)
    hidden = torch.cat([torch.zeros((many, first), dtype=torch.bool), sets.hidden], 1)
    which, places = hidden.nonzero(as_tuple=True)
    nats, best = _said(denoiser, row, hidden, (which, places))
    found = torch.zeros(many, dtype=torch.float64).index_add_(0, which, nats) * size / sets.hidden.sum(1)
    greedy = bool((best == row[places]).all()) if size == 1 else None
    total = float((sets.weights * found).sum())
    return Likelihood(total, _error(sets.weights * (found - total)) if sets.drawn else 0.0, greedy, many)


def _error(parts: Tensor) -> float:
    """The standard error of a sum of K independent parts, each near its neighbours in mean: (p_{k+1} - p_k)^2 / 2 has
    the mean variance of the two, or more; the first and last difference count twice, since one neighbour is missing."""
    gaps = parts.diff().square()
    return float(((gaps.sum() + gaps[0] + gaps[-1]) / 2).sqrt())


def sets_of(size: int, draws: int, seed: int) -> Sets:
    """All sets of places of a target where they are no more than `draws`, else so many of them."""
    return every(size) if size <= FEW and 2**size - 1 <= draws else drawn(size, draws, seed)


def every(size: int) -> Sets:
    """P(M) = 1 / (T C(T, m))."""
    numbers = torch.arange(1, 2**size)
    hidden = (numbers.unsqueeze(1) >> torch.arange(size)) % 2 == 1
    sizes = hidden.sum(1)
    alike = sizes.bincount(minlength=size + 1)[sizes]
    return Sets(hidden, 1 / (size * alike.double()), False)


def drawn(size: int, draws: int, seed: int) -> Sets:
    """Sizes m with P(m) ~ 1 / sqrt(m), the k-th from the k-th of equal parts; the places are uniform."""
    luck = torch.Generator().manual_seed(seed)
    quantiles = (torch.arange(draws) + torch.rand(draws, generator=luck, dtype=torch.float64)) / draws
    roots = torch.arange(1, size + 1).double().sqrt()
    parts = (1 / roots).cumsum(0)
    sizes = torch.searchsorted(parts, quantiles * parts[-1]).clamp(max=size - 1) + 1
    ranks = torch.rand((draws, size), generator=luck).argsort(1).argsort(1)
    weights = roots[sizes - 1]
    return Sets(ranks < sizes.unsqueeze(1), weights / weights.sum(), True)


@torch.no_grad()
def _said(denoiser: Denoiser, row: Tensor, hidden: Tensor, asked: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """(log p of what stands there, the likeliest symbol) at places asked, row by row of contexts: a row (L) of which
    this is hidden, Bool (K, L)."""
    which, places = asked
    tokens = torch.where(hidden, denoiser.vocabulary, row)
    nats, best = [], []
    for part in torch.arange(len(tokens)).split(AT_ONCE):
        mine = (which >= part[0]) & (which <= part[-1])
        said = as_marginals(denoiser.engine(tokens[part], tokens[part]).at(which[mine] - part[0], places[mine], None))
        nats.append(said.of(row[places[mine]]).log())
        best.append(said.best)
    return torch.cat(nats), torch.cat(best)
