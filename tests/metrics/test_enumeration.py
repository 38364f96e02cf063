"""The output distribution of ancestral sampling and the exact TER, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests import brute
from tests.brute import distribution, entropy
from tests.metrics.small import FIXED, SMALL, VARYING
from unmask.core.errors import UnmaskError
from unmask.denoisers import Ideal, Perturbed
from unmask.languages import Brackets, Interval, ModularSum, random_hmm, random_ngram
from unmask.metrics import output_distribution, sequences, ter, ter_autoregressive
from unmask.samplers.schedules import deltas


@pytest.mark.parametrize(("vocabulary", "length"), [(2, 1), (2, 6), (3, 4), (5, 5), (20_000, 1)])
def test_sequences_are_all_in_lexicographic_order(vocabulary, length):
    assert np.array_equal(sequences(vocabulary, length).numpy(), brute.sequences(vocabulary, length))


@pytest.mark.parametrize(("vocabulary", "length"), [(2, 7), (28, 3), (20_001, 1)])
def test_what_is_too_large_says_what_to_do_instead(vocabulary, length):
    message = f"{vocabulary**length:,} sequences of length {length}; expected at most .* Use ter_upper"
    with pytest.raises(UnmaskError, match=message):
        sequences(vocabulary, length)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", SMALL)
def test_the_output_law_sums_to_one(name):
    language, length = SMALL[name]
    for schedule in ([1.0], [0.0, 1.0], [0.3, 0.0, 0.7, 0.0], [0.1, 0.2, 0.3, 0.4]):
        p = output_distribution(Ideal(language), length, deltas(schedule))
        assert p.dtype == torch.float64
        assert float(p.min()) >= 0
        assert float(p.sum()) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", ["hmm, sparse", "3-gram, pruned", "interval 3, partial", "brackets, 2 kinds"])
@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_one_round_is_the_product_of_the_marginals(name, wrong):
    language, length = SMALL[name]
    denoiser = Perturbed(language, "leak", wrong) if wrong else Ideal(language)
    marginals = denoiser.posterior(language.blank(1, length))[0].numpy()
    product = np.prod(marginals[np.arange(length), brute.sequences(language.vocabulary, length)], axis=1)
    np.testing.assert_allclose(output_distribution(denoiser, length, deltas("linear", 1)).numpy(), product, atol=1e-12)


@pytest.mark.parametrize("name", ["2-gram, pruned", "hmm, sparse", "3-gram, short"])
def test_many_rounds_leave_what_collisions_do(name):
    """|p - q| <= P(two positions share a step) <= L(L-1)/(2N) in total variation; for one position p = q."""
    language, length = SMALL[name][0], min(SMALL[name][1], 3)
    p = output_distribution(Ideal(language), length, deltas("linear", 3000)).numpy()
    assert np.abs(p - distribution(language, length)).sum() / 2 <= math.comb(length, 2) / 3000 + 1e-9


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize(("schedule", "steps"), [("linear", 1), ("cosine", 3), ([0.0, 0.6, 0.4], None)])
def test_ter_is_its_definition(name, schedule, steps):
    """2^E_q[-log2 p(x) / L] over every string; never below the language's own, which exact autoregression reaches."""
    language, length = FIXED[name]
    q, p = distribution(language, length), output_distribution(Ideal(language), length, deltas(schedule, steps)).numpy()
    expected = math.prod(p[q > 0] ** (-q[q > 0] / length))
    ours = ter(language, length, schedule, steps)
    assert ours.exact
    assert ours.value == pytest.approx(expected, rel=1e-10)
    assert ours.value >= math.exp(entropy(q) / length) * (1 - 1e-10)


@pytest.mark.parametrize("name", FIXED)
def test_autoregression_has_the_ter_of_the_language(name):
    """Exact where paths are unambiguous; within 6 standard errors where the entropy is sampled (fixed seed)."""
    language, length = FIXED[name]
    ours, expected = ter_autoregressive(language, length), math.exp(entropy(distribution(language, length)) / length)
    assert abs(ours.value - expected) <= 6 * ours.standard_error + 1e-10
    assert ours.exact == (language.entropy(length).method == "exact")


@pytest.mark.parametrize("name", VARYING)
def test_ter_of_varying_lengths_has_no_closed_form(name):
    language, length = VARYING[name]
    for ask in (ter_autoregressive, lambda *case: ter(*case, steps=2)):
        with pytest.raises(UnmaskError, match=f"{language.kind} varies in length, .* Use ter_upper"):
            ask(language, length)


@pytest.mark.parametrize(
    ("language", "length", "message"),
    [
        (random_ngram(2, 3), 7, "no exact TER for ngram at length 7. Use ter_upper"),
        (random_hmm(4, 28), 3, "no exact TER for hmm at length 3. Use ter_upper"),
        (ModularSum(2), 6, "modular-sum has no sequence of length 6; the nearest lengths: 5 and 11"),
        (Brackets(), 3, "brackets has no sequence of length 3; the nearest lengths: 2 and 4"),
        (Interval(3), 0, "length is 0"),
    ],
)
def test_ter_refuses_what_it_cannot_know(language, length, message):
    with pytest.raises(UnmaskError, match=message):
        ter(language, length, "linear", 2)
