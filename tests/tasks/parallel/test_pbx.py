"""PBx and AUP: the rules by published numbers and by a fine grid, intervals and tests by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.tasks.parallel.files import WINO
from unmask.tasks.parallel import pbx as module
from unmask.tasks.parallel.pbx import aup, aup_of_items, leads, reached, resample, sweeps
from unmask.tasks.parallel.points import Outcome, settings

PUBLISHED = [(r, s / 17) for r, s in WINO]
DREAM = [(1.3976853625085057, 1527), (4.120472475241852, 1486), (5.503961786687467, 1373), (6.807909934765663, 1233)]
DREAM += [(8.023889967992739, 1100), (9.814801767944573, 956)]
DUS = [(1.0, 76.58823529411765), (2.0, 54.529411764705884), (2.0, 57.35294117647059), (2.6666666666666674, 46.76470588)]
CANVAS = 32


def pbx(pairs, threshold, top_k=False):
    """PBx of (R, S) of the settings of a sampler; None where not reached."""
    speeds, scores = torch.tensor(sorted(pairs), dtype=torch.float64).T
    return float(reached(speeds[None], scores[None], threshold, top_k)[0]) or None


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (PUBLISHED, (5.916, 6.398, 6.930)),
        ([(r, s / 17) for r, s in DREAM], (5.625, 6.417, 7.201)),
        (DUS, (None, 1.0825688, 1.3425076)),  # of the two settings with R = 2 the line takes the better one
        ([(2.66, 85.9), (2.88, 85.4), (3.10, 83.5), (3.25, 80.8)], (3.25, 3.25, 3.25)),  # never beyond the ends
    ],
)
def test_published_numbers(pairs, expected):
    for threshold, value in zip((80, 75, 70), expected, strict=True):
        found = pbx(pairs, threshold)
        assert (found is None) if value is None else found == pytest.approx(value, abs=6e-4)


def test_top_k_has_no_value_between_settings():
    pairs = [(1.0, 86.4), (2.0, 79.5), (4.0, 58.9)]
    assert pbx(pairs, 80, top_k=True) == 1.0
    assert pbx(pairs, 80) == pytest.approx(1 + 6.4 / 6.9)
    assert pbx(pairs, 90, top_k=True) is None


def test_curves_that_rise_again():
    """The last of several crossings counts: against a fine grid on the line."""
    random = np.random.default_rng(1)
    for _ in range(50):
        speeds = np.sort(random.uniform(1, 10, 5))
        scores = random.uniform(60, 90, 5)
        grid = np.linspace(speeds[0], speeds[-1], 20001)
        above = grid[np.interp(grid, speeds, scores) >= 75]
        expected = above.max() if len(above) else None
        order = random.permutation(5)  # any order of settings
        value = pbx([(speeds[i], scores[i]) for i in order], 75)
        assert value == (None if expected is None else pytest.approx(expected, abs=1e-3))


def outcomes(sampler, setting, scores, forwards):
    """scores, forwards: (tasks, items)."""
    usual = Outcome(source="x", model="m", sampler=sampler, setting=setting, task="", item="", score=0, canvas=CANVAS)
    for task, (own, calls) in enumerate(zip(scores, forwards, strict=True)):
        for item, (score, cost) in enumerate(zip(own, calls, strict=True)):
            yield replace(usual, task=f"t{task}", item=f"i{item:03}", score=float(score), forwards=float(cost))


def population(random, tasks, items, curve, sampler="s", name="t"):
    """(settings, true R, true S): items have a difficulty in common over settings; calls vary by item."""
    difficulty = random.random((tasks, items))
    every, speeds, scores = [], [], []
    for number, (calls, chance) in enumerate(curve):
        own = random.random((tasks, items)) < 0.3
        right = np.where(own, random.random((tasks, items)), difficulty) < chance
        spent = random.choice([calls, 2 * calls], (tasks, items))
        every += outcomes(sampler, f"{name}{number}", right, spent)
        speeds.append(CANVAS * (1 / calls + 1 / (2 * calls)) / 2)
        scores.append(100 * chance)
    return every, list(zip(speeds, scores, strict=True))


CURVE = ((16, 0.9), (8, 0.82), (4, 0.71), (2, 0.5))


def coverage(trials, curve, threshold, name="t"):
    random = np.random.default_rng(0)
    inside = 0
    for _ in range(trials):
        own, true = population(random, 4, 40, curve, name=name)
        (swept,) = sweeps(settings(own), draws=300)
        found = swept.pbx(threshold)
        truth = pbx(true, threshold, name == "k") or 0.0
        inside += (found.low or 0.0) - 1e-9 <= truth <= (found.high or 0.0) + 1e-9
    return inside


def test_coverage_of_the_interval():
    """Of 40 intervals of 95%, fewer than 31 cover the true value with probability 3e-5.

    Of 1,000 intervals, 94.2% cover it for a varying sampler and 96.2% for a top-k sampler; 90% of both where the true
    score of a setting is exactly the threshold and no line continues beyond it.
    """
    assert coverage(20, CURVE, 75) + coverage(20, CURVE, 75, "k") >= 31


def test_resamples_are_the_same_for_all_settings():
    """Two equal samplers never differ in any resample, and one that has other items of a task has its own mean."""
    random = np.random.default_rng(2)
    own, _ = population(random, 3, 20, CURVE)
    twin = [replace(one, sampler="twin") for one in own]
    first, second = sweeps(settings([*own, *twin]), draws=200)
    assert torch.equal(first.speeds, second.speeds)
    assert torch.equal(first.scores, second.scores)
    assert float(first.scores[1:].std(0).min()) > 0
    (lead,) = leads([first, second], 75)
    assert (lead.value, lead.low, lead.high, lead.p) == (0, 0, 0, 1)
    part = [one for one in own if one.item < "i010"]
    (alone,) = settings(part)[:1]
    speeds, scores = resample([settings(own)[0], alone], 50)
    assert float(scores[0, 1]) == pytest.approx(100 * alone.score)
    assert alone.published is not None
    assert float(speeds[0, 1]) == pytest.approx(alone.published)


def test_equal_samplers_are_rarely_called_different():
    """Three samplers with equal chances: a level of 5% for all pairs; of 15 trials, 7 alarms have probability 4e-6."""
    random = np.random.default_rng(3)
    alarms = found = 0
    better = ((16, 0.97), (8, 0.95), (4, 0.9), (2, 0.8))
    for _ in range(15):
        every = [one for name in "abc" for one in population(random, 3, 25, CURVE, name)[0]]
        every += population(random, 3, 25, better, "d")[0]
        swept = sweeps(settings(every), draws=300)
        alarms += any(lead.sure for lead in leads(swept[:3], 75))
        found += sum(lead.sure and lead.first == "d" for lead in leads(swept, 75)) == 3
    assert alarms < 7
    assert found > 10


def test_p_of_several_pairs_is_holms():
    """By hand: the smallest p times the number of pairs, the next times one less, never decreasing, at most 1."""
    random = np.random.default_rng(4)
    every = []
    for name, more in zip("abcd", (0, 0.03, 0.05, 0.1), strict=True):
        every += population(random, 4, 80, [(calls, min(chance + more, 1)) for calls, chance in CURVE], name)[0]
    swept = sweeps(settings(every), draws=400)
    joint = leads(swept, 75)
    alone = [leads([one for one in swept if one.name in (lead.first, lead.second)], 75)[0].p for lead in joint]
    expected = [0.0] * 6
    for rank, number in enumerate(np.argsort(alone, kind="stable")):
        expected[number] = max(*expected, min((6 - rank) * alone[number], 1))
    assert [lead.p for lead in joint] == pytest.approx(expected)
    assert len({p for p in expected if p < 1}) > 2  # the rank matters


def test_warnings_name_what_decides():
    """A setting that misses x by chance, and a fastest setting that still reaches it."""
    random = np.random.default_rng(5)
    own, _ = population(random, 4, 40, ((32, 0.9), (16, 0.76)), name="k")
    (swept,) = sweeps(settings(own), draws=300)
    just = round(float(swept.scores[0, 1]) + 0.5, 3)
    near, fastest = swept.pbx(just).warnings, swept.pbx(50).warnings
    assert [f"chance decides whether setting k1 reaches {just:g}%" in one for one in near] == [True]
    assert len(fastest) == 1
    assert "PB50 is at least" in fastest[0]
    assert swept.pbx(99.9).warnings == ()
    own, _ = population(random, 4, 40, ((16, 0.81), (8, 0.6)))
    (swept,) = sweeps(settings(own), draws=300)
    near = swept.pbx(float(swept.scores[0, 0]) - 0.1).warnings  # the sampler hardly reaches it at all
    assert ["chance decides whether setting t0 reaches" in one for one in near] == [True]
    assert str(swept.pbx(99.9)) == "never [never, never]"


def test_many_items_are_resampled_in_parts(monkeypatch):
    """A hundred thousand items need memory for some resamples, not for all 4000; the numbers are the same."""
    own, _ = population(np.random.default_rng(6), 2, 30, CURVE)
    whole = resample(settings(own), 200)
    monkeypatch.setattr(module, "AT_ONCE", 30 * 7)
    for one, other in zip(whole, resample(settings(own), 200), strict=True):
        assert torch.allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(
    ("pairs", "best", "expected"),
    [
        ([(1, 74.02), (9.11, 73.09)], 74.98, 637.7),
        ([(1, 74.02), (9.11, 73.09)], 90.3, 416.1),
        ([(9, 73), (1, 74)], 74.98, 628.4),
        ([(1, 74), (5, 70), (9, 73)], 74.98, 580.6),  # another point lowers the area
        ([(2, 50)], 80, 100),  # the first part has no weight
    ],
)
def test_published_values_of_aup(pairs, best, expected):
    assert aup(pairs, best).value == pytest.approx(expected, abs=0.05)


def test_points_far_below_the_first_are_dropped():
    """Also the last one: chance decides whether it is 4.9 or 5.1 points below, and is no error."""
    kept = aup([(1, 80), (3, 75), (4, 78)], 80)
    assert kept.dropped == ()
    assert kept.value == pytest.approx(289.4478)  # 5 points below is not more than 5
    dropped = aup([(1, 80), (3, 74.9), (4, 78)], 80)
    assert dropped.dropped == ((3, 74.9),)
    assert dropped.value == aup([(1, 80), (4, 78)], 80).value
    last = aup([(1, 80), (4, 74.9)], 80)
    assert (last.value, last.dropped) == (80, ((4, 74.9),))


def test_interval_of_aup_from_resamples_is_their_quantiles():
    scores = torch.tensor([[70.0, 68.0]] + [[70.0 + shift, 68.0 + shift] for shift in range(-5, 6)])
    speeds = torch.tensor([[1.0, 4.0]]).expand_as(scores)
    interval = aup_of_items(speeds, scores, 75).interval
    assert interval is not None
    low, high = (aup([(1, 70 + shift), (4, 68 + shift)], 75).value for shift in (-5, 5))
    assert low < interval.low < interval.value < interval.high < high
