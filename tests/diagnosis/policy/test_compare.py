"""compare(): bias, noise and gains of registered and of own surrogates; what is refused."""

from __future__ import annotations

import pytest
import torch

from tests.diagnosis.enumerated import Free
from unmask import UnmaskError, policy
from unmask.diagnosis.policy.surrogates import ELBO

LOW = "low-confidence(ties='position')"
QUICK = {"calls": (), "along": ()}


def reward(texts):
    return (texts[:, 0] == texts[:, 1]).double()


def compare(surrogate, sampler=LOW, steps=2, seed=1, **how):
    return policy.compare(surrogate, Free(3, 3, seed=seed), sampler, steps, reward, 3, **(QUICK | how))


def test_the_exact_one_has_no_bias_and_gains():
    found = compare("exact", along=(1, 5), step=0.2, calls=(1,))
    assert (found.bias, found.cosine, found.length) == pytest.approx((0, 1, 1))
    assert found.rewards[0] < found.rewards[1] < found.rewards[5]
    assert found.table()["reward after 5 steps"] == found.rewards[5]
    other = compare("one-step", along=(1,), step=0.2)
    assert other.bias > 0.1
    assert other.rewards[1] - other.rewards[0] < found.rewards[1] - found.rewards[0]


def test_an_own_function_is_measured_as_a_registered_one():
    def elbo(model, x, generator):
        return ELBO(model, x, generator, 1)

    own, known = compare(elbo, draws=3000), compare("elbo")
    assert own.surrogate == "elbo"
    assert own.cosine == pytest.approx(known.cosine, abs=0.02)
    assert own.length == pytest.approx(known.length, rel=0.02)


def test_more_evaluations_have_less_noise():
    found = compare("elbo", calls=(1, 16), groups=60)
    assert found.noise[16].variance < 0.8 * found.noise[1].variance
    assert found.noise[16].cosine > 0
    alone = compare("exact", calls=(1, 16), groups=60)
    assert list(alone.noise) == [1]


def test_noise_is_that_of_enumerated_groups():
    """One rollout in a group: E |g|^2 - |E g|^2 of A grad log p over all texts; 2,000 groups, within a tenth."""
    found = compare("exact", calls=(1,), group=1, groups=2000).noise[1].variance
    model = Free(3, 3, seed=1)
    moment = policy.gradient(model, LOW, 2, reward, 3)
    texts = torch.cartesian_prod(*[torch.arange(3)] * 3)
    squares = 0.0
    for number in range(27):
        one = policy.gradient(model, LOW, 2, lambda _, n=number: torch.eye(27)[n], 3)
        advantage = float(reward(texts)[number]) - moment.reward
        squares += float((advantage * one.vector).square().sum()) / one.reward
    known = squares / float(moment.vector.square().sum()) - 1
    assert found == pytest.approx(known, rel=0.1)


@pytest.mark.parametrize(
    ("surrogate", "message"),
    [
        (lambda model, x, generator: torch.zeros(len(x)), "returns numbers without a gradient"),
        (lambda model, x, generator: ELBO(model, x, generator, 1).mean(), r"returns shape \(\); expected \(27,\)"),
        (lambda model, x, generator: ELBO(model, x, generator, 1) * torch.nan, "returns nan for row 0"),
        (lambda model, x, generator: None, r"returns None; expected \(27,\), finite, with a gradient"),
        ("elbow", "did you mean elbo"),
    ],
)
def test_bad_surrogates(surrogate, message):
    with pytest.raises(UnmaskError, match=message) as caught:
        compare(surrogate, draws=2)
    assert "\n" not in str(caught.value)
