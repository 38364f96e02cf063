"""Facts about machines against brute force: primitivity, eigenvalues, entropy rates, valid fractions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests import brute
from unmask.languages import HMM, Brackets, NGram, load, random_hmm, random_ngram
from unmask.languages.properties import entropy_rate, primitive, second_eigenvalue, valid_fraction

GRAPHS = st.integers(1, 6).flatmap(lambda n: st.lists(st.integers(1, 2**n - 1), min_size=n, max_size=n))


def chain(transition, initial=None) -> HMM:
    """Each state its own symbol."""
    transition = np.array(transition, float)
    transition /= transition.sum(1, keepdims=True)
    states = len(transition)
    return HMM(np.full(states, 1 / states) if initial is None else initial, transition, np.eye(states))


def has_positive_power(transition: np.ndarray) -> bool:
    """Some power is positive on the states that recur, by powers up to Wielandt's bound and beyond."""
    states, edges = len(transition), transition > 0
    steps = np.eye(states, dtype=bool)
    reach = np.linalg.matrix_power(np.eye(states) + edges, states) > 0
    recurrent = np.flatnonzero([(reach[s] <= reach[:, s]).all() for s in range(states)])
    for _ in range(states**2 + 1):
        steps = steps @ edges
        if steps[np.ix_(recurrent, recurrent)].all():
            return True
    return False


@settings(deadline=None, database=None, derandomize=True, max_examples=500)
@given(GRAPHS, st.integers(0, 5))
@example([0b010, 0b100, 0b001], 0)
@example([0b010, 0b100, 0b011], 0)
@example([0b11, 0b10], 0)
@example([0b01, 0b10], 1)
def test_primitive(successors, start):
    """Every directed graph, wherever it starts; a cycle, a cycle with a shortcut, a transient state, two classes."""
    states = len(successors)
    transition = np.array([[row >> t & 1 for t in range(states)] for row in successors])
    language = chain(transition, np.eye(states)[start % states])
    assert primitive(language.machine) == has_positive_power(transition)


def test_second_eigenvalue():
    assert second_eigenvalue(chain([[0.7, 0.3], [0.1, 0.9]]).machine) == pytest.approx(0.6)
    assert second_eigenvalue(chain([[0, 1, 0], [0, 0, 1], [1, 0, 0]]).machine) == pytest.approx(1)
    assert second_eigenvalue(chain([[1]]).machine) == 0
    language = random_hmm(6, 3, seed=2)
    sizes = sorted(abs(np.linalg.eigvals(language.transition)))
    assert second_eigenvalue(language.machine) == pytest.approx(sizes[-2])


def stationary(transition: np.ndarray) -> np.ndarray:
    equations = np.vstack([transition.T - np.eye(len(transition)), np.ones(len(transition))])
    return np.linalg.lstsq(equations, np.eye(len(transition) + 1)[-1], rcond=None)[0]


@pytest.mark.parametrize("seed", range(3))
def test_entropy_rate_of_a_chain(seed):
    """sum_s pi(s) H(T(s, .))"""
    language = load(f"paper-2gram(seed={seed})")
    pi = stationary(language.transition)
    wanted = sum(mass * brute.entropy(row) for mass, row in zip(pi, language.transition, strict=True))
    ours = entropy_rate(language)
    assert ours.exact
    assert ours.value == pytest.approx(wanted, abs=1e-9)
    assert language.describe()["entropy_rate_bits"] == pytest.approx(wanted / math.log(2), abs=1e-9)


def test_entropy_rate_by_sampling():
    """Independent tokens from a hidden mixture: inside 6 standard errors of their entropy."""
    transition = np.tile([0.2, 0.3, 0.5], (3, 1))
    emission = np.array([[0.5, 0.5, 0], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    ours = entropy_rate(HMM(transition[0], transition, emission))
    assert not ours.exact
    assert abs(ours.value - brute.entropy(transition[0] @ emission)) < 6 * ours.standard_error


def test_entropy_rate_of_brackets():
    """Strings of one length are equally likely, so the rate is the logarithm of their growth."""
    wanted = math.log(2 * math.sqrt(2) * math.cos(math.pi / 6))
    assert entropy_rate(Brackets(2, 4)).value == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    "language", [random_ngram(2, 2, threshold=0.3, seed=s) for s in range(4)] + [Brackets(1, 2), Brackets(1, 3)]
)
def test_valid_fraction_by_enumeration(language):
    """All 2^16 strings of 16 tokens."""
    q = brute.distribution(language, 16)
    ours = valid_fraction(language)
    assert ours.exact
    assert ours.value == pytest.approx((q > 0).mean(), abs=1e-12)


def test_valid_fraction_by_sampling():
    """Two states, one of which emits only 0 and must follow a 1: no two 1s in a row, a Fibonacci number of strings."""
    language = HMM([1, 0], [[0.5, 0.5], [1, 0]], [[1, 0], [0.5, 0.5]])
    ours = valid_fraction(language)
    starts_with_zero = [1, 1]
    for _ in range(15):
        starts_with_zero.append(starts_with_zero[-1] + starts_with_zero[-2])
    assert not ours.exact
    assert abs(ours.value - starts_with_zero[-1] / 2**16) < 6 * ours.standard_error


def test_description_of_every_kind():
    for name, (language, _) in brute.tiny_languages().items():
        facts = language.describe()
        assert list(facts)[:2] == ["kind", "vocabulary"], name
        assert facts["kind"] == language.kind
        assert "entropy_rate_bits" in facts
    facts = NGram(2, [0.5, 0.5], [[0.5, 0.5], [1, 0]]).describe()
    assert (facts["states"], facts["transitions"], facts["deterministic"], facts["primitive"]) == (2, 3, True, True)


def test_description_of_a_language_of_one_length():
    """Nothing to grow: no entropy rate, but no division by zero either."""
    facts = HMM([1, 0], [[0, 1], [0, 1]], np.eye(2), [1, 0]).describe()
    assert facts["states"] == 2
