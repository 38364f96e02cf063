"""What every interval of core/estimates.py covers, said as a table and checked.

A share of events: at least 95% whatever p, for every n up to 200, computed. A bounded mean: at least 95% of every law
on three values that a grid has, computed; and of the laws that metrics ask about, drawn. A mean that nothing bounds:
what the table says of each law and n, drawn. A drawn coverage raises an alarm below the 1e-6 quantile of its count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.special import bdtr
from scipy.stats import binom, multinomial

from tests.brute import sequences
from unmask.core.chance import Randomness
from unmask.core.estimates import LEAST, Estimate, bounded_mean, passes, proportion, share, within
from unmask.core.means import RARE_ROWS, mean, of_variance
from unmask.denoisers import Ideal
from unmask.experiments.cell import merged
from unmask.experiments.jobs.sources import loss, near, sums
from unmask.languages import Answers, Interval, load
from unmask.metrics.rows import METRICS
from unmask.metrics.rows import rows as measured
from unmask.samplers.joint import log_paths
from unmask.samplers.joint.likelihood import mean_loss
from unmask.samplers.rules.fixed_orders import Ancestral
from unmask.samplers.schedules import deltas
from unmask.tasks.evaluation.compare import compare_shares
from unmask.theory.curves import weights
from unmask.theory.sampled import information_curve

ALARM = 1e-6


def least_coverage(n: int) -> float:
    """Over all p: between two ends of intervals it is concave or rising and falling, so that it is least at an end."""
    found = [proportion(k, n) for k in range(n + 1)]
    low, high = np.array([e.low for e in found]), np.array([e.high for e in found])
    inside = np.concatenate(
        [low[1:] * (1 - 1e-12), low[1:] * (1 + 1e-12), high[:-1] * (1 - 1e-12), high[:-1] * (1 + 1e-12)]
    )
    first, last = np.searchsorted(high, inside), np.searchsorted(low, inside, side="right") - 1
    return float((bdtr(last, n, inside) - np.where(first > 0, bdtr(np.maximum(first - 1, 0), n, inside), 0.0)).min())


def test_a_share_is_covered_whatever_it_is():
    assert min(least_coverage(n) for n in range(1, 201)) >= 0.95


@pytest.mark.sampled(4)
@pytest.mark.parametrize("middle", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [2, 6, 12])
def test_a_bounded_mean_of_three_values_is_covered(n, middle):
    """0.5 is the case of paired differences: -1, 0 and 1."""
    atoms = torch.tensor([0.0, middle, 1.0], dtype=torch.float64)
    every = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)])
    found = [
        within(float(c @ atoms) / n, atoms[c > 0], c[c > 0], (0.0, 1.0), 0.95, "")
        for c in torch.from_numpy(every).double()
    ]
    low, high = np.array([e.low for e in found]), np.array([e.high for e in found])
    grid = [0.0, 0.002, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.99, 0.998, 1.0]
    for p in grid:
        for q in (q for q in grid if p + q <= 1):
            distribution = np.array([max(1 - p - q, 0.0), p, q])
            truth = float(distribution @ atoms.numpy())
            mass = multinomial.pmf(every, n, distribution / distribution.sum())
            assert mass[(low <= truth + 1e-12) & (truth - 1e-12 <= high)].sum() >= 0.95 - 1e-9, distribution


def check(found: np.ndarray, least: float) -> None:
    assert found.sum() >= binom.ppf(ALARM, len(found), least), found.mean()


def covered(samples: torch.Tensor, truth: float, ends: tuple[float, float] = (0.0, 1.0)) -> None:
    """The intervals of samples (intervals, n), each a function of the sorted samples; none is without width."""
    different, which = samples.double().sort(1).values.unique(dim=0, return_inverse=True)
    estimates = [bounded_mean(rows, ends) for rows in different]
    assert all(e.low <= e.value <= e.high and e.low < e.high for e in estimates)
    check(np.array([e.low <= truth <= e.high for e in estimates])[which], 0.95)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("prompts", [1, 10, 20, 100])
@pytest.mark.parametrize("ser", [0.02, 0.3])
def test_ser_by_prompts(prompts, ser):
    """Eight rows of a prompt share how hard it is: the share of a prompt is a beta distribution of mean SER."""
    rng = np.random.default_rng(prompts)
    hard = rng.beta(0.5 * ser, 0.5 * (1 - ser), (200, prompts, 1))
    wrong = torch.from_numpy(rng.random((200, prompts, 8)) < hard)
    covered(wrong.double().mean(2), ser)
    of_prompts, of_rows = (
        bounded_mean(wrong[0].double().mean(1)),
        share(wrong[0].flatten(), torch.arange(prompts).repeat_interleave(8)),
    )
    assert (of_rows.low, of_rows.high) == (of_prompts.low, of_prompts.high)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("steps", [100, 500, 2500])
def test_rao_blackwell(steps):
    """Of 100 orders of Interval(5) at SER .095, .020 and .004; where no order could be wrong it is a limit."""
    form, delta = Interval(5).closed_form, deltas("linear", steps)
    rng = Randomness(1, torch.arange(30000))
    order = Ancestral().order(delta, torch.ones(30000, 10, dtype=torch.bool), rng)
    halves = order.view(-1, 2, 5)
    pairs = ((halves.unsqueeze(-1) == halves.unsqueeze(-2)).sum((1, 2, 3)) - 10) / 2
    rows = (1 - 2.0 ** -pairs.double()).view(-1, 100)
    covered(rows, form.ser(10, delta))
    assert form.ser_of_orders(order[:100]) == bounded_mean(rows[0], method="rao-blackwell")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rare", [0.002, 0.02, 0.2])
def test_paired_differences(rare):
    """Of 200 rows, ours wrong alone with `rare`, theirs with a third of it."""
    rng = np.random.default_rng(1)
    u = rng.random((200, 200))
    difference = torch.from_numpy((u < rare).astype(float) - (u > 1 - rare / 3))
    covered(difference, rare - rare / 3, (-1.0, 1.0))


@pytest.mark.long
@pytest.mark.parametrize("items", [10, 60])
@pytest.mark.parametrize("shape", [(0.2, 2.0), (1.0, 1.0), (30.0, 0.5)])
def test_pass_at_k(items, shape):
    """Of 8 samples of each item, whose chances are drawn from a beta distribution; alarm at 1e-6 of 400 draws."""
    rng, draws = np.random.default_rng(3), 400
    chances = rng.beta(*shape, (draws, items))
    right = torch.from_numpy(rng.random((draws, items, 8)) < chances[..., None])
    groups = torch.arange(items).repeat_interleave(8)
    found = [passes(one.flatten(), groups) for one in right]
    many = rng.beta(*shape, 10**6)
    for k in (2, 4, 8):
        truth = float((1 - (1 - many) ** k).mean())
        hits = sum(one[k].low - 0.001 <= truth <= one[k].high + 0.001 for one in found)  # truth is drawn, too
        assert hits >= binom.ppf(ALARM, draws, 0.95)


def test_pass_at_k_is_unbiased_and_exact():
    """Over all outcomes of n samples its mean is 1 - (1 - p)^k; k of n samples, as all subsets of them say."""
    n, p = 6, 0.3
    found = [passes(torch.arange(n).repeat(2) < c, torch.arange(2).repeat_interleave(n)) for c in range(n + 1)]
    assert list(found[0]) == [2, 4, 6]
    for k in (2, 4, 6):
        mean_of = sum(binom.pmf(c, n, p) * found[c][k].value for c in range(n + 1))
        assert mean_of == pytest.approx(1 - (1 - p) ** k)
        subsets = [any(i < 2 for i in subset) for subset in combinations(range(n), k)]
        assert found[2][k].value == pytest.approx(np.mean(subsets))
    uneven = passes(torch.tensor([True, False, False, True, False]), torch.tensor([0, 0, 0, 1, 1]))
    assert uneven[2].value == pytest.approx((2 / 3 + 1) / 2)
    assert passes(torch.tensor([True, False]), torch.tensor([0, 1])) == {}


def paired_coverage(n: int, ahead: float, behind: float) -> float:
    """Exact up to 1e-6: the ends rise with the number ahead, so that bisection finds which numbers cover."""
    truth, given, covered = ahead - behind, ahead / (1 - behind), 0.0

    def ends(b: int, c: int) -> tuple[float, float]:
        found = compare_shares([(1.0, 0.0)] * b + [(0.0, 1.0)] * c + [(1.0, 1.0)] * (n - b - c)).difference
        return found.low, found.high

    for c in range(int(binom.ppf(1 - 2e-7, n, behind)) + 1):
        least, most = (int(end) for end in binom.ppf([2e-7, 1 - 2e-7], n - c, given))
        numbers = range(max(least, 0), most + 1)
        first = bisect_left(numbers, True, key=lambda b, c=c: ends(b, c)[1] >= truth) + numbers.start
        beyond = bisect_left(numbers, True, key=lambda b, c=c: ends(b, c)[0] > truth) + numbers.start
        covered += binom.pmf(c, n, behind) * (binom.cdf(beyond - 1, n - c, given) - binom.cdf(first - 1, n - c, given))
    return float(covered)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("n", [1, 5, 50, pytest.param(600, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("ahead", "behind"),
    [
        (0, 0),
        (0.0005, 0),
        (0.004, 0),
        (0.01, 0.002),
        (0.02, 0),
        (0.05, 0.05),
        (0.2, 0),
        (0.2, 0.02),
        (0.9, 0),
        (0.5, 0.5),
    ],
)
def test_differences_of_paired_rows_that_are_right_or_wrong(n, ahead, behind):
    if n * behind <= 25:
        assert paired_coverage(n, ahead, behind) >= 0.95 - 2e-6
    else:
        u = np.random.default_rng(n).random((300, n))
        covered(torch.from_numpy((u < ahead).astype(float) - (u > 1 - behind)), ahead - behind, (-1.0, 1.0))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", [0.5, 0.98, 1.0])
def test_areas_under_a_curve(first):
    """Of 100 rows that are right from one of five budgets on, each as likely, after the first."""
    rng = np.random.default_rng(2)
    worth = np.array([1.0, 0.7, 0.45, 0.2, 0.05])
    start = np.where(rng.random((200, 100)) < first, 0, rng.integers(1, 5, (200, 100)))
    covered(torch.from_numpy(worth[start]), first + (1 - first) * worth[1:].mean())


# language, length, steps: (rows: the least coverage of 95% that it has, as drawn 4000 times, less what luck can do)
UNBOUNDED = {
    ("paper-2gram", 32, 8): {20: 0.94, 50: 0.94, 100: 0.94},
    ("paper-3gram", 16, 4): {20: 0.915, 50: 0.925, 100: 0.935},
    ("brackets", 16, 2): {20: 0.91, 50: 0.935, 100: 0.935},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", UNBOUNDED)
def test_ter_upper(case):
    """Excesses over H(q) of rows drawn from 2000 of a curve, whose mean is the truth."""
    name, length, steps = case
    curve = information_curve(load(name), length, rows=2000).rows
    nats = curve.paid(lambda size: weights(size, deltas("linear", steps))) - curve.entropy
    rng = np.random.default_rng(0)
    for rows, least in UNBOUNDED[case].items():
        drawn = nats[torch.from_numpy(rng.integers(0, len(nats), (1500, rows)))]
        truth, found = float(nats.mean()), map(mean, drawn)
        check(np.array([e.low <= truth <= e.high for e in found]), least)


def test_few_rows_of_an_unbounded_law_have_no_interval():
    assert np.isinf(mean(torch.rand(LEAST - 1)).high)
    assert np.isfinite(mean(torch.rand(LEAST)).high)


def losses_of(mass: float, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(log q(x) - log p(x | order), log q(x)) of x ~ q, for two steps of the product; q has one string of this mass."""
    q = np.random.default_rng(1).dirichlet(np.ones(64)) * (1 - mass)
    q[37] += mass
    language = Answers(sequences(2, 6).tolist(), 2, (q / q.sum()).tolist())
    texts = language.sample(rows, 6, seed=3)
    rng = Randomness(5, torch.arange(rows))
    order = Ancestral().order(deltas("linear", 2), torch.ones_like(texts, dtype=torch.bool), rng)
    logs = language.log_prob(texts)
    return logs - log_paths(Ideal(language), texts, order, None), logs


def numbers(values: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Values without strings: each log q is that of a string among many."""
    return torch.from_numpy(values), torch.full((len(values),), -9.0)


SKEWED = {
    "one string of .96": lambda rows: losses_of(0.96, rows),
    "one string of .99": lambda rows: losses_of(0.99, rows),
    "an event of 3%": lambda rows: numbers((np.random.default_rng(2).random(rows) < 0.03) * 1.0),
    "lognormal": lambda rows: numbers(np.random.default_rng(3).lognormal(0, 1.5, rows)),
    "normal": lambda rows: numbers(np.random.default_rng(4).normal(size=rows)),
}
HEAVY = {50: 0.6, 100: 0.8, 200: 0.89, 400: 0.89}  # of a tail that no number of these rows shows
Estimator = Callable[[torch.Tensor, torch.Tensor], Estimate]


def means_of(kind: str, rows: int, repetitions: int, estimate: Estimator = mean_loss) -> tuple[float, float]:
    """(fraction that covers of the intervals shown, fraction shown), of rows out of 20,000, whose mean is the truth."""
    pool, logs = SKEWED[kind](20_000)
    which = torch.from_numpy(np.random.default_rng(rows).integers(0, len(pool), (repetitions, rows)))
    found = [estimate(pool[part], logs[part]) for part in which]
    shown = [e.low <= float(pool.mean()) <= e.high for e in found if not e.open and e.low < e.high]
    return float(np.mean(shown)) if shown else 1.0, len(shown) / repetitions


@pytest.mark.sampled(25)
@pytest.mark.parametrize("rows", [50, 100, 200, 400, 1000])
@pytest.mark.parametrize("kind", SKEWED)
def test_a_mean_that_few_rows_carry_is_covered_where_it_has_an_interval(kind, rows):
    """Of the runs that show an interval at least .93 cover, and of a heavy tail as listed; alarms in 1e-4 of runs."""
    coverage, shown = means_of(kind, rows, 150)
    least = HEAVY.get(rows, 0.93) if kind == "lognormal" else 0.93
    assert coverage >= least - 4 * (least * (1 - least) / max(150 * shown, 1)) ** 0.5, (coverage, shown)


def test_students_interval_does_not_cover_what_few_rows_carry():
    def student(rows: torch.Tensor, logs: torch.Tensor) -> Estimate:
        return of_variance(float(rows.mean()), float(rows.var()) / len(rows), len(rows), 0.95, "t")

    assert means_of("one string of .99", 100, 300, student)[0] < 0.65


@pytest.mark.parametrize("top", [0.96, 0.99])
def test_a_perplexity_that_few_rows_carry_is_covered(top):
    """One string of six bits has nearly all mass: Student's interval covers 88% and 87%. In a sweep as in a score."""
    every = torch.from_numpy(sequences(2, 6))
    weight = torch.full((64,), (1 - top) / 63, dtype=torch.float64)
    weight[0] = top
    language = Answers(every.tolist(), weights=weight.tolist(), vocabulary=2)
    truth = 2 ** -float(weight @ weight.log2() / 6)
    metric, hits = METRICS["generative_perplexity"], []

    for seed in range(80):
        which = torch.multinomial(weight, 200, True, generator=torch.Generator().manual_seed(seed))
        found = measured(every[which], language)
        ours, bits = metric.of(found), metric.values(found)
        parts = [near("p", one) | sums("p", one) for one in bits.split(70)]
        texts = [sums("p_texts", one) for one in found.texts.split(30)]
        swept = loss("p", merged([*parts, *texts])).map(metric.shown)

        assert 1 <= ours.low <= ours.value <= ours.high
        assert (swept.low, swept.high) == (pytest.approx(ours.low, rel=5e-3), pytest.approx(ours.high, rel=5e-3))
        hits.append(ours.low <= truth <= ours.high)
    check(np.array(hits), 0.95)

    copies = metric.of(measured(every[:1].repeat(200, 1), language))
    assert (copies.low, copies.high) == (1.0, np.inf)
    assert str(copies).endswith(f"(no interval: {RARE_ROWS})")


@pytest.mark.parametrize("name", ["paper-2gram", "interval-5"])
def test_a_perplexity_of_usual_rows_has_students_interval(name):
    language = load(name)
    found = measured(language.sample(500, 12, seed=1), language)
    metric = METRICS["generative_perplexity"]
    bits = metric.values(found)
    assert metric.of(found) == mean(bits).map(metric.shown)
    swept = loss("p", sums("p", bits) | near("p", bits) | sums("p_texts", found.texts)).map(metric.shown)
    assert (swept.low, swept.high) == (pytest.approx(metric.of(found).low), pytest.approx(metric.of(found).high))


def test_rounding_is_no_rare_value():
    """The texts of a uniform language have one probability, but for the last bits."""
    bits = torch.full((100,), 2.0, dtype=torch.float64)
    bits[:3] += torch.tensor([1e-15, -2e-15, 3e-15], dtype=torch.float64)
    found = METRICS["generative_perplexity"].reduce(bits, texts=torch.arange(100))
    assert found is not None
    assert found.high - found.low < 1e-9
