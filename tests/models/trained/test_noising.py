"""Uniform noise in training: objective, conversion and NELBO are compared with sums over all clean and noisy rows."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.brute import sequences
from tests.models.trained.small import V, trunk
from unmask import UnmaskError, generate
from unmask.core.chance import Randomness
from unmask.denoisers.noise import reverse, without_own
from unmask.languages import NGram
from unmask.models import trained
from unmask.models.trained import Network, Shape
from unmask.models.trained.loop import train
from unmask.models.trained.objectives import Noisy, alone, clean_distributions, draw_noise, nelbo, noisy_nats
from unmask.models.trained.recipe import Recipe
from unmask.models.trained.trunk import LEAST_NOISE
from unmask.samplers import SAMPLERS
from unmask.samplers.schedules import deltas

LANGUAGE = NGram(2, [0.5, 0.3, 0.2], [[0.6, 0.4, 0.0], [0.0, 0.7, 0.3], [0.5, 0.0, 0.5]])  # three impossible pairs
L = 3
EVERY = torch.from_numpy(sequences(V, L))
Q = LANGUAGE.log_prob(EVERY).exp()  # (K)


def likelihood(level: float) -> Tensor:
    """(K, K): the probability of each noisy row given each clean one."""
    same = (EVERY.unsqueeze(1) == EVERY.unsqueeze(0)).double()
    return (level * same + (1 - level) / V).prod(2)


def posteriors(level: float, without: bool = False) -> Tensor:
    """(K, L, V): q(x_i | y) by summing over all clean rows, or q(x_i | y without y_i)."""
    one_hot = torch.nn.functional.one_hot(EVERY, V).double()
    if not without:
        full = torch.einsum("x,xy,xiv->yiv", Q, likelihood(level), one_hot)
    else:
        same = level * (EVERY.unsqueeze(1) == EVERY.unsqueeze(0)).double() + (1 - level) / V
        others = torch.stack([same[:, :, [j for j in range(L) if j != i]].prod(2) for i in range(L)], 2)
        full = torch.einsum("x,xyi,xiv->yiv", Q, others, one_hot)
    return full / full.sum(2, keepdim=True)


def every_pair(level: float) -> tuple[Tensor, Noisy, Tensor]:
    """(clean rows, noisy rows, probability of each pair)."""
    clean, noisy = EVERY.repeat_interleave(len(EVERY), 0), EVERY.repeat(len(EVERY), 1)
    return (
        clean,
        Noisy(noisy, torch.full((len(noisy),), level, dtype=torch.float64)),
        (Q.unsqueeze(1) * likelihood(level)).flatten(),
    )


class Table(torch.nn.Module):
    """A network that is a table: logits for every noisy row."""

    def __init__(self, probabilities: Tensor) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(probabilities.clamp(min=1e-300).log())

    def forward(self, tokens: Tensor, columns: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        return self.logits[(tokens * V ** torch.arange(L - 1, -1, -1)).sum(1)]


def mean_loss(network: torch.nn.Module, level: float) -> Tensor:
    clean, noisy, probability = every_pair(level)
    return (probability * noisy_nats(network, clean, noisy)).sum()


@pytest.mark.parametrize("level", [0.2, 0.9, 0.999])
def test_the_loss_has_its_minimum_at_the_full_posterior(level):
    """The gradient vanishes there, and not at the leave-one-out posterior: the loss is convex in the logits."""
    exact = Table(posteriors(level))
    mean_loss(exact, level).backward()
    assert exact.logits.grad.abs().max() < 1e-12
    wrong = Table(posteriors(level, without=True))
    mean_loss(wrong, level).backward()
    assert wrong.logits.grad.abs().max() > 1e-4
    assert mean_loss(wrong, level) > mean_loss(exact, level)


@pytest.mark.parametrize("level", [0.1, 0.6, 0.99])
def test_division_by_the_likelihood_gives_the_leave_one_out_posterior(level):
    full, r = posteriors(level), posteriors(level, without=True)
    tokens = EVERY.flatten()
    torch.testing.assert_close(without_own(full.flatten(0, 1), tokens, level).view_as(r), r, rtol=0, atol=1e-12)
    noisy = Noisy(EVERY, torch.full((len(EVERY),), level, dtype=torch.float64))
    torch.testing.assert_close(alone(full, noisy), r, rtol=0, atol=1e-12)
    torch.testing.assert_close(clean_distributions(LANGUAGE, noisy).double(), full, rtol=0, atol=1e-6)


def test_the_full_posterior_in_place_of_the_other_is_wrong():
    """The exact reverse step by summing over all clean rows: r gives it, q(x_i | y) counts y_i twice."""
    before, after = 0.4, 0.8
    ratio = before / after
    clean_to_after = likelihood(after).view(-1, *[V] * L)
    marginal = torch.stack(
        [(clean_to_after.movedim(1 + i, 1).flatten(2)).sum(2) for i in range(L)], 1
    )  # (x, i, b): q(z_i = b | x)
    same = torch.nn.functional.one_hot(EVERY, V).double()
    step = ratio * same + (1 - ratio) / V  # (y, i, b): E_(t/s)(b, y_i)
    own = before * same + (1 - before) / V  # (y, i, v)
    weight = torch.einsum("x,xy->xy", Q, likelihood(before))
    per = torch.einsum("yiv,xiv->xyi", own, same)  # E_t(x_i, y_i)
    exact = torch.einsum("xy,xyi,xib,yib->yib", weight, 1 / per, marginal, step)
    exact = exact / exact.sum(2, keepdim=True)
    full, r = (posteriors(before, without).flatten(0, 1) for without in (False, True))
    found, wrong = (reverse(p, EVERY.flatten(), before, after).view_as(exact) for p in (r, full))
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-12)
    assert (wrong - exact).abs().max() > 0.05


def test_the_nelbo_of_the_exact_denoiser_is_the_entropy():
    """An integral over levels, of sums over all rows; the omitted levels add L d (1 + log(V/d)) at most."""
    points, total, worse = 100, 0.0, 0.0
    for k in range(points):
        level = 1 - LEAST_NOISE ** ((k + 0.5) / points)
        clean, noisy, probability = every_pair(level)
        exact = posteriors(level, without=True).repeat(len(EVERY), 1, 1)
        total += float((probability * nelbo(exact, clean, noisy)).sum()) / points
        worse += float((probability * nelbo(0.9 * exact + 0.1 / V, clean, noisy)).sum()) / points
    omitted = L * LEAST_NOISE * (1 + math.log(V / LEAST_NOISE))
    entropy = LANGUAGE.entropy(L).value
    assert entropy - omitted < total < entropy + 1e-3
    assert worse > entropy + 0.01


def test_noise_is_a_function_of_the_row_and_spares_prompts():
    """False alarms: 1e-9, by six standard errors of 32,000 positions."""
    tokens = EVERY[torch.arange(16_000) % len(EVERY)]
    rng = Randomness(3, torch.arange(16_000))
    noisy = draw_noise(rng, 16, tokens, V, prompt=1)
    assert noisy.tokens[:, 0].equal(tokens[:, 0])
    assert noisy.known.tolist() == [[True, False, False]] * 16_000
    depth = (1 - noisy.level).log() / math.log(LEAST_NOISE)
    assert ((depth * 16).long() == torch.arange(16_000) % 16).all()
    changed = (noisy.tokens != tokens)[:, 1:].double().mean()
    expected = float((1 - noisy.level).mean()) * (1 - 1 / V)
    assert abs(float(changed) - expected) < 6 * 0.5 / math.sqrt(32_000)
    part = draw_noise(Randomness(3, torch.arange(100, 200)), 16, tokens[100:200], V, prompt=1)
    assert part.tokens.equal(noisy.tokens[100:200])


def network(**changes):
    return trunk(noise="uniform", length=L, **({"time_free": False, "dtype": torch.float32} | changes)).eval()


def test_a_network_is_a_denoiser_of_uniform_noise():
    """The engine gives the full posterior; samplers divide. Its distribution by listing all rows is normalised."""
    for free in (False, True):
        made = network(time_free=free)
        denoiser = Network(made)
        assert (denoiser.removes, denoiser.time_free) == ("uniform", free)
        level = torch.full((len(EVERY),), 0.7, dtype=torch.float64)
        said = denoiser.probabilities(EVERY, time=None if free else level)
        logits = made(EVERY, None, None if free else level)
        torch.testing.assert_close(said, logits.double().softmax(-1), rtol=1e-5, atol=1e-6)
        engine = denoiser.engine(EVERY.clone(), torch.full_like(EVERY, V))
        rows, positions = torch.ones_like(EVERY).nonzero(as_tuple=True)
        answer = engine.at(rows, positions, None if free else level).dense().view_as(said)
        torch.testing.assert_close(answer.double(), said, rtol=1e-5, atol=1e-6)
        assert not engine.hollow
        sampler = SAMPLERS.make("uniform-ancestral")
        p = sampler.enumerated(denoiser, L, deltas("geometric(last=0.01)", 3))
        assert float(p.sum()) == pytest.approx(1)
        rows = generate(
            denoiser, sampler="uniform-ancestral(grid='geometric(last=0.01)')", steps=3, length=L, rows=4000
        )
        index = (rows.tokens * V ** torch.arange(L - 1, -1, -1)).sum(1)
        counts = np.bincount(index.numpy(), minlength=V**L)
        assert np.abs(counts - 4000 * p.numpy()).max() < 6.5 * math.sqrt(4000 * float(p.max()))  # false alarms < 1e-8


def test_the_level_reaches_the_network_and_stands_still_near_clean():
    made = network()
    said = [made(EVERY, None, torch.full((len(EVERY),), level, dtype=torch.float64)) for level in (0.5, 0.999, 0.9999)]
    assert not torch.allclose(said[0], said[1], atol=1e-3)
    torch.testing.assert_close(said[1], said[2], rtol=0, atol=1e-5)


TINY = {"hidden": 16, "layers": 2, "heads": 2}


@pytest.mark.long
def test_it_learns_the_language_and_names_its_noise(tmp_path):
    shape = Shape("mdm", V, 6, time_free=False, noise="uniform", **TINY)
    how = Recipe(steps=150, batch=32, rate=1e-2, average=0.9, targets="posterior", optimiser="muon")
    found = train(LANGUAGE, shape, how, tmp_path / "out")
    journal = json.loads((tmp_path / "out" / "training.json").read_text())["journal"]
    assert found.validation.excess_percent.high < min(20.0, journal[0]["excess_percent"] / 5)
    assert found.validation.loss.low > found.validation.entropy - 0.01
    assert json.loads((tmp_path / "out" / "config.json").read_text())["noise"] == "uniform"
    denoiser = trained.read_network(tmp_path / "out")
    assert denoiser.removes == "uniform"
    made = generate(
        denoiser, sampler="uniform-ancestral", schedule="geometric(last=0.001)", steps=8, length=6, rows=300
    )
    guess = generate(
        denoiser, sampler="uniform-ancestral", schedule="geometric(last=0.001)", steps=1, length=6, rows=300
    )
    right, wrong = (float(LANGUAGE.log_prob(one.tokens).isfinite().double().mean()) for one in (made, guess))
    assert right > 0.8 > 0.5 > wrong  # false alarms: 300 rows, three standard errors below 0.87, fixed seed


@pytest.mark.parametrize(
    ("shape", "change", "said"),
    [
        ({}, {"spread": 0.5}, "spread is set, which needs masks; the noise is uniform. Leave it out"),
        ({"kind": "ar"}, {}, "an AR model removes no noise"),
        ({"noise": "gauss"}, {}, "unknown noise 'gauss'; known: mask, uniform"),
    ],
)
def test_mistakes(tmp_path, shape, change, said):
    given = {"kind": "mdm", "noise": "uniform"} | shape
    with pytest.raises(UnmaskError, match=said) as refusal:
        train(LANGUAGE, Shape(vocabulary=V, length=6, **given, **TINY), replace(BRIEF, **change), tmp_path / "out")
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "out").exists()


BRIEF = Recipe(steps=2, batch=4, rate=1e-2)
