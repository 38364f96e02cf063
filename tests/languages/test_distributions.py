"""Every kind against its definition by enumeration: likelihood, support, posterior, draws and entropy.

Draws are tested by chi-square with a false-alarm rate of 1e-6 a test, at fixed seeds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from tests import brute
from unmask.languages import Language

ALARM = 1e-6
TINY = brute.tiny_languages()
ALL = TINY | brute.long_languages()


class Case(NamedTuple):
    language: Language
    length: int
    strings: np.ndarray  # the support
    q: np.ndarray

    @property
    def vocabulary(self) -> int:
        return self.language.vocabulary

    def partly(self, rows: int, seed: int, share: float | None = None) -> np.ndarray:
        """Random contexts of positive probability: strings of the support, not drawn from q, with any share hidden."""
        rng = np.random.default_rng(seed)
        share = rng.random((rows, 1)) if share is None else share
        tokens = self.strings[rng.integers(len(self.strings), size=rows)]
        return np.where(rng.random(tokens.shape) < share, self.vocabulary, tokens)

    def conditional(self, given: np.ndarray) -> np.ndarray:
        return brute.normalised(self.q * brute.fits(self.strings, given[None], self.vocabulary)[0])


@pytest.fixture(params=ALL)
def case(request: pytest.FixtureRequest) -> Case:
    language, length = ALL[request.param]
    return Case(language, length, *brute.support(language, length))


@pytest.fixture(params=TINY)
def tiny(request: pytest.FixtureRequest) -> Case:
    language, length = TINY[request.param]
    return Case(language, length, *brute.support(language, length))


def tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def log(q: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(q)


def test_likelihood_and_support_of_all_strings(tiny):
    strings = tensor(brute.sequences(tiny.vocabulary, tiny.length))
    q = brute.distribution(tiny.language, tiny.length)
    ours = tiny.language.log_prob(strings).numpy()
    np.testing.assert_allclose(ours, log(q), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(tiny.language.supports(strings).numpy(), q > 0)
    np.testing.assert_allclose(np.exp(ours).sum(), 1, rtol=0, atol=1e-10)


def test_likelihood_on_the_support_and_next_to_it(case):
    """The support carries all mass, and no string one token away from it, but outside, is possible."""
    np.testing.assert_allclose(case.language.log_prob(tensor(case.strings)).numpy(), np.log(case.q), rtol=0, atol=1e-10)
    inside = set(map(tuple, case.strings.tolist()))
    near = {(*x[:j], v, *x[j + 1 :]) for x in inside for j in range(case.length) for v in range(case.vocabulary)}
    if outside := sorted(near - inside):
        assert not case.language.supports(torch.tensor(outside)).any()


def test_evidence_of_all_contexts(tiny):
    """log q(x_R), and -inf exactly where no string fits."""
    contexts = brute.sequences(tiny.vocabulary + 1, tiny.length)
    contexts = contexts[np.random.default_rng(0).permutation(len(contexts))[:4000]]
    q = brute.evidence(tiny.q, tiny.strings, contexts, tiny.vocabulary)
    np.testing.assert_allclose(tiny.language.log_evidence(tensor(contexts)).numpy(), log(q), rtol=0, atol=1e-10)


def test_posterior_of_all_possible_contexts(case):
    """Every context of positive probability where there are a few thousand, else 1000 of them, and the blank one."""
    if (case.vocabulary + 1) ** case.length <= 2**13:
        contexts = brute.sequences(case.vocabulary + 1, case.length)
        contexts = contexts[brute.evidence(case.q, case.strings, contexts, case.vocabulary) > 0]
    else:
        contexts = np.concatenate([case.partly(1000, seed=1), case.partly(1, seed=1, share=1.0)])
    ours = case.language.posterior(tensor(contexts))
    wanted = brute.posterior(case.q, case.strings, contexts, case.vocabulary)
    np.testing.assert_allclose(ours.numpy(), wanted, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(ours.numpy() > 0, wanted > 0)
    revealed = contexts < case.vocabulary
    np.testing.assert_array_equal(ours.numpy()[revealed], np.eye(case.vocabulary)[contexts[revealed]])


def test_posterior_at_chosen_positions(case):
    """One list for all rows, or one a row, in any order and with repetition."""
    contexts = tensor(case.partly(20, seed=2))
    whole = case.language.posterior(contexts)
    shared = torch.tensor([case.length - 1, 0, case.length - 1])
    assert torch.equal(case.language.posterior(contexts, shared), whole[:, shared])
    own = torch.randint(case.length, (20, 2), generator=torch.Generator().manual_seed(0))
    assert torch.equal(case.language.posterior(contexts, own), whole[torch.arange(20).unsqueeze(1), own])


def test_conditional_likelihood(case):
    """log q(x | given) of strings that agree with a pattern and of strings that do not, one pattern for all or each."""
    given = case.partly(40, seed=3)
    strings = case.strings[np.random.default_rng(4).integers(len(case.strings), size=40)]
    agree = brute.fits(strings, given, case.vocabulary)
    q = brute.evidence(case.q, case.strings, strings, case.vocabulary)
    wanted = log(agree * q / brute.evidence(case.q, case.strings, given, case.vocabulary)[:, None])
    ours = [case.language.log_prob(tensor(strings), tensor(pattern)).numpy() for pattern in given]
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-10)
    own = case.language.log_prob(tensor(strings), tensor(given)).numpy()
    np.testing.assert_allclose(own, wanted.diagonal(), rtol=0, atol=1e-10)


def test_draws(case):
    drawn = case.language.sample(20000, case.length, seed=5).numpy()
    assert brute.p_value(drawn, case.strings, case.q) > ALARM


@pytest.mark.sampled(4)
def test_draws_under_a_condition(case):
    """One pattern for all rows, and rows of two patterns in turn."""
    patterns = case.partly(2, seed=6, share=0.6)
    distributions = [case.conditional(pattern) for pattern in patterns]
    drawn = case.language.sample(10000, case.length, seed=7, given=tensor(patterns[0])).numpy()
    assert brute.p_value(drawn, case.strings, distributions[0]) > ALARM
    drawn = case.language.sample(10000, case.length, seed=8, given=tensor(patterns).repeat(5000, 1)).numpy()
    for i, q in enumerate(distributions):
        assert brute.p_value(drawn[i::2], case.strings, q) > ALARM


def test_the_check_of_draws_has_power():
    """Mutants: right marginals but independent positions, one string a little too frequent, and no luck at all."""
    language, length = TINY["hmm, 3 tokens"]
    strings, q = brute.support(language, length)
    rng = np.random.default_rng(0)
    marginals = brute.posterior(q, strings, np.full((1, length), 3), 3)[0]
    independent = np.stack([rng.choice(3, 20000, p=share) for share in marginals], 1)
    biased = brute.normalised(q * np.where(q == q.max(), 1.4, 1.0))
    even = np.repeat(strings, np.round(20000 * q).astype(int), 0)
    assert brute.p_value(strings[rng.choice(len(q), 20000, p=q)], strings, q) > ALARM
    for mutant in (independent, strings[rng.choice(len(q), 20000, p=biased)], even):
        assert brute.p_value(mutant, strings, q) < ALARM
    assert brute.p_value(np.full((1, length), 3), strings, q) == 0


def test_rows_do_not_depend_on_their_block(case):
    """With and without a pattern; another seed gives other rows wherever there is a choice."""
    for given in (None, tensor(case.partly(60, seed=9))):
        whole = case.language.sample(60, case.length, seed=1, given=given)
        for first, rows in ((0, 20), (20, 39), (59, 1)):
            own = None if given is None else given[first : first + rows]
            part = case.language.sample(rows, case.length, seed=1, first_row=first, given=own)
            assert torch.equal(part, whole[first : first + rows])
    plain = case.language.sample(60, case.length, seed=1)
    assert not torch.equal(plain, case.language.sample(60, case.length, seed=2))


def test_blocks_of_patterns_are_joined(monkeypatch):
    """The rows of many patterns are drawn in blocks of bounded memory: three rows at a time change nothing."""
    language, length = TINY["hmm, sparse"]
    given = torch.full((20, length), language.vocabulary)
    given[::2, 1] = language.sample(10, length)[:, 1]
    whole = language.sample(20, length, given=given)
    monkeypatch.setattr("unmask.languages.machine.MESSAGE_BYTES", 3 * 8 * length * language.machine.states)
    assert torch.equal(language.sample(20, length, given=given), whole)


def test_entropy(case):
    """Exact to 1e-9, or within 6 standard errors; under a condition too."""
    for given in (None, *case.partly(4, seed=10, share=0.5), case.strings[0]):
        q = case.q if given is None else case.conditional(given)
        ours = case.language.entropy(case.length, given=None if given is None else tensor(given), seed=3)
        tolerance = 0 if ours.exact else 6 * ours.standard_error
        assert abs(ours.value - brute.entropy(q)) <= tolerance + 1e-9
        assert ours.exact or ours.n == 2000


def test_exact_entropy_where_a_sequence_determines_its_path():
    for name, (language, length) in ALL.items():
        assert language.entropy(length).exact == (not name.startswith("hmm")), name
