"""A plan is the inverse of what is exact: at its N the target is met, and at N - 1 it is not."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.test_languages import Equal
from unmask import generate, score
from unmask.core.errors import UnmaskError
from unmask.core.search import Floor, least
from unmask.denoisers import Perturbed
from unmask.diagnosis.learning import of_language
from unmask.languages import Interval, NGram, load, random_ngram
from unmask.metrics import ter
from unmask.planning.flops import model_calls
from unmask.planning.plan import plan
from unmask.samplers.schedules import deltas
from unmask.theory import joint_orders
from unmask.theory import known as known
from unmask.theory.partitions import partitions

CHAIN = random_ngram(2, 4, temperature=2.0, threshold=0.1, seed=4)


@pytest.mark.parametrize(("length", "steps"), [(5, 8), (10, 15), (20, 30), (50, 73), (100, 145), (510, 737)])
def test_steps_of_the_interval_language_are_those_of_theory(length, steps):
    """theory.md 6, the table of least N for SER <= 1/2."""
    verdict = plan(Interval(5), length, "ser", 0.5)
    assert verdict.chosen.steps == steps
    assert verdict.chosen.predicted.exact
    assert verdict.chosen.predicted.value == pytest.approx(Interval(5).closed_form.ser(length, deltas("linear", steps)))
    assert verdict.optimal.steps == steps  # uniform is optimal


def test_ter_is_relative_to_the_language_and_exact_where_it_can_be():
    q, length = Interval(4), 42
    found = plan(q, length, "ter", 0.03).chosen
    own = 2 ** (q.closed_form.bits(length) / length)

    def excess(steps):
        return ter(q, length, "linear", steps).value / own - 1

    assert excess(found.steps) <= 0.03 < excess(found.steps - 1)
    assert found.predicted.value == pytest.approx(excess(found.steps), rel=1e-9)


@pytest.mark.parametrize("target", [0.02, 0.2, 0.8])
def test_ser_of_a_chain_is_inverted(target):
    length = 18

    def ser(steps):
        return known.exact(CHAIN, length, deltas("linear", steps)).ser

    verdict = plan(CHAIN, length, "ser", target)
    found, nats = verdict.chosen, -math.log1p(-target)
    fixed = [joint_orders.enough(CHAIN, length, nats, fitted) for fitted in (False, True)]
    assert "best fixed order N = {} is enough, with draw='fitted' N = {}".format(*fixed) in verdict.text
    assert ser(found.steps) <= target < ser(found.steps - 1)
    assert found.predicted.value == pytest.approx(ser(found.steps), rel=1e-9)


@pytest.mark.long
def test_ser_of_a_long_chain_is_inverted():
    """exact: 0.100098 at 552, 0.099926 at 553."""
    verdict = plan(load("paper-2gram"), 512, "ser", 0.1)
    assert 553 <= verdict.chosen.steps <= 556  # its value plus what it may be off by
    if verdict.chosen.steps == 553:
        assert verdict.chosen.predicted.low <= 0.0999259405 <= verdict.chosen.predicted.high
    assert verdict.chosen.predicted.high <= 0.1
    assert verdict.chosen.model_calls == pytest.approx(model_calls(deltas("linear", verdict.chosen.steps), 512))
    assert verdict.optimal.steps <= 553
    assert verdict.optimal.schedule == "fewest-pairs"


@pytest.mark.parametrize("metric", ["ter", "kl"])
def test_divergence_of_a_chain_is_inverted_by_its_mean_over_orders(metric):
    length, target = 100, 0.03
    curve = known.curve(CHAIN, length)
    most = length * math.log(1.03) if metric == "ter" else 0.03
    verdict = plan(CHAIN, length, metric, target)
    steps = verdict.chosen.steps
    assert curve.divergence(deltas("linear", steps)).value <= most < curve.divergence(deltas("linear", steps - 1)).value
    assert verdict.chosen.predicted.method.startswith("upper bound")
    assert verdict.chosen.predicted.value <= target
    assert verdict.optimal.steps <= steps


@pytest.mark.parametrize("metric", ["ser", "ter", "kl"])
def test_tiny_languages_are_inverted_by_enumeration(metric):
    q, length, target = random_ngram(3, 3, temperature=1.5, threshold=0.15, seed=2), 5, 0.02
    every = partitions(q, length)
    own = 2 ** every.entropy_bits()
    measure = {
        "ser": every.ser,
        "ter": lambda delta: 2 ** every.ter_bits(delta) / own - 1,
        "kl": every.divergence,
    }[metric]
    steps = plan(q, length, metric, target).chosen.steps
    assert measure(deltas("linear", steps)) <= target < measure(deltas("linear", steps - 1))


def test_a_target_that_no_number_of_rounds_reaches():
    with pytest.raises(UnmaskError, match=r"no number of steps up to 1,048,576 .* falls as 1/N. Use AR, which"):
        plan(Interval(2), 10, "kl", 0.0)
    floor = Interval(5).closed_form.ser(100, deltas("geometric", 20000))
    with pytest.raises(UnmaskError, match=f"schedule 'geometric', SER stays at {floor:.4g}"):
        plan(Interval(5), 100, "ser", 0.1, "geometric")


def test_the_verdict_goes_with_the_clock():
    """theory.md 9: AR at 3.3 ms a token, a step at 9.4 ms: break-even at 0.35 L model calls."""
    slow = plan(Interval(5), 510, "ser", 0.5, times=(3.3, 9.4))
    assert slow.time_break_even == pytest.approx(3.3 * 510 / 9.4)
    assert "AR is the better choice" in slow.text
    fast = plan(Interval(5), 510, "ter", 0.01, times=(3.3, 9.4))
    assert "Masked diffusion is the better choice" in fast.text
    assert plan(Interval(5), 510, "ser", 0.5, batch=64).chosen.model_calls == pytest.approx(737, abs=1e-6)


@given(st.floats(-3.0, -0.3), st.floats(1.0, 1e4), st.floats(1e-3, 1.0), st.floats(0.2, 5000.0))
def test_least_finds_the_first(power, scale, target, guess):
    def quality(n):
        return scale * n**power

    expected = math.ceil((target / scale) ** (1 / power))
    if expected < 2**24 and quality(expected) <= target < quality(max(expected - 1, 1)):
        assert least(quality, target, guess) == expected


def test_least_stands_stairs_and_says_where_it_is_stuck():
    stairs = [1.0] * 700 + [0.5] * 300 + [0.1] * 5000
    assert least(lambda n: stairs[n - 1] / n, 0.5 / 900) == 900
    assert least(lambda n: stairs[n - 1] / n, 0.5 / 900, slack=0.05) <= 945
    with pytest.raises(Floor) as caught:
        least(lambda n: 0.2 + 1 / n, 0.1, flat=0.99)
    assert caught.value.stuck
    assert caught.value.value == pytest.approx(0.2, abs=0.01)
    with pytest.raises(Floor, match="up to 64 reaches"):
        least(lambda n: 1 / n, 0.01, most=64)
    assert least(lambda n: Interval(5).closed_form.ser(10, deltas("linear", n)), 0.5) == 15


@pytest.mark.long
def test_a_network_pays_for_what_it_has_not_learned():
    language, length, epsilon = load("paper-2gram"), 32, 0.01
    planted = of_language(Perturbed(language, "leak", epsilon), language, length, rows=40)
    ideal, learned = (plan(language, length, "ter", 0.03, learning=found) for found in (None, planted))
    alone = length * math.log1p(0.03) - length * epsilon  # nats that are left for sampling
    expected = plan(language, length, "kl", alone)
    assert learned.chosen.steps == pytest.approx(expected.chosen.steps, abs=1)
    assert learned.chosen.steps > ideal.chosen.steps
    assert "learning" in learned.chosen.predicted.method
    assert learned.chosen.predicted.value == pytest.approx(0.03, rel=0.05)
    assert "AR has no sampling error" in learned.text


def test_what_a_network_cannot_reach():
    language, length = load("paper-2gram"), 16
    planted = of_language(Perturbed(language, "leak", 0.02), language, length, rows=20)
    with pytest.raises(UnmaskError, match=r"learning error is 0.0202 alone. Train the network longer"):
        plan(language, length, "ter", 0.01, learning=planted)
    with pytest.raises(UnmaskError, match="Measure SER with `unmask model learning`"):
        plan(language, length, "ser", 0.1, learning=planted)


@pytest.mark.long
def test_a_chain_without_a_law_is_planned_by_orders():
    """A switch that hardly ever turns: gaps are felt too far away for an exponential law, and first order is off."""
    language = NGram(2, [1 / 3] * 3, [[0.995, 0.005, 0], [0, 0.995, 0.005], [0.005, 0, 0.995]])
    found = plan(language, 256, "ser", 0.4).chosen.predicted
    assert found.method == "rao-blackwell"
    assert found.low < found.value < found.high <= 0.4


def test_what_only_first_order_tells_has_a_width_that_covers():
    """Two tokens of Equal never contradict each other, many do: an SER of .8 where first order sees none."""
    language = Equal()
    verdict = plan(language, 16, "ser", 0.2)
    made = generate(language, steps=verdict.chosen.steps, length=16, rows=500, seed=1)
    assert verdict.chosen.predicted.low <= score(made, language).ser.value <= verdict.chosen.predicted.high
    assert "the SER is certainly below" in verdict.text
