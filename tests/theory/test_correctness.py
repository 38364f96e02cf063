"""Theorems 4.3 and 4.4 with their lemmas, and the counterexample to a step of C.5."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.brute import sequences
from tests.theory.cases import LENGTH, cases
from unmask import metrics
from unmask.core.errors import UnmaskError
from unmask.denoisers import Perturbed
from unmask.languages import Interval, random_hmm, random_ngram
from unmask.languages.kernels import paths
from unmask.samplers.schedules import deltas
from unmask.theory import correctness, fluency, statements
from unmask.theory.correctness import (
    all_distinct,
    constant_4_4,
    error_chance,
    lemma_c1,
    lemma_c2,
    lemma_c5,
    lemma_c6,
    linear_steps,
    theorem_4_3,
    theorem_4_3_steps,
    theorem_4_4,
)
from unmask.theory.curves import InformationCurve

shares = st.lists(st.floats(0, 1), min_size=1, max_size=40).filter(lambda x: sum(x) > 0.1)
schedules = shares.map(lambda x: torch.tensor(x, dtype=torch.float64) / math.fsum(x))


def truth(language, length, delta, denoiser):
    p = metrics.output_distribution(denoiser, length, delta)
    return 1 - float(p[language.supports(metrics.sequences(language.vocabulary, length))].sum())


@pytest.mark.parametrize("places", [1, 2, 3, 4])
def test_the_probability_that_no_two_share_a_round(places):
    delta = deltas([0.3, 0.0, 0.45, 0.25])
    expected = sum(
        float(delta[list(labels)].prod())
        for labels in itertools.product(range(4), repeat=places)
        if len(set(labels)) == places
    )
    assert all_distinct(places, delta).value == pytest.approx(expected, abs=1e-12)
    assert lemma_c1(places, delta).allows(1 - expected)


def test_the_birthday_of_equal_rounds():
    assert all_distinct(23, deltas("linear", 365)).value == pytest.approx(1 - 0.507297234, abs=1e-9)
    product = math.prod(1 - k / 100_000 for k in range(512))
    assert all_distinct(512, deltas("linear", 100_000)).value == pytest.approx(product, rel=1e-10)


def test_the_bounds_on_ser_of_300_random_languages():
    """1 - P(distinct), and 1 - exp(-KL) of three divergences, each above the one before; no claim fails."""
    informative = 0
    for case in cases():
        curve, v = case.every.information_curve(), case.language.vocabulary
        ser = case.every.ser(case.delta)
        assert theorem_4_3(LENGTH, case.delta).allows(ser)
        between = curve.total_correlation + curve.dual_total_correlation
        nats = case.every.divergence(case.delta), curve.divergence(case.delta).value
        bounds = [-math.expm1(-n) for n in nats]
        bounds += [statements.ser(fluency.universal(v, LENGTH, case.delta, between)).value]
        bounds += [statements.ser(fluency.universal(v, LENGTH, case.delta)).value]
        assert ser <= bounds[0] + 1e-9
        assert bounds == sorted(bounds) or np.diff(bounds).min() > -1e-9
        informative += bounds[2] < 0.5
        if case.kind == "interval":
            assert ser == pytest.approx(bounds[0], abs=1e-9)  # with equality: p restricted to valid ones is q
            width = case.language.width
            assert lemma_c6(LENGTH, len(case.delta), width).allows(ser)
    assert informative > 100


@pytest.mark.parametrize("kind", ["leak", "tilt"])
@pytest.mark.parametrize("epsilon", [0.02, 0.2])
def test_with_a_learning_error(kind, epsilon):
    for seed in range(6):
        language = random_ngram(2, 3, threshold=0.15, seed=seed) if seed % 2 else random_hmm(3, 2, seed=seed)
        denoiser, delta = Perturbed(language, kind, epsilon), deltas("linear", 2 + seed)
        ser = truth(language, 3, delta, denoiser)
        assert theorem_4_3(3, delta, epsilon).allows(ser)
        between = fluency.interaction(language, 3).value
        assert statements.ser(fluency.universal(language.vocabulary, 3, delta, between, epsilon)).allows(ser)
        many = deltas("linear", 40)
        one_by_one = 1 - truth(language, 3, many, denoiser)  # but where two positions share a round
        assert lemma_c2(3, epsilon).allows(one_by_one / all_distinct(3, many).value)


def test_a_leak_reaches_far_into_lemma_c2():
    """The lemma is not idle: of one token, what leaks at epsilon is most of 1 - exp(-epsilon)."""
    language = random_ngram(2, 3, temperature=3.0, threshold=0.3, seed=3)
    error = truth(language, 1, deltas("linear", 1), Perturbed(language, "leak", 0.1))
    assert 0 < error <= 1 - lemma_c2(1, 0.1).value
    assert error > 0.5 * (1 - lemma_c2(1, 0.1).value)


def test_two_proofs_of_theorem_4_3_in_numbers():
    """theory.md 5: L = 512, V = 8, N = 1e5: birthdays allow an SER of .730, the divergence .0106."""
    delta = deltas("linear", 100_000)
    assert theorem_4_3(512, delta).value == pytest.approx(0.730, abs=5e-4)
    assert statements.ser(fluency.universal(8, 512, delta)).value == pytest.approx(0.0106, abs=5e-5)
    quadratic, linear = theorem_4_3_steps(512, 0.1), linear_steps(512, 0.1, 512 * math.log(8))
    assert (quadratic.value, linear.value) == (2616320, 10106)
    assert theorem_4_3(50, deltas("linear", 24500), -math.log1p(-0.05) / 50).value <= 0.1
    assert linear_steps(1024, 0.1, 1024 * math.log(8)).value / linear.value == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize("ser", [0.05, 0.5, 0.9])
def test_linear_rounds_are_the_least_that_the_bound_allows(ser):
    between = 100 * math.log(4)
    steps = linear_steps(100, ser, between, 1e-5).value

    def bound(steps):
        return statements.ser(fluency.universal(4, 100, deltas("linear", steps), between, 1e-5)).value

    assert bound(steps) <= ser < bound(steps - 1)


def test_the_middle_step_of_c5_is_false():
    """Counterexample: l = 5, delta = (.2, .8). sum_k delta_k (1-delta_k)^4 = .0832 exceeds (1 - 1/2)^4 = .0625.

    What the lemma says is true: 5 positions are never in 2 different steps.
    """
    delta = deltas([0.2, 0.8])
    middle = float((delta * (1 - delta) ** 4).sum())
    assert middle == pytest.approx(0.0832)
    assert lemma_c5(5, delta).value == pytest.approx(0.0625)
    assert not lemma_c5(5, delta).allows(middle)
    assert lemma_c5(5, delta).allows(all_distinct(5, delta).value)
    assert all_distinct(5, delta).value == 0


@given(schedules, st.integers(2, 8))
def test_c5_by_maclaurin(delta, width):
    """P(distinct) <= prod_{k<l} (1 - k/N) <= (1 - 1/N)^(l-1): equal steps collide least."""
    equal = all_distinct(width, deltas("linear", len(delta))).value
    assert all_distinct(width, delta).value <= equal + 1e-12
    assert lemma_c5(width, delta).allows(equal)


@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize("steps", [1, 2, 7, 50, 300])
def test_c6_lies_below_the_exact_ser(width, steps):
    for schedule in ("linear", "cosine", "geometric(ratio=1.3)"):
        for length in (width, 7 * width, 102 * width + 1):
            exact = metrics.ser(Interval(width), length, schedule, steps).value
            assert lemma_c6(length, steps, width).allows(exact)


@pytest.mark.parametrize("epsilon", [1e-3, 1 / 128, 0.05])
@pytest.mark.parametrize("kind", ["leak", "tilt"])
def test_c6_with_a_learning_error(kind, epsilon):
    """p_e = 1/2 - eps against the whole output distribution of a denoiser that errs by eps in every context."""
    language = Interval(2)
    for delta in (deltas("linear", 1), deltas("linear", 4), deltas([0.2, 0.8])):
        ser = truth(language, 4, delta, Perturbed(language, kind, epsilon))
        assert lemma_c6(4, len(delta), 2, error_chance(epsilon)).allows(ser)
        assert lemma_c6(4, len(delta), 2, error_chance(epsilon, coarse=True)).allows(ser)


def test_theorem_4_4_in_numbers():
    """theory.md 6: 293 / 275 / 289 steps at L = 510, 5 / 4 / 4 at L = 10, for p_e = 1/2, 15/32, 63/128."""
    chances = [error_chance(0), error_chance(1 / 128, coarse=True), error_chance(1 / 128)]
    assert chances == [1 / 2, 15 / 32, 63 / 128]
    assert [theorem_4_4(510, wrong=p).value for p in chances] == [293, 275, 289]
    assert [theorem_4_4(10, wrong=p).value for p in chances] == [5, 4, 4]
    assert [constant_4_4(wrong=p).value for p in chances] == pytest.approx([0.577, 0.541, 0.568], abs=5e-4)
    assert theorem_4_4(500_000).value / 500_000 == pytest.approx(constant_4_4().value, rel=1e-3)
    assert theorem_4_4(5).value == 1
    with pytest.raises(UnmaskError, match="length is 5: even for one step"):
        theorem_4_4(5, wrong=15 / 32)


def test_theorem_4_4_is_below_what_is_needed():
    """Exactly 737 steps at L = 510; the bound has 293."""
    assert theorem_4_4(510).allows(737)
    assert metrics.ser(Interval(5), 510, "linear", 293).value > 0.5


@pytest.mark.parametrize("width", [2, 3, 4, 5])
def test_the_machine_has_the_law_of_interval(width):
    """544 states at l = 5, of the 5120 of note C.8; log q(x) of every string, or of 300 and as many damaged ones."""
    language = Interval(width)
    if width < 4:
        tokens = torch.from_numpy(sequences(language.vocabulary, 5))
    else:
        tokens = language.sample(300, 2 * width + 1)
        rng = torch.from_numpy(np.random.default_rng(0).integers(0, language.vocabulary, tokens.shape))
        damaged = torch.where(rng % 7 == 0, rng, tokens)
        hidden = torch.where(rng % 3 == 0, language.vocabulary, tokens)
        tokens = torch.cat([tokens, damaged, hidden])
    machine = language.as_machine()
    found = torch.from_numpy(paths.log_evidence(machine, tokens.numpy()))
    torch.testing.assert_close(found, language.log_evidence(tokens), rtol=0, atol=1e-9)
    assert width < 5 or machine.states == 544


@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize("memory", [1, 3, 7])
def test_without_places_it_is_no_ngram(width, memory):
    """After any number of zero tokens the next is free at one place and not at the one after: no single transition."""
    language, entropies = Interval(width), []
    for at in range(memory, memory + width):
        context = language.blank(1, at + 1)
        context[0, at - memory : at] = 0
        distribution = language.posterior(context, torch.tensor([at]))[0, 0]
        entropies.append(float(torch.special.entr(distribution).sum()))
    assert max(entropies) == pytest.approx((width - 1) * math.log(2))
    assert min(entropies) == pytest.approx(max(width - 1 - memory, 0) * math.log(2))


def test_l_minus_one_tokens_are_needed():
    """The last token of an interval depends on each of the l-1 before it."""
    language = Interval(4)
    known = language.sample(50, 4, seed=3)
    last = torch.tensor([3])
    for forgotten in range(3):
        context = known.clone()
        context[:, [3, forgotten]] = language.vocabulary
        distribution = language.posterior(context, last)
        assert bool((torch.special.entr(distribution).sum(-1) > 0.6).all())


def test_statements_know_what_they_allow():
    upper, lower = lemma_c1(5, deltas("linear", 50)), theorem_4_4(510)
    assert upper.allows(0.1)
    assert not upper.allows(0.3)
    assert lower.allows(300)
    assert not lower.allows(200)
    equal = all_distinct(2, deltas("linear", 5))
    assert equal.allows(0.8)
    assert not equal.allows(0.79)
    assert not equal.allows(0.81)
    assert str(equal).startswith("distinct = 0.8  [theory.md 5; ours; each position")
    known = statements.Statement(math.log(2), "exact", "divergence", "always", "ours", "by hand")
    assert (statements.ser(known).kind, statements.ser(known).value) == ("upper", pytest.approx(0.5))
    assert (statements.ter_ratio(known, 1).kind, statements.ter_ratio(known, 1).value) == ("exact", pytest.approx(2))
    with pytest.raises(ValueError, match="does not bound ser"):
        statements.ser(lower)


def test_a_collision_bound_of_one_pair_is_caught():
    """Mutant: C(L,2) replaced by L/2 fails already for one step."""
    delta = deltas("linear", 10)
    truth = 1 - all_distinct(4, delta).value
    assert lemma_c1(4, delta).allows(truth)
    assert truth > 4 / 2 * float((delta**2).sum())


def test_a_measured_curve_makes_the_same_bound():
    """The universal bound takes any TC + DTC: of a curve given by hand, the area between h(0) and h(1)."""
    curve = InformationCurve(np.array([1.0, 0.5, 0.25]), "by hand")
    assert curve.total_correlation + curve.dual_total_correlation == pytest.approx(3 * 0.75)
    assert correctness.linear_steps(3, 0.5, 2.25).value == math.ceil(2.25 / math.log(2))
