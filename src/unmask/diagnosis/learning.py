"""Learning error of a denoiser per context, in nats relative to the exact denoiser (theory.md 4).

    KL( q(. | x_R) || p_theta(. | x_R) )    at each hidden position, in contexts of q or of a sampler

Assumption 4.1 bounds the largest value over all contexts, not the mean. On contexts x ~ q with k revealed positions the
mean f_KL(k) is exactly the contribution of learning to the NELBO of any schedule,

    NELBO_N(p_theta) - NELBO_N(q) = sum_k delta_k h_KL(p_k),   h_KL(u) = L sum_k Binom(L-1, u)(k) f_KL(k)

and for an AR model, whose contexts are prefixes, the sum over positions is KL(q || p_theta).

Under uniform noise `by_noise` compares q(x_i | y) at all positions of noisy tokens y, at several levels. Near clean the
network must know a wrong token among its neighbors: `keeping` is the probability that it gives to a token that the
noise has replaced. The exact denoiser keeps such a token if it fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.core import progress
from unmask.core.arguments import fits
from unmask.core.chance import Randomness, Stream
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, ratio
from unmask.denoisers import Denoiser, Ideal, UniformIdeal
from unmask.denoisers.contracts import emitted
from unmask.denoisers.denoiser import checked, removing
from unmask.denoisers.marginals import as_marginals
from unmask.diagnosis.loss_curve import hidden_places, revealed_counts
from unmask.languages import Language, LanguageLike, load
from unmask.samplers import generate
from unmask.samplers.teaching import read
from unmask.theory.curves import weights

QUANTILE = 0.99
BINS = 8
LOOKS = 16  # contexts per row
COPIES = 4  # noisy ones per row and level
ROWS_AT_ONCE = 64
LANGUAGE = "of the language"
NOISES = (0.9, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)  # 1 - a, most of them near clean
Contexts = Callable[[slice], tuple[Tensor, Tensor]]  # for some rows: contexts (C, L), and the row (C) of each


@dataclass(frozen=True)
class Learning:
    """KL in nats at hidden positions (P), with the row and the context of each.

    Impossible contexts have no exact posterior and are omitted; `impossible` is their fraction.
    """

    nats: Tensor  # (P)
    row: Tensor  # (P)
    revealed: Tensor  # (P): number of revealed positions in the context
    evaluated: Tensor  # (P): number of evaluated positions in the context
    length: int
    impossible: float
    contexts: str

    def __repr__(self) -> str:
        return f"<Learning at {len(self.nats)} positions, length {self.length}, contexts {self.contexts}>"

    def mean(self, low: float = 0.0, high: float = 1.0) -> Estimate | None:
        """Mean over contexts with a hidden fraction above low, up to high; None without such contexts."""
        inside = self._between(low, high)
        if not bool(inside.any()):
            return None
        return self._ratio(inside.double())

    def quantile(self, level: float = QUANTILE, low: float = 0.0, high: float = 1.0) -> float:
        return float(self.nats[self._between(low, high)].quantile(level))

    @property
    def largest(self) -> float:
        """The largest observed value: a lower bound of the epsilon of Assumption 4.1."""
        return float(self.nats.max())

    def by_share(self, bins: int = BINS) -> list[dict[str, Any]]:
        """Statistics by hidden fraction, from near 0 to near 1."""
        records = []
        for index in range(bins):
            ends = index / bins, (index + 1) / bins
            if (value := self.mean(*ends)) is not None:
                tail = {
                    "quantile": self.quantile(QUANTILE, *ends),
                    "largest": float(self.nats[self._between(*ends)].max()),
                }
                records.append({"low": ends[0], "high": ends[1], "mean": value.to_dict(), **tail})
        return records

    def to_dict(self, bins: int = BINS) -> dict[str, Any]:
        whole = self.mean()
        return {
            "contexts": self.contexts,
            "mean": None if whole is None else whole.to_dict(),
            "quantile": self.quantile() if len(self.nats) else None,
            "largest": self.largest if len(self.nats) else None,
            "impossible": self.impossible,
            "by_share": self.by_share(bins),
        }

    def excess(self, delta: Tensor | None = None, *, fixed_size: bool = False) -> Estimate:
        """Nats per sequence that learning adds to the NELBO of a schedule (default: one position per step)."""
        if self.contexts != LANGUAGE:
            raise UnmaskError(f"contexts are {self.contexts}; expected contexts {LANGUAGE}")
        by_count = np.ones(self.length) if delta is None else weights(self.length, delta, fixed_size)
        weight = torch.from_numpy(by_count)[self.revealed] / self.evaluated
        return self._ratio(weight).map(lambda nats: nats * self.length)

    def _ratio(self, weight: Tensor) -> Estimate:
        return weighted(self.nats, weight, self.row)

    def _between(self, low: float, high: float) -> Tensor:
        hidden = 1 - self.revealed / self.length
        return (hidden > low) & (hidden <= high)


def weighted(values: Tensor, weight: Tensor, row: Tensor) -> Estimate:
    """Weighted mean over positions (P) of rows (P): a ratio of sums over rows, since only rows are independent."""
    rows = int(row.max()) + 1
    weights = torch.zeros(rows, dtype=torch.float64).index_add_(0, row, weight)
    total = torch.zeros(rows, dtype=torch.float64).index_add_(0, row, weight * values)
    if not bool(weights.any()):
        raise UnmaskError("no context has as few revealed positions as the schedule. Use more rows")
    met = weights > 0
    return ratio(total[met], weights[met], "ratio of sums over rows")


@dataclass(frozen=True)
class AtNoise:
    """The learning error at one level of uniform noise, 1 - a."""

    noise: float
    nats: Estimate  # KL(q(x_i | y) || p(x_i | y)), a mean over all positions
    largest: float
    keeping: Estimate | None  # mean probability of a replaced token; None if the noise replaced none
    keeping_exact: float | None  # the same of the exact denoiser

    def __repr__(self) -> str:
        return f"<AtNoise {self.noise:g}: {self.nats} nats>"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def by_noise(
    denoiser: Denoiser, language: LanguageLike, length: int, *, rows: int = 200, looks: int = COPIES, seed: int = 0
) -> list[AtNoise]:
    """Learning error under uniform noise at each of NOISES, for `looks` noisy copies of each row x ~ q."""
    language = load(language)
    removing(checked(denoiser), "uniform", "the learning error by noise")
    clean = language.sample(rows, length, seed=seed)
    levels = []
    with progress.track("learning error", len(NOISES)) as advance:
        for noise in NOISES:
            levels.append(_at_noise(denoiser, language, clean, noise, looks, seed))
            advance(1)
    return levels


def _at_noise(denoiser: Denoiser, language: Language, clean: Tensor, noise: float, looks: int, seed: int) -> AtNoise:
    exact = UniformIdeal(language).full()
    nats, ours, theirs, replaced = [], [], [], []
    for look in range(looks):
        rng, shape = Randomness(seed, torch.arange(len(clean))), clean.shape
        fresh = (rng.grid(Stream.RESIDUAL, shape[1], look) * language.vocabulary).long()
        noisy = torch.where(rng.grid(Stream.ACCEPT, shape[1], look) < noise, fresh, clean)
        level = torch.full((len(clean),), 1 - noise, dtype=torch.float64)
        truth, guess = exact.posterior(noisy, time=level), full_posterior(denoiser, noisy, level)
        nats.append(divergence(truth, guess))
        own = noisy.unsqueeze(2)
        ours.append(guess.gather(2, own).squeeze(2))
        theirs.append(truth.gather(2, own).squeeze(2))
        replaced.append(noisy != clean)
    row = torch.arange(len(clean)).repeat_interleave(clean.shape[1]).repeat(looks)
    loss, wrong = torch.cat(nats).flatten(), torch.cat(replaced).flatten().double()
    mean_of = weighted(loss, torch.ones_like(loss), row)
    if not bool(wrong.any()):
        return AtNoise(noise, mean_of, float(loss.max()), None, None)
    keeping, exactly = (weighted(torch.cat(each).flatten(), wrong, row) for each in (ours, theirs))
    return AtNoise(noise, mean_of, float(loss.max()), keeping, exactly.value)


def full_posterior(denoiser: Denoiser, noisy: Tensor, level: Tensor) -> Tensor:
    """(B, L, V): q(x_i | y) from noisy tokens (B, L) at levels (B), by a denoiser of either view."""
    engine = denoiser.engine(noisy.clone(), torch.full_like(noisy, denoiser.vocabulary))
    rows, positions = torch.ones_like(noisy).nonzero(as_tuple=True)
    answer = as_marginals(engine.at(rows, positions, None if denoiser.time_free else level)).dense().double()
    if engine.hollow:
        answer = emitted(answer, noisy.flatten(), level[rows])
        answer = answer / answer.sum(1, keepdim=True)
    return answer.view(*noisy.shape, -1)


def of_language(
    denoiser: Denoiser,
    language: LanguageLike,
    length: int,
    *,
    rows: int = 200,
    looks: int = LOOKS,
    seed: int = 0,
    causal: bool = False,
) -> Learning:
    """Learning error on contexts x ~ q with random revealed positions; if causal, on all prefixes."""
    language = load(language)
    tokens = language.sample(rows, length, seed=seed)
    checked(denoiser)
    if causal:
        return _of_prefixes(denoiser, language, tokens, LANGUAGE)
    removing(denoiser, "mask", "the learning error by hidden positions")
    revealed = revealed_counts(rows, length, looks, seed)

    def contexts_of(part: slice) -> tuple[Tensor, Tensor]:
        owners = torch.arange(part.start, part.stop).repeat_interleave(revealed.shape[1])
        return torch.where(hidden_places(revealed, part, length, seed), language.vocabulary, tokens[owners]), owners

    return _of_contexts(denoiser, language, rows, length, contexts_of, LANGUAGE)


def of_sampler(
    denoiser: Denoiser,
    language: LanguageLike,
    length: int,
    steps: int = 64,
    sampler: str = "ancestral",
    *,
    rows: int = 200,
    looks: int = LOOKS,
    seed: int = 0,
    causal: bool = False,
) -> Learning:
    """Learning error on contexts of a sampler: some steps of each row, evenly spaced; if causal, all prefixes of AR."""
    language = load(language)
    if causal:
        generation = generate(denoiser, sampler="autoregressive", length=length, rows=rows, seed=seed)
        return _of_prefixes(denoiser, language, generation.tokens, "of autoregressive")
    generation = generate(denoiser, sampler=sampler, steps=steps, length=length, rows=rows, seed=seed)

    def contexts_of(part: slice) -> tuple[Tensor, Tensor]:
        contexts, owners = [], []
        for row in range(part.start, part.stop):
            revealed = generation.order[row].unique()
            chosen = revealed[torch.linspace(0, len(revealed) - 1, min(looks, len(revealed))).round().long()]
            contexts.append(
                torch.where(generation.order[row] < chosen.unsqueeze(1), generation.tokens[row], language.vocabulary)
            )
            owners.append(torch.full((len(chosen),), row))
        return torch.cat(contexts), torch.cat(owners)

    return _of_contexts(denoiser, language, rows, length, contexts_of, f"of {sampler}, {steps} steps")


def _of_contexts(
    denoiser: Denoiser, language: Language, rows: int, length: int, contexts_of: Contexts, name: str
) -> Learning:
    nats, row, revealed, impossible, total = [], [], [], 0, 0
    with progress.track("learning error", rows) as advance:
        for begin in range(0, rows, ROWS_AT_ONCE):
            part = slice(begin, min(begin + ROWS_AT_ONCE, rows))
            contexts, owners = contexts_of(part)
            possible = torch.isfinite(language.log_evidence(contexts))
            impossible += int((~possible).sum())
            total += len(contexts)
            contexts, owners = contexts[possible], owners[possible]
            hidden = contexts == language.vocabulary
            time = None if denoiser.time_free else hidden.double().mean(1)
            loss = divergence(language.posterior(contexts), denoiser.probabilities(contexts, time=time))
            where, _ = hidden.nonzero(as_tuple=True)
            nats.append(loss[hidden])
            row.append(owners[where])
            revealed.append((length - hidden.sum(1))[where])
            advance(part.stop - part.start)
    counts = torch.cat(revealed)
    return Learning(torch.cat(nats), torch.cat(row), counts, length - counts, length, impossible / total, name)


def _of_prefixes(denoiser: Denoiser, language: Language, tokens: Tensor, name: str) -> Learning:
    rows, length = tokens.shape
    fits(rows, f"rows of {length} prefixes", 16 * length**2)
    contexts = torch.where(torch.ones(length, length).tril(-1).bool(), tokens.unsqueeze(1), language.vocabulary)
    possible = torch.isfinite(language.log_evidence(contexts.flatten(0, 1))).view(rows, length)
    loss = divergence(*(read(one, tokens).dense() for one in (Ideal(language), denoiser))).view(rows, length)
    row, position = possible.nonzero(as_tuple=True)
    impossible = float((~possible).double().mean())
    return Learning(loss[possible], row, position, torch.ones_like(row), length, impossible, name)


def divergence(exact: Tensor, learned: Tensor) -> Tensor:
    """KL(exact || learned) over the last axis, in nats."""
    return (torch.xlogy(exact, exact) - torch.xlogy(exact, learned.double())).sum(-1).clamp(min=0)
