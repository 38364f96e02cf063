"""Languages of others: one that says no more than its likelihood gets an answer or a reason, and one that has closed
forms of its own is asked for them everywhere, from the one class that has them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.api.test_languages import Equal
from unmask import UnmaskError, generate, metrics, score
from unmask.core.estimates import Estimate
from unmask.denoisers import Ideal, Perturbed
from unmask.languages import Language
from unmask.planning.plan import plan
from unmask.samplers.schedules import Fit, deltas
from unmask.theory import chains, exponential, fluency, known, listed
from unmask.theory.partitions import partitions

EQUAL, TINY, LONG = Equal(), 6, 16
DELTA = deltas("linear", 4)


@pytest.mark.parametrize("length", [TINY, LONG])
def test_what_is_known_of_a_likelihood_alone(length):
    """Exact where its strings can be listed, else measured: at both lengths h(0) = L ln 2 and h(1) = 0."""
    values = known.exact(EQUAL, length, DELTA)
    assert (values.ser is not None) == (length == TINY)
    assert values.notes or length == TINY
    curve, errors = known.curve(EQUAL, length, rows=200), known.error_curve(EQUAL, length, rows=20)
    assert (curve.rows is None) == (errors.terms is None) == (length == TINY)
    found = curve.nelbo(deltas("linear", 10**6)).value  # one token at a time: H
    assert found == pytest.approx(math.log(math.comb(length, length // 2)), rel=0.05)
    assert curve.f[0] == pytest.approx(math.log(2))
    assert curve.f[-1] == pytest.approx(0, abs=1e-12)
    between = fluency.interaction(EQUAL, length)
    assert between.value == pytest.approx(length * math.log(2))
    assert chains.first_order(EQUAL) is None
    assert known.exact_curve(EQUAL, LONG) is None


@pytest.mark.parametrize("length", [TINY, LONG])
def test_every_statement_speaks_or_says_why_not(length):
    case = listed.Case(EQUAL, length, DELTA)
    said = dict(listed.shown((), case))
    reasons = {name: what for name, what in said.items() if isinstance(what, str)}
    assert set(said) == set(listed.STATEMENTS.makers)
    assert all("expected an n-gram" in why for name, why in reasons.items() if not name.startswith("joint"))
    assert "joint-step" in reasons  # a stranger has no automaton


@pytest.mark.parametrize("length", [TINY, LONG])
@pytest.mark.parametrize("job", ["ser", "ter", "kl"])
def test_it_is_planned(job, length):
    verdict = plan(EQUAL, length, job, 0.2)
    assert 1 <= verdict.optimal.steps <= verdict.chosen.steps
    assert verdict.chosen.predicted.value <= 0.2 * 1.02
    measured = (
        "first order: monte carlo, at most 1 - e^-KL" if job == "ser" else "upper bound: mean over orders, monte carlo"
    )
    assert verdict.chosen.predicted.method == ("exact: enumeration" if length == TINY else measured)


@pytest.mark.parametrize("length", [TINY, LONG])
def test_it_is_scored(length):
    made = generate(EQUAL, steps=4, length=length, rows=50, seed=1)
    found = score(made, EQUAL)
    assert found.ser_rao_blackwell is None
    assert found.ser.value == pytest.approx(float((made.tokens.sum(1) != length // 2).double().mean()))
    assert isinstance(metrics.ter_autoregressive(EQUAL, length), Estimate)
    assert metrics.rows(made.tokens, EQUAL).ser == found.ser
    assert metrics.window_counts(made.tokens, 2, 2).sum() > 0
    assert metrics.bigrams(made.tokens, EQUAL) is not None


def test_what_only_enumeration_says_names_what_there_is_instead():
    distribution = metrics.output_distribution(Ideal(EQUAL), TINY, DELTA)
    expected = 1 - float(distribution[EQUAL.supports(metrics.sequences(2, TINY))].sum())
    assert metrics.ser(EQUAL, TINY, "linear", 4).value == pytest.approx(expected)
    assert metrics.ter(EQUAL, TINY, "linear", 4).value == pytest.approx(
        2 ** (partitions(EQUAL, TINY).ter_bits(DELTA)), rel=1e-12
    )
    for ask, reason in [
        (lambda: metrics.ser(EQUAL, LONG, "linear", 4), "no exact SER for equal at length 16. Measure it with score"),
        (lambda: metrics.ter(EQUAL, LONG, "linear", 4), "no exact TER for equal at length 16. Use ter_upper"),
        (lambda: exponential.exponential_ser(EQUAL, DELTA), "SER of equal is not known to be exponential"),
        (lambda: partitions(EQUAL, LONG), "2 symbols at length 16 give 65,536 sequences"),
    ]:
        with pytest.raises(UnmaskError, match=reason):
            ask()


class TwinsForm:
    """Each pair is lost in the steps that it shares: with chance s = sum_k delta_k^2, and then a half is valid."""

    method = "closed form of twins"

    def ser(self, length, delta):
        return -math.expm1(self.log_valid(length, delta))

    def ser_of_orders(self, order, groups=None):
        return None

    def bits(self, length):
        return length / 2

    def log_valid(self, length, delta):
        return length / 2 * math.log1p(-float((delta**2).sum()) / 2)

    def divergence(self, length, delta):
        return -self.log_valid(length, delta)

    def order_divergence(self, length, delta):
        return length / 2 * float((delta**2).sum()) * math.log(2)

    def generative_bits(self, length, delta):
        return length / 2

    def information(self, length):
        return math.log(2) * (1 - np.arange(length) / (length - 1))

    def errors(self, length):
        return np.full(length - 1, length / 4 / math.comb(length, 2))


class Twins(Language):
    """x_i = x_{L+1-i}, each pair a fair coin: no chain at any length, and no machine was made of it."""

    kind = "twins"
    vocabulary = 2

    @property
    def closed_form(self):
        return TwinsForm()

    def parameters(self):
        return {}

    def log_evidence(self, tokens):
        other = tokens.flip(1)
        half = tokens.shape[1] // 2
        differ = ((tokens != 2) & (other != 2) & (tokens != other)).any(1)
        shown = ((tokens != 2) | (other != 2))[:, :half].sum(1).double()
        return torch.where(differ, -torch.inf, -shown * math.log(2))

    def possible_lengths(self, longest):
        return (np.arange(longest + 1) % 2 == 0) & (np.arange(longest + 1) > 0)


TWINS = Twins()


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_closed_form_of_ones_own_is_asked_for_and_agrees_with_enumeration(schedule):
    delta, every = deltas(schedule, 5), partitions(TWINS, TINY)
    values = known.exact(TWINS, TINY, delta)
    assert values.method["ser"] == "closed form of twins"
    assert values.ser == pytest.approx(every.ser(delta), abs=1e-12)
    assert values.divergence_nats == pytest.approx(every.divergence(delta), abs=1e-12)
    assert values.ter_bits_per_token == pytest.approx(every.ter_bits(delta), abs=1e-12)
    assert values.generative_nll_bits_per_token == pytest.approx(every.generative_nll_bits(delta), abs=1e-12)
    expected = every.information_curve().divergence(delta).value
    assert values.expected_plan_divergence_nats == pytest.approx(expected, abs=1e-12)
    assert known.curve(TWINS, TINY).f == pytest.approx(every.information_curve().f, abs=1e-12)
    assert known.error_curve(TWINS, TINY).g == pytest.approx(every.error_curve().g, abs=1e-12)


def test_it_is_asked_at_every_length_and_by_everybody():
    length, steps = 512, 64
    delta = deltas("linear", steps)
    ser = 1 - (1 - 1 / steps / 2) ** (length / 2)
    assert metrics.ser(TWINS, length, "linear", steps).value == pytest.approx(ser)
    assert metrics.ter(TWINS, length, "linear", steps).value == pytest.approx(2**0.5 * (1 - ser) ** (-1 / length))
    assert known.exact(TWINS, length, delta).ser == pytest.approx(ser)
    assert fluency.interaction(TWINS, length).value == pytest.approx(length * math.log(2))
    found = known.exact(TWINS, length, delta).expected_plan_divergence_nats
    assert found == pytest.approx(length / 2 / steps * math.log(2))
    chosen = plan(TWINS, length, "ser", ser).chosen
    assert (chosen.steps, chosen.predicted.method) == (steps, "exact: closed form of twins")
    assert len(deltas("fewest-pairs", 8, Fit(TWINS, length))) == 8


class Told(TwinsForm):
    """What orders say of its SER, too."""

    def ser_of_orders(self, order, groups=None):
        pairs = ((order == order.flip(1)) & (order > 0)).sum(1) / 2
        return metrics.rows(torch.zeros_like(order), TWINS).ser.map(lambda _: float((1 - 0.5**pairs).mean()))


def test_only_orders_of_its_own_ideal_denoiser_speak_for_its_ser(monkeypatch):
    how = {"steps": 6, "length": 12, "rows": 400, "seed": 3}
    assert score(generate(TWINS, **how), TWINS).ser_rao_blackwell is None
    monkeypatch.setattr(Twins, "closed_form", property(lambda self: Told()))
    found = score(generate(TWINS, **how), TWINS)
    assert found.ser_rao_blackwell.value == pytest.approx(1 - (1 - 1 / 12) ** 6, abs=0.05)
    assert score(generate(TWINS, sampler="low-confidence", **how), TWINS).ser_rao_blackwell is None
    assert score(generate(EQUAL, **how), TWINS).ser_rao_blackwell is None
    assert score(generate(Perturbed(TWINS, "leak", 0.1), **how), TWINS).ser_rao_blackwell is None
