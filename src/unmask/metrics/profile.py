"""The information profile f(k) of a language, and every fluency bound that follows from it (theory.md 7.2).

    f(k) = mean over j and over |R| = k of H(X_j | X_R),      h(u) = L sum_k Binom(L-1, u)(k) f(k)
    NELBO_N = sum_k delta_k h(p_k)  >=  E[-log p(x)],         E_tau KL(q || p_tau) = NELBO_N - H(q),  H(q) = sum_k f(k)

One pass over x ~ q that reveals each row in a random order, one position at a time, and records the entropy of what
comes next, answers for every number of rounds and every schedule. It is finite on pruned languages too, so that
fluency and correctness speak of the same language.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unmask import orders, progress
from unmask.chance import Luck, check_seed
from unmask.denoisers import Canvas, Denoiser, Exact
from unmask.errors import UnmaskError
from unmask.estimates import Estimate, mean
from unmask.languages import Language
from unmask.languages.base import MESSAGE_BYTES
from unmask.samplers import walk
from unmask.schedules import Schedule, before, deltas, sizes
from unmask.threads import over_blocks


@dataclass(frozen=True)
class Profile:
    """terms (rows, L): what the k-th reveal of a row costs in nats; sizes (rows): |x|; ideal (rows): what all reveals
    of a row cost the ideal denoiser, where that is not the sum of the terms."""

    terms: Tensor
    sizes: Tensor
    ideal: Tensor | None = None

    @property
    def length(self) -> int:
        return self.terms.shape[1]

    @cached_property
    def f(self) -> Tensor:
        """f(k), k = 0..L-1."""
        return self.terms.mean(0)

    def nelbo(self, delta: Tensor, fixed_size: bool = False) -> Estimate:
        """Nats a sequence: an upper bound on E_q[-log p(x)], exact for the average over orders."""
        return mean(self.terms @ self._weights(delta, fixed_size))

    def divergence(self, delta: Tensor, fixed_size: bool = False) -> Estimate:
        """E_tau KL(q || p_tau) in nats, an upper bound on KL(q || p); H is estimated from the same rows."""
        ideal = self.terms.sum(1) if self.ideal is None else self.ideal
        return mean(self.terms @ self._weights(delta, fixed_size) - ideal)

    def ter_upper(self, schedule: Schedule, steps: int | None = None, fixed_size: bool = False) -> Estimate:
        """2^(NELBO_N / L) in bits: an upper bound on TER = 2^E[-log2 p(x)/|x|], ancestral or fixed-size sampling."""
        bits = self.terms @ self._weights(deltas(schedule, steps), fixed_size) / self.sizes / math.log(2)
        return mean(bits).map(lambda value: 2.0**value)

    def ser_upper(self, schedule: Schedule, steps: int | None = None, fixed_size: bool = False) -> Estimate:
        """SER <= 1 - exp(-KL(q || p)) <= 1 - exp(-E_tau KL) (theory.md 2)."""
        return self.divergence(deltas(schedule, steps), fixed_size).map(lambda nats: -math.expm1(-max(nats, 0.0)))

    def _weights(self, delta: Tensor, fixed_size: bool) -> Tensor:
        """(L) how much of f(k) a schedule pays: all ones would be H(q)."""
        if fixed_size:
            counts = sizes(delta, self.length)
            used = counts.nonzero().squeeze(1)
            return torch.zeros(self.length, dtype=torch.float64).index_put_(
                ((counts.cumsum(0) - counts)[used],), counts[used].double()
            )
        return binomial_weights(delta, self.length)


def binomial_weights(delta: Tensor, length: int) -> Tensor:
    """(L): L sum_i delta_i Binom(L-1, p_i)(k), in chunks of rounds so that N may be large."""
    counts = torch.arange(length, dtype=torch.float64)
    most = torch.tensor(float(length - 1), dtype=torch.float64)
    choose = torch.lgamma(most + 1) - torch.lgamma(counts + 1) - torch.lgamma(most - counts + 1)
    weights = torch.zeros(length, dtype=torch.float64)
    for part, begun in zip(delta.split(4096), before(delta).split(4096), strict=True):
        u = begun.unsqueeze(1)
        log_mass = choose + torch.xlogy(counts, u) + torch.xlogy(most - counts, 1 - u)
        weights += part @ log_mass.exp()
    return length * weights


def profile(
    language: Language, length: int, rows: int = 100, seed: int = 0, denoiser: Denoiser | None = None
) -> Profile:
    """The profile of a language under its ideal denoiser, or under another one.

    The ideal denoiser pays the entropy of the next token, which varies less than its surprisal -log p(x_j | x_R); other
    denoisers, and languages whose sequences vary in length, pay the surprisal.
    """
    language.check_length(length)
    if rows < 2:
        raise UnmaskError(f"rows is {rows}; a profile with an interval needs at least 2")
    used = Exact(language) if denoiser is None else denoiser
    entropies = denoiser is None and language.end is None
    drawn = language.sample(rows, length, seed=seed)
    block = min(max(MESSAGE_BYTES // used.row_bytes(length), 8), 256)

    def observe(part: slice) -> Tensor:
        truth = drawn[part]
        luck = Luck(check_seed(seed), torch.arange(part.start, part.stop))
        canvas = Canvas(used, language.blank(len(truth), length), luck)
        order = orders.shuffled(deltas("linear", length), canvas.hidden, luck)
        terms = torch.empty(truth.shape, dtype=torch.float64)
        for rows_now, positions, marginals in walk(canvas, order):
            tokens = truth[rows_now, positions]
            if entropies:
                cost = -torch.xlogy(marginals, marginals).sum(1)
            else:
                cost = -marginals.gather(1, tokens.unsqueeze(1)).squeeze(1).double().log()
            terms[rows_now, order[rows_now, positions] - 1] = cost
            canvas.reveal((rows_now, positions), tokens)
        return terms

    parts = []
    with progress.track("profile", rows) as advance:
        for terms in over_blocks(observe, rows, block):
            parts.append(terms)
            advance(len(terms))
    ideal = None if denoiser is None else -language.log_prob(drawn)
    return Profile(torch.cat(parts), language.sizes(drawn).double(), ideal)
