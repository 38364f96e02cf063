"""Curves of two samplers: the number by hand, false alarms by simulation; and the sweep that measures both."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import binom

from unmask import UnmaskError
from unmask.experiments import sweep
from unmask.experiments.board import Settings, board, compare
from unmask.experiments.board import curve as measuring
from unmask.experiments.board.compare import (
    ALL,
    LEVEL,
    Budget,
    Rows,
    _judged,
    area_weights,
    difference,
    pooled,
    versus,
    weighted,
)
from unmask.experiments.board.run import Measured, recipe
from unmask.samplers import SAMPLERS, Choice, Sampler

LENGTH = 128
SEEDS = 2
DENSE = (8, 16, 32, 64, 128)
LISTS = ((4, 128), (120, 124, 128), DENSE, (128,), (16, 120))
OVERLAP = [pair for pair in itertools.product(LISTS, LISTS) if max(p[0] for p in pair) <= min(p[-1] for p in pair)]
FALSE = 1e-3  # how often a test fails though each comparison errs in exactly a twentieth


def curve(wrong):
    """Of {model calls: wrong (rows of all seeds)}."""
    points = []
    for calls, each in wrong.items():
        tensor = torch.as_tensor(np.asarray(each, dtype=np.float32))
        samples = [SimpleNamespace(values={"ser": part}) for part in tensor.chunk(SEEDS)]
        points.append(SimpleNamespace(model_calls=float(calls), length=LENGTH, wrong=tensor, samples=samples))
    return Measured("", points[0].length, None, sorted(points, key=lambda one: one.model_calls))


def aup(curve):
    return float(weighted(area_weights(curve.model_calls, curve.length), curve.right).mean())


def drawn(random, rows, costs, chance, shared):
    """A sampler whose sequences are right with probability chance(calls); `shared` numbers decide half of them."""
    own = np.where(random.random(rows) < 0.5, shared, random.random(rows))
    return curve({calls: own >= chance(calls) for calls in costs})


def rises(calls):
    return (calls / LENGTH) ** 1.5


def late(calls):
    return (calls / LENGTH) ** 6


def alarms(trials, lists, rows=60, chances=(rises, rises)):
    """Of so many comparisons of each pair of lists of budgets, those that call the two samplers different."""
    random = np.random.default_rng(0)
    found = dict.fromkeys(lists, 0)
    for _ in range(trials):
        for budgets in lists:
            shared = random.random(rows)
            pair = [drawn(random, rows, costs, f, shared) for costs, f in zip(budgets, chances, strict=True)]
            found[budgets] += difference(*pair).verdict != "not conclusive"
    return found


def most(trials, lists):
    """Alarms that a rate of a twentieth exceeds with probability FALSE in any of the lists."""
    return binom.isf(FALSE / len(lists), trials, LEVEL)


FEW = [((4, 128), (120, 124, 128)), (DENSE, DENSE)]


@pytest.mark.long
def test_equal_samplers_are_called_different_in_at_most_a_twentieth():
    assert max(alarms(60, FEW).values()) <= most(60, FEW)


@pytest.mark.long
def test_equal_samplers_with_every_pair_of_lists():
    assert max(alarms(150, OVERLAP).values()) <= most(150, OVERLAP)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("wrong", "chance"), [("gaps are nothing", rises), ("a line between budgets", late)])
def test_what_ignores_gaps_fails_the_simulation(monkeypatch, wrong, chance):
    """Two implementations that let the lists of budgets decide."""

    def between(curve, cost):
        right = np.array([(1 - point.wrong).numpy() for point in curve.points])
        if wrong == "gaps are nothing":
            below = sum(calls <= cost for calls in curve.model_calls)
            at = right[below - 1] if below else 0 * right[0]
        else:
            at = np.array([np.interp(cost, curve.model_calls, row) for row in right.T])
        return torch.from_numpy(at), torch.from_numpy(at)

    monkeypatch.setattr(compare, "_between", between)
    lists = [((4, 128), DENSE)]
    assert max(alarms(40, lists, chances=(chance, chance)).values()) > most(40, lists)


@pytest.mark.long
def test_a_real_difference_is_found():
    """Of 200 rows, where the number is 0.06: in at least two thirds of comparisons."""
    better = (rises, lambda calls: rises(calls) ** 2)
    assert alarms(60, [(DENSE, DENSE)], 200, better)[DENSE, DENSE] >= 40


def test_the_band_holds_at_all_budgets_together():
    random, missed = np.random.default_rng(1), 0
    truth = {calls: rises(calls) - rises(calls) ** 2 for calls in DENSE}
    for _ in range(40):
        shared = random.random(60)
        pair = [drawn(random, 60, DENSE, f, shared) for f in (rises, lambda calls: rises(calls) ** 2)]
        band = difference(*pair).band
        assert [budget.calls for budget in band] == list(DENSE)
        missed += any(not budget.low <= truth[budget.calls] <= budget.high for budget in band)
    assert missed <= binom.isf(FALSE, 40, LEVEL)


def test_the_number_is_that_of_the_board():
    random = np.random.default_rng(2)
    one, other = (drawn(random, 40, costs, rises, random.random(40)) for costs in ((4, 30, 128), (9, 31)))
    found = difference(one, other)
    assert found.mean.value == pytest.approx(aup(one) - aup(other))
    fine = 2 ** np.linspace(0, 7, 70001)

    def at(curve):
        right = [0.0, *(float(1 - point.wrong.mean()) for point in curve.points)]
        return np.array(right)[np.searchsorted(curve.model_calls, fine, side="right")].mean()

    assert found.mean.value == pytest.approx(at(one) - at(other), abs=1e-4)


def test_the_interval_has_what_was_not_measured():
    """One is right at 64 calls, the other from 128 on, and always wrong at 16: between the two it may be anything."""
    wrong, right = np.ones(4000), np.zeros(4000)
    one, other = curve({16: wrong, 64: right}), curve({16: wrong, 128: right})
    found = difference(one, other)
    assert (found.mean.value, found.verdict) == (pytest.approx(1 / 7), "not conclusive")
    assert found.mean.low == pytest.approx(0, abs=0.01)
    assert found.why == "their budgets are too far apart in cost"
    between = difference(one, curve({16: wrong, 63: wrong, 64: wrong, 128: right}))
    assert between.verdict == "better"
    assert [budget.calls for budget in between.band if budget.low > 0] == [64.0]
    assert not [budget for budget in between.band if budget.high < 0]


def test_costs_that_are_nearly_equal_leave_nothing_open():
    wrong, right = np.ones(400), np.zeros(400)
    for low, high in ((63.5, 64), (64, 63.5)):
        found = difference(curve({16: wrong, low: right}), curve({16: wrong, high: wrong, 128: right}))
        assert found.verdict == "better"
        assert found.mean.value > 0.14


def test_where_ranges_of_cost_do_not_overlap():
    with pytest.raises(UnmaskError, match=r"take 2 to 8 and 9 to 16 model calls. Two curves need costs in common"):
        difference(curve({2: np.ones(4), 8: np.ones(4)}), curve({9: np.ones(4), 16: np.ones(4)}))


def test_disagreement_is_not_conclusive():
    """Of budgets, and of seeds, beyond their intervals; of languages as of seeds."""
    ahead = torch.ones(300, dtype=torch.float64) * 0.5
    rows = Rows(ahead, ahead, ahead)
    assert _judged(rows, [Budget(4, 0.1, 0.01, 0.2)], [150, 150]).verdict == "better"
    assert _judged(rows, [Budget(4, -0.1, -0.2, -0.01)], [150, 150]).why == "budgets disagree"
    assert _judged(rows, [Budget(4, -0.1, -0.2, 0.01)], [150, 150]).verdict == "better"
    mixed = torch.cat([torch.ones(200), -torch.ones(100)]).double() * 0.5
    assert _judged(Rows(mixed, mixed, mixed), [], [200, 100]).why == "seeds disagree"
    low, high = curve({4: np.ones(200)}), curve({4: np.zeros(200)})
    assert pooled([(high, low), (high, low)]).verdict == "better"
    assert pooled([(high, low)] * 2 + [(low, high)]).why == "languages disagree"


TINY = {"languages": ("paper-2gram", "interval-5"), "lengths": (20,), "rows": 30, "seeds": 2}
SETTINGS = Settings(samplers=(), **TINY)
FULL = Settings(samplers=("ancestral", "strided", "autoregressive"), **TINY)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A board that has both samplers."""
    place = tmp_path_factory.mktemp("versus") / "sweep"
    sweep(recipe(FULL), store=place, engine="here", fresh=True)
    return place


@pytest.mark.long
def test_a_board_and_a_comparison_agree(store, monkeypatch):
    """One number, one interval and one verdict; and what a board has measured is not measured again."""
    monkeypatch.setattr(measuring, "measure", pytest.fail)
    made = board(FULL, store=store)
    found = versus("strided", "ancestral", SETTINGS, store=store, engine="here")
    assert [one.language for one in found] == ["paper-2gram", "interval-5", ALL]
    for one in found[:2]:
        (record,) = (
            r for r in made.of("accuracy_difference") if (r["language"], r["sampler"]) == (one.language, "strided")
        )
        mean = one.difference.mean
        assert [record[name] for name in ("value", "low", "high", "level")] == [
            mean.value,
            mean.low,
            mean.high,
            mean.level,
        ]
        assert record["verdict"] == one.difference.verdict == "better"
        accuracy = {
            r["sampler"]: r["value"] for r in made.of("accuracy_under_parallelism") if r["language"] == one.language
        }
        assert mean.value == pytest.approx(accuracy["strided"] - accuracy["ancestral"])
    values = torch.tensor([one.difference.mean.value for one in found])
    assert values[2] == pytest.approx(values[:2].mean())


def test_a_sampler_is_as_good_as_itself(store):
    for found in versus("ancestral", "ancestral", SETTINGS, store=store, engine="here"):
        assert (found.difference.verdict, found.difference.mean.value) == ("not conclusive", 0.0)
        assert -found.difference.mean.low == pytest.approx(found.difference.mean.high)


def test_the_sentence_has_verdict_and_number(store):
    one, _, together = versus("strided", "ancestral", SETTINGS, store=store, engine="here")
    sentence = one.sentence("A", "B")
    assert sentence.startswith(
        "paper-2gram: A is better than B. Fraction correct, mean over log2 of model calls from 1"
    )
    assert f"{one.difference.mean.points}, 60 sequences; measured at " in sentence
    assert together.sentence("A", "B").startswith(f"{ALL}: A is better than B. ")
    assert (
        versus("strided", "strided", SETTINGS, store=store, engine="here")[0]
        .sentence("A", "B")
        .startswith("paper-2gram: not conclusive: the interval includes 0. ")
    )


def test_costs_without_overlap_are_refused(store):
    with pytest.raises(UnmaskError, match=r"take 20 and 1 to .* model calls. Two curves need costs in common"):
        versus("autoregressive", "ancestral", SETTINGS, store=store, engine="here")


@pytest.mark.long
def test_own_budgets_are_refused_for_every_sampler(monkeypatch, tmp_path):
    """And a sampler that ignores N is compared over a usual range of its own number, which the verdict names."""
    monkeypatch.setattr(SAMPLERS, "_makers", dict(SAMPLERS.makers))

    @SAMPLERS.register("own")
    @dataclass(frozen=True)
    class Own(Sampler):
        pace = "free"
        at_least: float = 0.9

        def choose(self, view):
            first = view.hidden & (view.hidden.cumsum(1) == 1)
            return Choice(first | (view.hidden & (view.confidence >= self.at_least)))

    for name in ("own(at_least=[0.05, 0.95])", "threshold(threshold=[0.5, 0.9])", "ancestral(steps=[8])"):
        with pytest.raises(UnmaskError, match="sets its budgets"):
            versus(name, "ancestral", SETTINGS, store=tmp_path / "s", engine="here")
    one, *_ = versus("own", "ancestral", SETTINGS, store=tmp_path / "s", engine="here")
    assert one.budgets[0] == "at_least 0.2, 0.35, 0.5, 0.7, 0.9"
    low, high = one.costs[0].split(" to ")
    assert 1 < float(low) < float(high) <= 20
    assert f"measured at {low} to {high} and at 1 to " in one.sentence("own", "ancestral")
