"""The loss curve of a trained network: masked loss against the number of revealed positions (theory.md 8).

    f(k) = the mean over |R| = k and over hidden j of -log p_theta(x_j | x_R),   x from data
         = the conditional entropy of the language + the learning error

So sum_k delta_k h(p_k) predicts the network's NELBO for every schedule and number of steps, without sampling. Each row
is evaluated at a few k, one from each of several equal parts of 0..L-1. The rows divide the values within a part
evenly, so all k occur equally often. For an ideal denoiser f never increases, so f is fitted by isotonic regression. An
inconsistent denoiser may have a rising f: monotone=False keeps the means, with straight lines between them. Intervals
are quantiles of the fit over resampled rows.

Rows may continue given tokens: then L is the number of the other positions, the same in all rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness, Stream, check_seed, uniform
from unmask.core.errors import UnmaskError
from unmask.core.estimates import LEVEL, Estimate
from unmask.core.memory import fits
from unmask.core.threads import tracked
from unmask.denoisers import Denoiser, as_marginals
from unmask.denoisers.denoiser import checked, removing
from unmask.languages.base import MESSAGE_BYTES, as_tokens
from unmask.languages.kernels.machine import Floats
from unmask.samplers.schedules import deltas
from unmask.samplers.starting import start as starting
from unmask.theory import optimal
from unmask.theory.curves import InformationCurve, weights

RESAMPLES = 200
METHOD = "isotonic regression of the masked loss"
MEANS = "means of the masked loss"


@dataclass(frozen=True, eq=False)
class LossCurve:
    """Mean losses over hidden positions (rows, K), in nats, at numbers of revealed positions (rows, K)."""

    revealed: Tensor
    losses: Tensor
    length: int
    seed: int
    monotone: bool = True
    model_calls: int = 0

    def __repr__(self) -> str:
        return f"<LossCurve of {len(self.losses)} rows of {self.length} tokens>"

    @cached_property
    def curve(self) -> InformationCurve:
        """The fitted f, without intervals."""
        return InformationCurve(self._fits[0], METHOD if self.monotone else MEANS)

    def nelbo(self, delta: Tensor, *, fixed_size: bool = False) -> Estimate:
        """Predicted NELBO of the network with this schedule, in nats per sequence: an upper bound on E[-log p(x)]."""
        return self._estimate(weights(self.length, deltas(delta), fixed_size))

    def divergence(self, delta: Tensor, *, fixed_size: bool = False) -> Estimate:
        """The part due to the schedule: the NELBO minus that of one position per step, int h."""
        return self._estimate(weights(self.length, deltas(delta), fixed_size) - 1)

    @property
    def areas(self) -> Tensor:
        """(rows): unbiased over rows for the NELBO of one position per step: mean over orders of -log p_order(x)."""
        return self.losses.mean(1) * self.length

    def needed(self, nats: float) -> tuple[int, int]:
        """The smallest N that loses at most this per sequence, in random order, and the same by the upper end."""

        def lost(steps: int) -> Estimate:
            return self.divergence(deltas("linear", steps), fixed_size=True)

        numbers = range(1, self.length)
        mean = 1 + bisect_left(numbers, True, key=lambda steps: lost(steps).value <= nats)
        return mean, 1 + bisect_left(numbers, True, key=lambda steps: lost(steps).high <= nats)

    def schedule(self, steps: int, *, fixed_size: bool = False) -> Tensor:
        """delta (N) with the smallest NELBO, as `optimal` for a language; pass it as a list."""
        totals, counts = self._sums
        halves = tuple(_fit(totals[i::2].sum(0), counts[i::2].sum(0), self.monotone) for i in range(2))
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
        rows = len(self.losses)
        totals, counts = self._sums
        u = uniform(self.seed, Stream.BOOTSTRAP, torch.arange(RESAMPLES).unsqueeze(1), torch.arange(rows))
        drawn = (u * rows).long().numpy()
        times = np.stack([np.ones(rows), *(np.bincount(row, minlength=rows) for row in drawn)])
        sums = zip(times @ totals, times @ counts, strict=True)
        return np.stack([_fit(total, count, self.monotone) for total, count in sums])


def loss_curve(
    denoiser: Denoiser,
    samples: Tensor | Sequence[Tensor],
    looks: int = 16,
    seed: int = 0,
    given: Tensor | Sequence[Tensor] | None = None,
    monotone: bool = True,
) -> LossCurve:
    """Evaluate a denoiser on each of samples (rows, L) with `looks` different numbers of positions revealed.

    given: the samples with V at the positions that count, the same number in each row. (default: all) Then samples may
    be a list of rows with different lengths.
    """
    curve = looked(denoiser, samples, looks, seed, given, monotone)

    if not bool(torch.isfinite(curve.losses).all()):
        row = int((~torch.isfinite(curve.losses)).any(1).int().argmax())
        raise UnmaskError(f"the denoiser gives sample {row} probability 0: its NELBO is infinite for every schedule")
    return curve


def looked(
    denoiser: Denoiser,
    samples: Tensor | Sequence[Tensor],
    looks: int,
    seed: int,
    given: Tensor | Sequence[Tensor] | None = None,
    monotone: bool = True,
) -> LossCurve:
    """The loss curve, with infinite losses where the denoiser gives a sample probability 0."""
    checked(denoiser)

    if given is None:
        samples = as_tokens(samples, "samples")
        if samples.dim() != 2 or len(samples) < 2 or not samples.numel():
            raise UnmaskError(f"samples have shape {tuple(samples.shape)}; expected (rows, length), at least 2 rows")
        given = torch.full_like(samples, denoiser.vocabulary)

    rows, _, start, valid = starting(denoiser, given, None, None)
    truth, targets = _truth(denoiser, samples, start, valid)
    removing(denoiser, "mask", "the loss curve")
    length = targets.shape[1]
    revealed = revealed_counts(rows, length, looks, seed)
    looks = revealed.shape[1]

    fits = MESSAGE_BYTES // (8 * length * denoiser.vocabulary)  # contexts whose probabilities need little memory
    block = max(1, min(denoiser.rows_at_once(truth.shape[1]) or fits, fits) // looks)

    def look(part: slice) -> Tensor:
        hidden = hidden_places(revealed, part, length, seed)
        copies = torch.arange(part.start, part.stop).repeat_interleave(looks)
        rows = truth[copies], targets[copies], hidden, start[copies], valid[copies]
        return masked_losses(denoiser, *rows).view(-1, looks)

    parts = tracked("loss curve", look, rows, block, threads=denoiser.concurrent)
    return LossCurve(revealed, torch.cat(parts), length, seed, monotone, rows * looks * denoiser.calls)


def masked_losses(
    denoiser: Denoiser, truth: Tensor, targets: Tensor, hidden: Tensor, start: Tensor, valid: Tensor
) -> Tensor:
    """(R): mean of -log p(x_j | x without the hidden positions) over the hidden positions of rows of truth (R, L).

    targets (R, M): the positions that may be hidden; hidden, Bool (R, M): those that are; start, valid: of an engine.
    """
    rows, which = hidden.nonzero(as_tuple=True)
    places = targets[rows, which]
    context = truth.clone()
    context[rows, places] = denoiser.vocabulary

    time = denoiser.time_at(hidden.double().mean(1), len(hidden))
    engine = denoiser.engine(context, start, None if bool(valid.all()) else valid)
    nats = -as_marginals(engine.at(rows, places, time)).of(truth[rows, places]).double().log()
    return torch.zeros(len(truth), dtype=torch.float64).index_add_(0, rows, nats) / hidden.sum(1)


def _truth(
    denoiser: Denoiser, samples: Tensor | Sequence[Tensor], start: Tensor, valid: Tensor
) -> tuple[Tensor, Tensor]:
    """(samples (rows, L) padded like `start`, positions (rows, M) that are not given) after their checks."""
    if len(samples) != len(start) or len(samples) < 2:
        raise UnmaskError(
            f"there are {len(samples)} samples and {len(start)} rows of given tokens",
            "expected equal numbers, at least 2",
        )

    truth = start.clone()
    free = (start == denoiser.vocabulary) & valid
    for number, row in enumerate(samples):
        where = valid[number]
        if len(row) != int(where.sum()):
            raise UnmaskError(
                f"sample {number} has {len(row)} tokens", f"expected {int(where.sum())}, as in its given row"
            )
        truth[number, where] = row

        if bool((wrong := (row < 0) | (row >= denoiser.vocabulary)).any()):
            raise UnmaskError(
                f"sample {number} has token {int(row[wrong][0])}",
                f"expected 0 to {denoiser.vocabulary - 1}, the tokens of {denoiser.name}",
            )

    counts = free.sum(1)
    if not bool((counts == counts[0]).all()) or not int(counts[0]):
        raise UnmaskError(
            f"rows have {int(counts.min())} to {int(counts.max())} positions that are not given",
            "expected the same number in all rows, at least 1",
        )
    return truth, free.nonzero()[:, 1].view(len(start), -1)


def _fit(total: Floats, count: Floats, monotone: bool) -> Floats:
    """f(0..L-1) from sums and numbers of losses at each k: monotone if asked, linear between observed k."""
    from scipy.optimize import isotonic_regression  # half a second to load

    seen = np.flatnonzero(count)
    means = total[seen] / count[seen]
    fitted = isotonic_regression(means, weights=count[seen], increasing=False).x if monotone else means
    return np.interp(np.arange(len(total)), seen, fitted)


def revealed_counts(rows: int, length: int, looks: int, seed: int) -> Tensor:
    """(rows, looks): number of revealed positions of each context; fewer than `looks` contexts if L is smaller."""
    arguments.whole("rows", rows)
    looks = min(arguments.whole("looks", looks), length)
    fits(rows, f"rows of {length} tokens", 16 * length)
    rng = Randomness(check_seed(seed), torch.arange(rows))
    shift = (torch.arange(rows) + rng.uniform(Stream.ORDER, torch.arange(rows), torch.tensor(0), 1)) / rows
    counts = (torch.arange(looks) + shift.unsqueeze(1)) * (length / looks)
    return counts.long().clamp(max=length - 1)


def hidden_places(revealed: Tensor, part: slice, length: int, seed: int) -> Tensor:
    """Bool (R looks, L): hidden positions of the contexts of some rows, from numbers of revealed positions."""
    looks = revealed.shape[1]
    rng = Randomness(seed, torch.arange(part.start, part.stop).repeat_interleave(looks))
    turn = torch.arange(looks).repeat(part.stop - part.start).unsqueeze(1)
    ranks = rng.grid(Stream.ORDER, length, 2 + turn).argsort(1).argsort(1)
    return ranks >= revealed[part].reshape(-1, 1)
