"""The exact policy gradient of tables and of a network: independent enumeration and finite differences."""

from __future__ import annotations

import pytest
import torch

from tests.diagnosis.enumerated import Free, laws
from unmask import UnmaskError, policy
from unmask.diagnosis.policy.gradient import Policy
from unmask.models.trained import Network
from unmask.models.trained.shape import Shape
from unmask.models.trained.trunk import Trunk

LOW = "low-confidence(ties='position')"


def reward(texts):
    return (texts.sum(1) % 3 == 0).double()


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    trunk = Trunk(Shape("mdm", 3, 4, hidden=48, layers=3, heads=4)).double()
    for name, weight in trunk.named_parameters():
        if name.startswith(("head", "place")):  # which begin at zero
            torch.nn.init.normal_(weight, std=0.3)
    return trunk


@pytest.mark.parametrize(("rule", "sampler"), [("random", "fixed-size"), ("drawn", LOW)])
def test_of_a_table(rule, sampler):
    model = Free(3, 3, seed=1)
    found = policy.gradient(model, sampler, 2, reward, 3)
    p = laws(model, (2, 1), rule)
    texts = torch.cartesian_prod(*[torch.arange(3)] * 3)
    (known,) = torch.autograd.grad(p @ reward(texts), model.table)
    assert found.reward == pytest.approx(float(p.detach() @ reward(texts)))
    assert torch.allclose(found.vector, known.flatten(), atol=1e-14)


@pytest.mark.parametrize(
    "sampler", ["fixed-size", LOW, f'blocks(block_length=2, inner="{LOW}")', "p2(ties='position')"]
)
def test_of_a_network_by_finite_differences(network, sampler):
    """Of 84,000 weights, along g and along a random direction; the wrong step misses."""
    found = policy.gradient(Network(network), sampler, 2, reward, 4)
    assert len(found.vector) == sum(weight.numel() for weight in network.parameters()) > 80_000
    unit = torch.randn(len(found.vector), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    own = Policy(network)
    for direction in (found.vector / found.vector.norm(), unit / unit.norm()):
        ends = []
        for step in (1e-5, -2e-5):
            own.move(step * direction)
            ends.append(policy.gradient(network, sampler, 2, reward, 4).reward)
        own.move(1e-5 * direction)
        slope = float(found.vector @ direction)
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-8)
    assert float(found.vector.norm()) > 1e-3


def test_a_network_has_a_length_and_reads_both_sides(network):
    with pytest.raises(UnmaskError, match="length is 5; expected at most 4, the network's"):
        policy.gradient(network, LOW, 1, reward, 5)
    with pytest.raises(UnmaskError, match="expected an MDM of masks"):
        policy.gradient(Trunk(Shape("ar", 3, 4, hidden=8, layers=1, heads=1)), LOW, 1, reward, 4)


def test_bad_input():
    model = Free(3, 3)
    with pytest.raises(
        UnmaskError, match="the reward of 27 texts has shape \\(1,\\); expected \\(27,\\), finite numbers"
    ):
        policy.gradient(model, LOW, 3, lambda texts: torch.ones(1), 3)
    with pytest.raises(UnmaskError, match="expected a torch module"):
        policy.gradient(lambda z: z, LOW, 3, reward, 3, vocabulary=3)
    with pytest.raises(
        UnmaskError, match="have 1,048,576 contexts with 31,457,280 probabilities; expected at most 4,194,304"
    ):
        policy.gradient(model, LOW, 3, reward, 10)
    with pytest.raises(UnmaskError, match=r"the model returns \(27, 3, 3\); expected logits \(27, 3, 2\)"):
        policy.gradient(model, LOW, 3, reward, 3, vocabulary=2)
    broken = Free(3, 3)
    broken.table.data[5] = torch.nan
    with pytest.raises(UnmaskError, match="the model returns logits that are not numbers"):
        policy.gradient(broken, LOW, 3, reward, 3)
    frozen = Free(3, 3).requires_grad_(False)
    with pytest.raises(UnmaskError, match="no weights with a gradient"):
        policy.gradient(frozen, LOW, 3, reward, 3)
