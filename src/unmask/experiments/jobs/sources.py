"""Parameters of jobs as frozen dataclasses, their checks, and sums that add up exactly whatever the blocks are.

A language file is part of a cell by its contents (`digest`), which are compared again at measurement.

Numbers are added as whole numbers, in units of 2^-64: only rounding to the unit loses precision, and it is done to each
number alone. So a mean and its interval do not depend on how the numbers are grouped. For K independent groups with
sums s_k and sizes n_k, four more sums give the variance of their mean, as in core.means.mean:

    K / (K-1) sum_k (s_k - n_k mean)^2 / n^2,   sum_k (..)^2 = sum s_k^2 - 2 mean sum s_k n_k + mean^2 sum n_k^2
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments, entries, means
from unmask.core import run as options
from unmask.core.chance import check_seed
from unmask.core.errors import UnmaskError
from unmask.core.estimates import BY_GROUP, LEVEL, Estimate, independent, proportion, within
from unmask.core.files import finite
from unmask.core.means import of_variance
from unmask.core.specs import parse
from unmask.denoisers import Denoiser
from unmask.experiments.cell import Record, Tally
from unmask.experiments.cell import digest as of_contents
from unmask.languages import Language, load
from unmask.metrics import METRICS, rows
from unmask.samplers import SAMPLERS, Generation, generate, prompts, schedules

PROMPT_SEEDS = 2**61  # added to a seed: a continuation must not share the random numbers that drew its prompt
OF_AR = "model calls of causal"  # calls of the AR model that assists a masked model
USUAL_STEPS = 64
UNIT = 64  # bits after the point of a sum
FINE = 32  # near values differ by at most 1.1%
APART = 0.05  # of a width: near values that have it within this stand for the values


@dataclass(frozen=True)
class Source:
    """language: a spec, or a file. digest: of the file. length: tokens of a sequence."""

    language: str
    digest: str = ""
    length: int = 512

    @property
    def q(self) -> Language:
        """The true distribution."""
        return ground_truth(self.language, self.digest)


@dataclass(frozen=True)
class Pace:
    """steps: the number of steps N. schedule: the expected fraction of a sequence that each step reveals."""

    steps: int = USUAL_STEPS
    schedule: str = "linear"


@dataclass(frozen=True)
class Sampling(options.Sampling):
    """All options of a sampler."""

    steps: int = USUAL_STEPS


@dataclass(frozen=True)
class Amount:
    """rows: sequences. seed: of the rows. prompt_length: rows continue the first tokens of x ~ q, several each."""

    rows: int = 2000
    seed: int = 0
    prompt_length: int = 0
    rows_per_prompt: int = 1

    def prompts(self, q: Language, length: int, first_row: int = 0) -> tuple[Tensor | None, Tensor | None]:
        """(given tokens (rows, L), prompt number of each row (rows)); None without prompts."""
        if not self.prompt_length:
            return None, None
        given = prompts(
            q,
            self.rows,
            length,
            self.prompt_length,
            rows_per_prompt=self.rows_per_prompt,
            seed=self.seed + PROMPT_SEEDS,
            first_row=first_row,
        )
        return given, torch.arange(first_row, first_row + self.rows) // self.rows_per_prompt

    def check(self, length: int) -> None:
        left = ", so that at least one token is generated"
        arguments.whole("rows", self.rows, 1, arguments.MOST_ROWS)
        check_seed(self.seed)
        arguments.whole("prompt_length", self.prompt_length, 0, length - 1, left)
        arguments.whole("rows_per_prompt", self.rows_per_prompt)


def generated(source: Language | Denoiser, length: int, sampling: Sampling, amount: Amount, **more: Any) -> Generation:
    """Rows of `generate`."""
    return generate(source, length=length, rows=amount.rows, seed=amount.seed, **vars(sampling), **more)


def delta(source: Source, pace: Pace | Sampling) -> Tensor:
    return schedules.deltas(pace.schedule, pace.steps, schedules.Fit(source.q, source.length))


def check(source: Source, pace: Pace, amount: Amount, sampler: str = Sampling.sampler) -> None:
    """Refuse an unknown language, sampler or schedule, and numbers that are out of range; a cell has some of these."""
    amount.check(arguments.length(source.length))
    source.q.check_length(source.length)
    SAMPLERS.make(sampler)
    if schedules.is_fitted(parse("schedule", pace.schedule)[0]):  # fitting can be slow
        schedules.SCHEDULES.bind(pace.schedule, 2)
    else:
        schedules.deltas(pace.schedule, pace.steps)


def about(source: Source) -> Record:
    """The digest of the language: a spec may mean another language after a change of the code."""
    return {"language_digest": source.q.source()["digest"]}


def ground_truth(spec: str, digest: str = "") -> Language:
    """The language of a spec or a file; digest: the expected digest of the file, if any."""
    unchanged(digest, spec)
    return _language(spec, digest or of_contents(spec))


@lru_cache(maxsize=16)  # once per process
def _language(spec: str, digest: str) -> Language:
    return load(spec)


def contents(*names: str | None) -> str:
    """The digests of files and directories, one behind the other; a name that is not given has none."""
    return "".join(map(of_contents, filter(None, names)))


@lru_cache(maxsize=64)  # once per process: reading a network may take longer than a block
def unchanged(digest: str, *names: str | None) -> None:
    if digest and digest != contents(*names):
        changed = " or ".join(filter(None, names))
        raise UnmaskError(
            f"{changed} has changed since the sweep was planned. Expected the same file. Run the sweep again"
        )


def record(measure: str, estimate: Estimate, model_calls: float | None) -> Record:
    """A record of an estimate, with None for infinity. `model_calls`: model calls per row, None without rows."""
    return {"measure": measure} | finite(asdict(estimate)) | {"model_calls": model_calls}


def records_of(estimates: Mapping[str, Estimate | None], model_calls: float | None) -> list[Record]:
    """A record of each estimate that is known."""
    return [record(measure, estimate, model_calls) for measure, estimate in entries.given(estimates).items()]


def tally_of(generation: Generation, q: Language, prompt: Tensor | None = None) -> Tally:
    """The metrics of generated rows as a tally; prompt: the prompt number of each row."""
    scores = rows(generation, q, prompt=prompt)
    groups = entries.chosen(prompt, scores.chosen)
    tally = Tally()
    for name, metric in METRICS.items():
        if (values := metric.values(scores)) is None:  # such as steps of reasoning, if the language has none
            continue
        known = ~values.isnan()
        own = values[known], entries.taken(groups, known)
        tally |= counts(name, *own) if metric.events else sums(name, *own)
        if metric.loss:
            tally |= near(name, *own) | sums(f"{name}_texts", scores.texts[known])
    if {"denoiser", "causal"} <= generation.model_calls_of.keys():
        tally |= sums(OF_AR, generation.model_calls_of["causal"], groups)
    return tally


def records_of_samples(tally: Tally) -> list[Record]:
    estimates = dict[str, Estimate | None]()
    for name, metric in METRICS.items():
        totals = share if metric.events else loss if metric.loss else mean
        estimate = totals(name, tally)
        if estimate is not None:
            estimates[name] = estimate.map(metric.shown)

    estimates[OF_AR] = mean(OF_AR, tally)
    return records_of(estimates, mean_of_calls(tally))


def mean_of_calls(tally: Tally) -> float | None:
    """Model calls per row; None if they were not counted."""
    calls = mean("model_calls", tally)
    return None if calls is None else calls.value


def sums(name: str, samples: Tensor, groups: Tensor | None = None) -> Tally:
    """The sums of samples (n), independent or in groups (n numbers); a group is within one tally."""
    # whole numbers of units, which add up exactly in any order
    units = [round(Fraction(value) * 2**UNIT) for value in samples.double().tolist()]
    squares = sum(unit * unit for unit in units)
    tally = {f"{name}_count": len(units), f"{name}_sum": sum(units), f"{name}_squares": squares}
    if groups is None:
        return tally

    members, totals = Counter(groups.tolist()), Counter[int]()
    for unit, group in zip(units, groups.tolist(), strict=True):
        totals[group] += unit

    return tally | {
        f"{name}_groups": len(members),
        f"{name}_group_squares": sum(total * total for total in totals.values()),
        f"{name}_products": sum(total * members[group] for group, total in totals.items()),
        f"{name}_sizes": sum(size * size for size in members.values()),
    }


def counts(name: str, events: Tensor, groups: Tensor | None = None) -> Tally:
    """The counts of events (n), 0 or 1, and for groups the number of groups with each fraction of events.

    Fractions are in lowest terms, so that groups of all sizes count together.
    """
    tally = {f"{name}_count": len(events), f"{name}_sum": int(events.sum())}
    if groups is None:
        return tally
    for group in groups.unique():
        own = events[groups == group]
        part = f"{name}_of_{Fraction(int(own.sum()), len(own))}"
        tally[part] = tally.get(part, 0) + 1
    return tally


def near(name: str, samples: Tensor, groups: Tensor | None = None) -> Tally:
    """The counts of samples from 0 up (n), or of the means of groups, that are nearest to each power of 2^(1/FINE)."""
    each = independent(samples, groups).clamp(min=2.0**-UNIT).tolist()
    return Tally(Counter(f"{name}_near_{round(FINE * math.log2(one))}" for one in each))


def loss(name: str, tally: Tally) -> Estimate | None:
    """The mean with the interval of core.means.loss, from counts of near values; None if there are no samples."""
    usual, part = mean(name, tally), f"{name}_near_"
    if usual is None:
        return None
    count = {int(key.removeprefix(part)): count for key, count in tally.items() if key.startswith(part)}
    powers, many = torch.tensor(sorted(count.items())).T
    each = (2 ** (powers.double() / FINE)).repeat_interleave(many)

    # all values may be near one power: then a few do not carry the mean
    width, coarse = usual.high - usual.low, means.mean(each)
    resolved = usual.open or abs(coarse.high - coarse.low - width) <= APART * width
    copies = tally[f"{name}_count"] * tally[f"{name}_texts_squares"] == tally[f"{name}_texts_sum"] ** 2
    return means.loss(usual, each if resolved or copies else None, copies)


def mean(name: str, tally: Tally, level: float = LEVEL) -> Estimate | None:
    """The mean with its interval, as in core.means.mean; None if there are no samples."""
    n = tally.get(f"{name}_count", 0)
    if n == 0:
        return None

    # each sample is a group of its own, unless prompts have several
    total, squares = tally[f"{name}_sum"], tally[f"{name}_squares"]
    groups, products, sizes, variance, method = n, total, n, 0.0, "t"
    if tally.get(f"{name}_groups", n) < n:
        groups, squares = tally[f"{name}_groups"], tally[f"{name}_group_squares"]
        products, sizes = tally[f"{name}_products"], tally[f"{name}_sizes"]
        method = f"t{BY_GROUP}"

    if groups > 1:
        value = Fraction(total, n)
        spread = squares - 2 * value * products + value**2 * sizes
        variance = float(spread * groups / ((groups - 1) * n * 4**UNIT)) / n

    return of_variance(float(Fraction(total, n * 2**UNIT)), variance, groups, level, method)


def share(name: str, tally: Tally, level: float = LEVEL) -> Estimate | None:
    """The probability of a counted event, as in core.estimates.share; None if there are no samples."""
    n = tally.get(f"{name}_count", 0)
    if n == 0:
        return None
    successes, part = tally[f"{name}_sum"], f"{name}_of_"
    groups = {float(Fraction(key.removeprefix(part))): count for key, count in tally.items() if key.startswith(part)}
    if sum(groups.values()) in (0, n):
        return proportion(successes, n, level)
    atoms, weights = torch.tensor(sorted(groups.items()), dtype=torch.float64).T
    return within(successes / n, atoms, weights, (0.0, 1.0), level, f"gaffke{BY_GROUP}")
