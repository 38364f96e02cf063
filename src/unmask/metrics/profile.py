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
from unmask.metrics.given import hidden_counts, own_sizes, patterns, prompt_numbers
from unmask.samplers import walk
from unmask.schedules import Fit, Schedule, ScheduleLike, deltas
from unmask.threads import over_blocks


@dataclass(frozen=True)
class Profile:
    """terms (rows, L): what the k-th reveal of a row costs in nats; sizes (rows): |x|; ideal (rows): what all reveals
    of a row cost the ideal denoiser, where that is not the sum of the terms; language: what a schedule is fitted to.

    Where tokens were given, hidden (rows) is how many were not: a row has as many terms, then zeros; and prompts (rows)
    says which rows share some, over which the intervals are.
    """

    terms: Tensor
    sizes: Tensor
    ideal: Tensor | None = None
    language: Language | None = None
    hidden: Tensor | None = None
    prompts: Tensor | None = None

    @property
    def length(self) -> int:
        return self.terms.shape[1]

    @cached_property
    def f(self) -> Tensor:
        """f(k), k = 0..L-1, over the rows that have so many hidden positions."""
        if self.hidden is None:
            return self.terms.mean(0)
        return self.terms.sum(0) / (self.hidden.unsqueeze(1) > torch.arange(self.length)).sum(0).clamp(min=1)

    def nelbo(self, delta: Tensor, fixed_size: bool = False) -> Estimate:
        """Nats a sequence: an upper bound on E_q[-log p(x)], exact for the average over orders."""
        return mean(self._paid(delta, fixed_size), groups=self.prompts)

    def divergence(self, delta: Tensor, fixed_size: bool = False) -> Estimate:
        """E_tau KL(q || p_tau) in nats, an upper bound on KL(q || p); H is estimated from the same rows."""
        ideal = self.terms.sum(1) if self.ideal is None else self.ideal
        return mean(self._paid(delta, fixed_size) - ideal, groups=self.prompts)

    def ter_upper(self, schedule: ScheduleLike, steps: int | None = None, fixed_size: bool = False) -> Estimate:
        """2^(NELBO_N / L) in bits: an upper bound on TER = 2^E[-log2 p(x)/|x|], ancestral or fixed-size sampling."""
        bits = self._paid(self.deltas(schedule, steps, fixed_size), fixed_size) / self.sizes / math.log(2)
        told = self.sizes > 0  # of a row whose end was given nothing is asked
        groups = None if self.prompts is None else self.prompts[told]
        return mean(bits[told], groups=groups).map(lambda value: 2.0**value)

    def ser_upper(self, schedule: ScheduleLike, steps: int | None = None, fixed_size: bool = False) -> Estimate:
        """SER <= 1 - exp(-KL(q || p)) <= 1 - exp(-E_tau KL) (theory.md 2)."""
        delta = self.deltas(schedule, steps, fixed_size)
        return self.divergence(delta, fixed_size).map(lambda nats: -math.expm1(-max(nats, 0.0)))

    def deltas(self, schedule: ScheduleLike, steps: int | None = None, fixed_size: bool = False) -> Tensor:
        """(N) float64 of a schedule, fitted to the language where it asks for that."""
        fit = None if self.language is None else Fit(self.language, self.length, fixed_size)
        return deltas(schedule, steps, fit)

    def _paid(self, delta: Tensor, fixed_size: bool) -> Tensor:
        """(rows): what a schedule pays, in nats."""
        if self.hidden is None:
            return self.terms @ _weights(delta, self.length, fixed_size)
        paid = torch.zeros(len(self.terms), dtype=torch.float64)
        for count in self.hidden.unique().tolist():
            rows = self.hidden == count
            paid[rows] = self.terms[rows, :count] @ _weights(delta, count, fixed_size)
        return paid


def _weights(delta: Tensor, length: int, fixed_size: bool) -> Tensor:
    """(L) how much of f(k) a schedule pays: all ones would be H(q)."""
    if fixed_size:
        counts = Schedule(delta).sizes(length)
        used = counts.nonzero().squeeze(1)
        return torch.zeros(length, dtype=torch.float64).index_put_(
            ((counts.cumsum(0) - counts)[used],), counts[used].double()
        )
    return binomial_weights(delta, length)


def binomial_weights(delta: Tensor, length: int) -> Tensor:
    """(L): L sum_i delta_i Binom(L-1, p_i)(k), in chunks of rounds so that N may be large."""
    counts = torch.arange(length, dtype=torch.float64)
    most = torch.tensor(float(length - 1), dtype=torch.float64)
    choose = torch.lgamma(most + 1) - torch.lgamma(counts + 1) - torch.lgamma(most - counts + 1)
    weights = torch.zeros(length, dtype=torch.float64)
    for part, begun in zip(delta.split(4096), Schedule(delta).p.split(4096), strict=True):
        u = begun.unsqueeze(1)
        log_mass = choose + torch.xlogy(counts, u) + torch.xlogy(most - counts, 1 - u)
        weights += part @ log_mass.exp()
    return length * weights


def profile(
    language: Language,
    length: int,
    rows: int = 100,
    seed: int = 0,
    denoiser: Denoiser | None = None,
    given: Tensor | None = None,
    prompt: Tensor | None = None,
) -> Profile:
    """The profile of a language under its ideal denoiser, or under another one.

    given: tokens (L) that every row continues, V where hidden, or (rows, L): all is then conditional on them. prompt
    (rows): which prompt each row continues; different rows of given are different prompts, unless told otherwise.

    The ideal denoiser pays the entropy of the next token, which varies less than its surprisal -log p(x_j | x_R); other
    denoisers, and languages whose sequences vary in length, pay the surprisal.
    """
    language.check_length(length)
    if rows < 2:
        raise UnmaskError(f"rows is {rows}; a profile with an interval needs at least 2")
    used = Exact(language) if denoiser is None else denoiser
    entropies = denoiser is None and language.end is None
    prompts = None if given is None else patterns(language, given, rows, length)
    hidden = None if prompts is None else hidden_counts(language, prompts)
    drawn = language.sample(rows, length, seed=seed, given=prompts)
    block = min(used.rows_at_once(length) or 256, 256)

    def observe(part: slice) -> Tensor:
        truth = drawn[part]
        luck = Luck(check_seed(seed), torch.arange(part.start, part.stop))
        start = language.blank(len(truth), length) if prompts is None else prompts[part].clone()
        canvas = Canvas(used, start, luck)
        order = orders.shuffled(deltas("linear", length), canvas.hidden, luck)
        terms = torch.zeros(truth.shape, dtype=torch.float64)
        for rows_now, positions, marginals in walk(canvas, order):
            tokens = truth[rows_now, positions]
            if entropies:
                cost = marginals.entropy
            else:
                cost = -marginals.of(tokens).log()
            terms[rows_now, order[rows_now, positions] - 1] = cost
            canvas.reveal((rows_now, positions), tokens)
        return terms

    parts = []
    with progress.track("profile", rows) as advance:
        for terms in over_blocks(observe, rows, block):
            parts.append(terms)
            advance(len(terms))
    ideal = None if denoiser is None else -language.log_prob(drawn, prompts)
    size = own_sizes(language, drawn, prompts).double()
    return Profile(
        torch.cat(parts), size, ideal, language, hidden, prompt_numbers(prompts) if prompt is None else prompt
    )
