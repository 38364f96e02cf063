"""The loss curve of a trained network: masked loss against the number of revealed positions (theory.md 8).

    f(k) = the mean over |R| = k and over hidden j of -log p_theta(x_j | x_R),   x from data
         = the conditional entropy of the language + the learning error

So sum_k delta_k h(p_k) predicts the network's NELBO for every schedule and number of steps, without sampling. Each row
is evaluated at a few k (contexts.py). For an ideal denoiser f never increases, so f is fitted by isotonic regression.
Intervals are quantiles of the fit over resampled rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

from unmask.core import progress
from unmask.core.chance import Stream, uniform
from unmask.core.errors import UnmaskError
from unmask.core.estimates import LEVEL, Estimate
from unmask.core.threads import over_blocks
from unmask.denoisers import Denoiser, as_marginals
from unmask.denoisers.denoiser import checked
from unmask.diagnosis.contexts import hidden_places, revealed_counts
from unmask.kernels.machine import Floats
from unmask.languages.base import MESSAGE_BYTES, as_tokens
from unmask.schedules import deltas
from unmask.theory import optimal
from unmask.theory.curves import InformationCurve, weights

RESAMPLES = 200
METHOD = "isotonic regression of the masked loss"


@dataclass(frozen=True, eq=False)
class LossCurve:
    """Mean losses over hidden positions (rows, K), in nats, at numbers of revealed positions (rows, K)."""

    revealed: Tensor
    losses: Tensor
    length: int
    seed: int

    def __repr__(self) -> str:
        return f"<LossCurve of {len(self.losses)} rows of {self.length} tokens>"

    @cached_property
    def curve(self) -> InformationCurve:
        """The fitted f, without intervals."""
        return InformationCurve(self._fits[0], METHOD)

    def nelbo(self, delta: Tensor, *, fixed_size: bool = False) -> Estimate:
        """Predicted NELBO of the network with this schedule, in nats per sequence: an upper bound on E[-log p(x)]."""
        return self._estimate(weights(self.length, deltas(delta), fixed_size))

    def divergence(self, delta: Tensor, *, fixed_size: bool = False) -> Estimate:
        """The part due to the schedule: the NELBO minus that of one position per step, int h."""
        return self._estimate(weights(self.length, deltas(delta), fixed_size) - 1)

    def schedule(self, steps: int, *, fixed_size: bool = False) -> Tensor:
        """delta (N) with the smallest NELBO, as `optimal` for a language; pass it as a list."""
        totals, counts = self._sums
        halves = tuple(_fit(totals[i::2].sum(0), counts[i::2].sum(0)) for i in range(2))
        return optimal.for_divergence(self.curve, steps, fixed_size=fixed_size, halves=(halves[0], halves[1]))

    def _estimate(self, weight: Floats) -> Estimate:
        """Estimate of sum_k weight_k f(k)."""
        values = np.array([f @ weight for f in self._fits])
        low, high = np.quantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Estimate(float(values[0]), float(low), float(high), len(self.losses), method="bootstrap over rows")

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        """(totals, counts), each (rows, L): sums and numbers of losses at each k, by row."""
        totals, counts = np.zeros((2, len(self.losses), self.length))
        at = np.arange(len(self.losses))[:, None], self.revealed.numpy()
        np.add.at(totals, at, self.losses.numpy())
        np.add.at(counts, at, 1.0)
        return totals, counts

    @cached_property
    def _fits(self) -> Floats:
        """(1 + resamples, L): f of all rows, then f of rows drawn with replacement."""
        rows, (totals, counts) = len(self.losses), self._sums
        u = uniform(self.seed, Stream.BOOTSTRAP, torch.arange(RESAMPLES).unsqueeze(1), torch.arange(rows))
        drawn = (u * rows).long().numpy()
        times = np.stack([np.ones(rows), *(np.bincount(row, minlength=rows) for row in drawn)])
        return np.stack([_fit(total, count) for total, count in zip(times @ totals, times @ counts, strict=True)])


def loss_curve(denoiser: Denoiser, samples: Tensor, looks: int = 16, seed: int = 0) -> LossCurve:
    """Evaluate a denoiser on each of samples (rows, L) with `looks` different numbers of positions revealed."""
    checked(denoiser)
    samples = as_tokens(samples, "samples")
    if samples.dim() != 2 or len(samples) < 2 or not samples.numel():
        raise UnmaskError(f"samples have shape {tuple(samples.shape)}; expected (rows, length), at least 2 rows")
    rows, length = samples.shape
    revealed = revealed_counts(rows, length, looks, seed)
    looks = revealed.shape[1]
    fits = MESSAGE_BYTES // (8 * length * denoiser.vocabulary)  # contexts whose probabilities need little memory
    block = max(1, min(denoiser.rows_at_once(length) or fits, fits) // looks)

    def look(part: slice) -> Tensor:
        truth, hidden = samples[part].repeat_interleave(looks, 0), hidden_places(revealed, part, length, seed)
        context = torch.where(hidden, denoiser.vocabulary, truth)
        time = None if denoiser.time_free else hidden.double().mean(1)
        chance = as_marginals(denoiser.posterior(context, time=time)).of(truth.reshape(-1)).view_as(truth)
        return (torch.where(hidden, -chance.log(), 0.0).sum(1) / hidden.sum(1)).view(-1, looks)

    parts = []
    with progress.track("loss curve", rows) as advance:
        for losses in over_blocks(look, rows, block):
            parts.append(losses)
            advance(len(losses))
    losses = torch.cat(parts)
    if not bool(torch.isfinite(losses).all()):
        row = int((~torch.isfinite(losses)).any(1).int().argmax())
        raise UnmaskError(f"the denoiser gives sample {row} probability 0: its NELBO is infinite for every schedule")
    return LossCurve(revealed, losses, length, seed)


def _fit(total: Floats, count: Floats) -> Floats:
    """f(0..L-1) from sums and numbers of losses at each k: monotone, linear between observed k."""
    seen = np.flatnonzero(count)
    fitted = isotonic_regression(total[seen] / count[seen], weights=count[seen], increasing=False).x
    return np.interp(np.arange(len(total)), seen, fitted)
