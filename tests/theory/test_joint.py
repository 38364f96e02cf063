"""Statements about joint draws, next to laws by enumeration."""

from __future__ import annotations

import pytest
import torch

from tests.samplers.joints import Laws, joints, sparse_chain, sparse_hidden
from unmask import UnmaskError
from unmask.languages import load
from unmask.theory import fluency

EVERY = ((0, 1, 2, 3, 4, 5),)


@pytest.mark.parametrize(("language", "error"), [(sparse_chain(1, 2), 1e-9), (sparse_hidden(1), 0.05)])
def test_one_fitted_step_is_below_its_bound(language, error):
    """The entropy of a hidden chain is estimated."""
    laws, draws = Laws(language, 6), joints(language, 6)
    product, fitted = (laws.log_order(draws[name], EVERY) for name in ("product", "fitted"))
    bound = fluency.joint_step(language, 6).value
    assert bound == pytest.approx(laws.divergence(product) + torch.from_numpy(product).logsumexp(0).item(), abs=error)
    assert laws.divergence(fitted) <= bound < laws.divergence(product)


def test_uniform_languages_and_the_counterexample():
    assert fluency.joint_uniform(load("interval-5"), 510).value == 0
    assert fluency.joint_step(load("interval-5"), 30).value == pytest.approx(0, abs=1e-9)
    assert fluency.joint_loss().value == pytest.approx(0.0083, abs=5e-5)
    with pytest.raises(UnmaskError, match="not uniform"):
        fluency.joint_uniform(load("paper-2gram"), 32)


def test_alone_has_the_bound_of_the_product():
    language, length = sparse_chain(2, 3), 6
    laws, between = Laws(language, length), 2 * 1.6
    plan = laws.measure(joints(language, length)["alone"], 3)[3]
    assert plan <= fluency.alone(4, length, torch.full((3,), 1 / 3), between).value
