"""Surrogates: the formula of each, the mean of its draws, and what is known of its bias."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from tests.diagnosis.enumerated import Free
from tests.diagnosis.noisy import CHAIN3, chain
from unmask import policy
from unmask.denoisers import Ideal
from unmask.diagnosis.policy.gradient import Policy
from unmask.diagnosis.policy.surrogates import SURROGATES, exponential

L, V = 4, 3
X = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
LINEAR = ("one-step", "elbo", "stratified", "antithetic", "coupled", "gdpo")
LOW = "low-confidence(ties='position')"


@pytest.fixture(scope="module")
def model():
    return Policy(Free(V, L, seed=2))


def each(model, x, hidden):
    """(sum over the set of log p, the log p of each position of it) of one text and one set."""
    context = [V if i in hidden else int(t) for i, t in enumerate(x)]
    log = model(torch.tensor([context]))[0]
    return {i: float(log[i, x[i]].detach()) for i in hidden}


def over_sets(model, x, weight):
    """sum over sets M of weight(m) sum over M."""
    sets = (some for m in range(1, L + 1) for some in itertools.combinations(range(L), m))
    return sum(weight(len(some)) * sum(each(model, x, some).values()) for some in sets)


def coupled(m):
    """Half of the full mask, and both masks of a pair by quadrature over the ratio."""
    ratios = [0.2 + 0.6 * (k + 0.5) / 4000 for k in range(4000)]
    return 0.5 * (m == L) + sum(t ** (m - 1) * (1 - t) ** (L - m) for t in ratios) / 4000


FORMULAS = {
    "one-step": lambda m: float(m == L),
    "elbo": lambda m: 1 / m / math.comb(L, m),
    "coupled": coupled,
    "gdpo": lambda m: sum(
        0.5 / t / math.comb(L, m) for t in (0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5) if m == int(L * t)
    ),
}
FORMULAS |= {"stratified": FORMULAS["elbo"], "antithetic": FORMULAS["elbo"]}


@pytest.mark.parametrize("name", LINEAR)
def test_the_expectation_is_the_formula(model, name):
    found = SURROGATES[name].score(model, X, None)
    assert found.tolist() == pytest.approx([over_sets(model, x, FORMULAS[name]) for x in X.tolist()], abs=1e-6)


@pytest.mark.parametrize("evaluations", [1, 4])
@pytest.mark.parametrize("name", LINEAR)
def test_draws_have_this_expectation(model, name, evaluations):
    """4,000 draws, 6.2 standard errors: a false alarm in 1e-9 each. The next surrogate's expectation fails."""
    score, generator = SURROGATES[name].score, torch.Generator().manual_seed(3)
    with torch.no_grad():
        drawn = score(model, X[:1].expand(4000, -1), generator, evaluations)
        mean, other = (float(SURROGATES[one].score(model, X[:1], None)) for one in (name, "coupled"))
    error = 6.2 * float(drawn.std()) / 4000**0.5 + 1e-9
    assert abs(float(drawn.mean()) - mean) < error
    assert name == "coupled" or abs(float(drawn.mean()) - other) > error


def test_spreading_the_sets_lowers_the_variance(model):
    spread = {}
    for name in ("elbo", "stratified", "antithetic"):
        with torch.no_grad():
            drawn = SURROGATES[name].score(model, X[:1].expand(4000, -1), torch.Generator().manual_seed(3), 4)
        spread[name] = float(drawn.var())
    assert spread["stratified"] < 0.9 * spread["elbo"]


@pytest.mark.parametrize(("name", "share"), [("spg-upper", 1.0), ("spg-mixed", 0.5)])
def test_the_bounds_of_spg(model, name, share):
    """A < 0: sum_i log E[L/m, i in M, p^b] / b, mixed with elbo; A > 0: elbo."""
    score = SURROGATES[name].score
    lower = over_sets(model, X[0].tolist(), FORMULAS["elbo"])
    masses = dict.fromkeys(range(L), 0.0)
    for m in range(1, L + 1):
        for some in itertools.combinations(range(L), m):
            for i, log in each(model, X[0].tolist(), some).items():
                masses[i] += math.exp(1.5 * log) / m / math.comb(L, m)
    upper = sum(math.log(mass) for mass in masses.values()) / 1.5
    found = score(model, X[:1].expand(2, -1), None, advantage=torch.tensor([1.0, -1.0])).tolist()
    assert found == pytest.approx([lower, share * upper + (1 - share) * lower])
    many = score(model, X[:1], torch.Generator().manual_seed(1), 20_000, advantage=torch.tensor([-1.0]))
    assert float(many.detach()) == pytest.approx(found[1], abs=0.1)


def test_wd1_weights_sum_to_zero():
    p, advantage = torch.tensor([0.5, 0.25, 0.25]).double(), torch.tensor([-0.5, 0.5, 0.5]).double()
    weight = exponential(p, advantage)
    assert float((p * weight).sum()) == pytest.approx(0)
    up, down = advantage.exp(), (-advantage).exp()
    assert torch.allclose(weight, up / (0.5 * up[0] + 0.5 * up[1]) - down / (0.5 * down[0] + 0.5 * down[1]))


class Perfect(torch.nn.Module):
    """The logits of an ideal denoiser, and a shift of each."""

    vocabulary = 3

    def __init__(self, language, length):
        super().__init__()
        self.ideal, self.digits = Ideal(language), 4 ** torch.arange(length).flip(0)
        self.shift = torch.nn.Parameter(torch.zeros((4**length, length, 3), dtype=torch.float64))

    def forward(self, contexts):
        log = self.ideal.probabilities(contexts).clamp(min=1e-30).log()
        return log + self.shift[(contexts * self.digits).sum(-1)]


def test_of_a_perfect_network_in_a_random_order_the_elbo_is_exact():
    """One token a step. With two it is not, and a trajectory still is; where tokens decide neither is."""

    def first(texts):
        return (texts[:, 0] == 1).double()

    def cosine(name, sampler, steps):
        how = {"calls": (), "along": ()}
        return policy.compare(name, Perfect(chain(CHAIN3), 4), sampler, steps, first, 4, **how).cosine

    assert cosine("elbo", "fixed-size", 4) == pytest.approx(1)
    assert cosine("elbo", "fixed-size", 2) < 0.99
    assert cosine("trajectory", "fixed-size", 2) == pytest.approx(1)
    assert cosine("one-step", "fixed-size", 1) == pytest.approx(1)
    assert cosine("trajectory", LOW, 2) < 0.999
