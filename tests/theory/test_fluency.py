"""Theorem 4.2 and the universal bound: their numbers, and that they bound on 300 random languages and schedules."""

from __future__ import annotations

import math

import pytest
import torch

from reproduction.separators import excess_bound, explicit, explicit_fraction, explicit_steps, lemma_a1, lemma_b9
from tests.theory.cases import LENGTH, cases
from unmask.core.errors import UnmaskError
from unmask.denoisers import Perturbed
from unmask.languages import Interval, random_hmm, random_ngram
from unmask.metrics import output_distribution, sequences
from unmask.samplers.schedules import deltas
from unmask.theory import fluency, statements
from unmask.theory.fluency import interaction, theorem_4_2, universal


def test_the_universal_bound_on_300_random_languages():
    """KL(q || p) <= E KL(q || p_order) <= max delta (TC + DTC) <= max delta L log|V|; fixed sizes likewise."""
    for case in cases():
        v, curve = case.language.vocabulary, case.every.information_curve()
        between = curve.total_correlation + curve.dual_total_correlation
        ours, coarse = universal(v, LENGTH, case.delta, between), universal(v, LENGTH, case.delta)
        plan = curve.divergence(case.delta).value
        assert case.every.divergence(case.delta) <= plan + 1e-9
        assert ours.allows(plan)
        assert coarse.allows(ours.value)
        fixed = universal(v, LENGTH, case.delta, between, fixed=True)
        assert fixed.allows(curve.divergence(case.delta, fixed_size=True).value)
        assert interaction(case.language, LENGTH).value == pytest.approx(between, abs=1e-9)


def test_the_universal_bound_is_within_two_of_the_truth_where_the_curve_is_a_line():
    """Interval, equal steps: E KL is exactly half of the bound; so no better constant than 1/2 could hold."""
    curve = fluency.known.curve(Interval(3), 12)
    for steps in (1, 2, 50):
        delta = deltas("linear", steps)
        bound = universal(4, 12, delta, interaction(Interval(3), 12).value)
        assert 2 * curve.divergence(delta).value == pytest.approx(bound.value)


def test_a_maximum_that_is_a_mean_is_caught():
    """Mutant: 1/N in place of max delta fails for schedules that are not equal."""
    failed = 0
    for case in cases():
        curve = case.every.information_curve()
        between = curve.total_correlation + curve.dual_total_correlation
        failed += curve.divergence(case.delta).value > between / len(case.delta) + 1e-9
    assert failed > 10


@pytest.mark.parametrize("kind", ["leak", "tilt"])
@pytest.mark.parametrize("epsilon", [0.02, 0.3])
def test_learning_errors_add_up_to_their_number(kind, epsilon):
    """Perturbed denoisers err by epsilon in every context (tilt at most): KL(q || p) by the whole output law."""
    for seed in range(6):
        language = random_ngram(2, 3, threshold=0.1, seed=seed) if seed % 2 else random_hmm(3, 2, seed=seed)
        delta = deltas("cosine", 1 + seed)
        q = language.log_prob(sequences(language.vocabulary, LENGTH)).exp()
        p = output_distribution(Perturbed(language, kind, epsilon), LENGTH, delta)
        truth = float(torch.where(q > 0, q * (q / p).log(), 0.0).sum())
        between = interaction(language, LENGTH).value
        assert universal(language.vocabulary, LENGTH, delta, between, epsilon).allows(truth)
        if kind == "leak" and seed == 5:
            assert not universal(language.vocabulary, LENGTH, delta, between).allows(truth)


def test_theorem_4_2_and_its_schedule_on_random_ngrams():
    checked = 0
    for case in (case for case in cases() if case.n):
        v, eps = case.language.vocabulary, 0.2 + 0.02 * (checked % 30)
        delta = deltas(f"theorem-4.2(order={case.n})", explicit_steps(case.n, eps))
        bound = explicit(case.n, v, LENGTH, eps)
        assert bound.allows(case.every.information_curve().divergence(delta).value)
        assert bound.allows(excess_bound(case.n, LENGTH, delta).value * math.log(v))
        assert theorem_4_2(case.n, v, LENGTH, eps).allows(bound.value)
        checked += 1
    assert checked == 150


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("eps", [0.05, 0.1, 0.3, 0.5])
def test_the_explicit_version_is_below_2_4_eps(eps, n):
    """The paper has 4 eps; closed forms have up to 1.6 eps, and the exact expectation of its schedule 1.01 to 1.32."""
    assert eps <= explicit_fraction(n, eps) <= 1.6 * eps
    if explicit_steps(n, eps) < 2000:
        delta = deltas(f"theorem-4.2(order={n})", explicit_steps(n, eps))
        share = lemma_b9(n, 2, 200, delta).value / 200 / math.log(2)
        assert 0.9 * eps <= share <= 1.33 * eps
        assert share <= explicit_fraction(n, eps)


def test_rounds_against_n():
    """theory.md 4 at eps = .05: 381 / 15201 / 456001, where 20 equal ones do for every n."""
    assert [explicit_steps(n, 0.05) for n in (2, 3, 4)] == [381, 15201, 456001]


def test_lemma_a1_is_reached_by_copies():
    """k copies of a fair token of V: KL of k independent ones is exactly (k-1) log V."""
    assert lemma_a1(4, 3).value == pytest.approx(2 * math.log(4))
    for case in cases()[:40]:
        marginals = case.every.information_curve()
        assert lemma_a1(case.language.vocabulary, LENGTH).allows(marginals.total_correlation)


def test_what_is_known_of_tc_and_dtc():
    """Exact where the curve is, and else an upper bound that says so."""
    language = random_ngram(3, 3, seed=1)
    tiny, long = interaction(language, 5), interaction(language, 20)
    assert tiny.exact
    assert not long.exact
    assert long.method.startswith("upper bound")
    assert float(torch.special.entr(language.posterior(language.blank(1, 20))).sum()) == pytest.approx(long.value)
    assert interaction(Interval(5), 510).value == pytest.approx(510 * 4 * math.log(2))


def test_ter_ratio_is_the_exponential_of_nats_a_token():
    bound = statements.ter_ratio(universal(8, 50, deltas("linear", 10)), 50)
    assert bound.of == "ter_ratio"
    assert bound.kind == "upper"
    assert bound.value == pytest.approx(8**0.1)
    assert str(bound).startswith("ter_ratio <= 1.23114  [definition of TER, by theory.md 4; ours; any language")


@pytest.mark.parametrize(("eps", "n", "message"), [(0.0, 2, "eps is 0.0"), (1.5, 2, "eps is 1.5"), (0.1, 1, "n is 1")])
def test_refusals(eps, n, message):
    with pytest.raises(UnmaskError, match=message):
        explicit(n, 8, 512, eps)
