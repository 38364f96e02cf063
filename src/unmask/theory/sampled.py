"""Any language: unbiased estimates of the two curves (theory.md 7.2, 7.4).

A context is x_R with x ~ q; the rest is computed from its exact posterior, which reduces the variance: entropies
replace surprisals, and the mass of contradictions their number.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.chance import Randomness, Stream, categorical, check_seed
from unmask.core.memory import fits
from unmask.core.threads import tracked
from unmask.denoisers import Denoiser, Ideal
from unmask.languages import LanguageLike, load
from unmask.metrics.exact import hidden_counts
from unmask.metrics.rows import own_sizes, patterns, several_prompts
from unmask.samplers.rules.fixed_orders import FixedSize
from unmask.samplers.schedules import deltas
from unmask.samplers.teaching import teach
from unmask.theory.curves import ErrorCurve, InformationCurve, Measured

STRATA = 64  # of the number of revealed positions
BLOCK = 256  # rows per thread, at most


def information_curve(
    language: LanguageLike,
    length: int,
    *,
    rows: int = 100,
    seed: int = 0,
    denoiser: Denoiser | None = None,
    given: Tensor | None = None,
    prompt: Tensor | None = None,
) -> InformationCurve:
    """f by revealing x ~ q one position at a time, in random orders: for the ideal denoiser, or for another one.

    One pass is enough for every number of steps and every schedule. It is finite on pruned languages too, so fluency
    and correctness refer to the same language. given: tokens (L) that every row continues, V where hidden, or
    (rows, L): all is then conditional on them. prompt (rows): number of the prompt that each row continues. (default:
    one prompt for each distinct row of given)

    The terms of the ideal denoiser are entropies of the next token, which vary less than its surprisal
    -log p(x_j | x_R). Other denoisers, and languages with varying length, have surprisals.
    """
    language = load(language)
    language.check_length(length)
    arguments.whole("rows", rows, 2, what=", for an interval")
    fits(rows, f"rows of {length} tokens", 16 * length)
    shown = None if given is None else patterns(language, given, rows, length)
    hidden = None if shown is None else hidden_counts(language, shown)
    drawn = language.sample(rows, length, seed=seed, given=shown)
    start = entries.chosen(shown, language.blank(rows, length))
    rng = _rng(rows, seed)
    order = FixedSize().order(deltas("linear", length), start == language.vocabulary, rng)
    source, entropies = denoiser or Ideal(language), denoiser is None and language.end is None

    def some(part: slice) -> Tensor:
        own = Randomness(rng.seed, rng.row_ids[part])
        return teach(source, start[part], drawn[part], order[part], own, entropies)

    block = min(source.rows_at_once(length) or BLOCK, BLOCK)
    nats = torch.cat(tracked("teaching", some, rows, block))
    terms, revealed = torch.zeros_like(nats), order > 0
    terms[revealed.nonzero(as_tuple=True)[0], order[revealed] - 1] = nats[revealed]
    measured = Measured(
        terms,
        (language.sizes(drawn) if shown is None else own_sizes(language, drawn, shown)).double(),
        None if denoiser is None else -language.log_prob(drawn, shown),
        hidden,
        several_prompts(shown) if prompt is None and shown is not None else prompt,
    )
    return InformationCurve(measured.f, "monte carlo", measured, language)


def _rng(rows: int, seed: int) -> Randomness:
    return Randomness(check_seed(seed), torch.arange(rows))


def error_curve(language: LanguageLike, length: int, *, rows: int = 100, seed: int = 0) -> ErrorCurve:
    """g by writing one token too early: draw s for a hidden position j from q(. | x_R), and sum the mass it excludes.

    A sample draws j, a partner i ~ pi(. | j), and R of size k from the others. With H all hidden positions but j,
        (L-1) g(k) = E[ sum_{i in H} sum_t q(x_i = t | x_R) 1[q(x_i = t | x_R, x_j = s) = 0] / sum_{i in H} pi(i | j) ]
    for any pi; here half of it is uniform, half falls with the square of the distance, as near tokens contradict most.
    Each row has one sample in each of 64 equal parts of 0..L-2, at a k drawn from the part: int e is unbiased, and so
    is e(u) except for the shape of g within a part, which is narrower than the binomial distribution that smooths it.
    """
    language = load(language)
    language.check_length(length)
    arguments.whole("rows", rows, 2, what=", for an interval")
    fits(rows, f"rows of {length} tokens", 16 * length)
    if length == 1:
        return ErrorCurve(np.zeros(0), "there are no pairs")
    drawn = language.sample(rows, length, seed=seed)
    rng = _rng(rows, seed)
    strata = min(STRATA, length - 1)
    edges = torch.linspace(0, length - 1, strata + 1, dtype=torch.float64).round().long()
    sizes, looks = edges.diff(), torch.arange(strata)
    keys = rng.grid(Stream.ORDER, length)
    terms = torch.zeros((rows, length - 1), dtype=torch.float64)

    def look(part: slice) -> None:
        for b in range(part.start, part.stop):
            row = torch.full((strata,), b)
            u, v, w = (rng.uniform(Stream.ORDER, row, looks, visit) for visit in (1, 2, 3))
            k, j = edges[:-1] + (u * sizes).long(), (v * length).long()
            partners = _near(j, length)

            last = keys[b].repeat(strata, 1)
            last[looks, j] = last[looks, categorical(partners, w)] = torch.inf
            context = torch.where(last.argsort(1).argsort(1) < k.unsqueeze(1), drawn[b], language.vocabulary)

            before = language.posterior(context)
            context[looks, j] = categorical(before[looks, j], rng.uniform(Stream.TOKEN, row, j, looks))

            hidden = context == language.vocabulary
            ruled_out = torch.where(language.posterior(context) == 0, before, 0.0).sum(2)
            mass = (ruled_out * hidden).sum(1) / (partners * hidden).sum(1) / (length - 1)
            terms[b] = mass.repeat_interleave(sizes)

    tracked("errors of pairs", look, rows, 1)
    return ErrorCurve(terms.mean(0).numpy(), "monte carlo", terms.numpy())


def _near(j: Tensor, length: int) -> Tensor:
    """(K, L): pi(. | j), half uniform over the others, half ~ 1 / distance^2."""
    distance = (torch.arange(length) - j.unsqueeze(1)).abs().double()
    closeness = torch.where(distance > 0, distance**-2, 0.0)
    return ((distance > 0) / (length - 1) + closeness / closeness.sum(1, keepdim=True)) / 2
