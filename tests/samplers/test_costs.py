"""What samplers cost and are told: model calls counted where they happen, hitting times, and the published specimen."""

from __future__ import annotations

import math

import pytest
import torch

from tests.brute import distribution, p_value, sequences
from tests.samplers.test_distributions import ALARM, CASES, labels, order_distribution, passes
from unmask import UnmaskError, generate
from unmask.core.chance import Randomness, Stream
from unmask.denoisers import Denoiser, Ideal, Perturbed, Sharpened, Table
from unmask.languages import load
from unmask.samplers import schedules
from unmask.samplers.rules.fixed_orders import FirstHitting, Strided
from unmask.samplers.rules.gibbs import Gibbs
from unmask.samplers.rules.mdlm import coarse, race

SIZE = {"length": 32, "rows": 20, "seed": 3}


def model_calls(sampler, steps=8, source="sparse-hmm", **options):
    return generate(load(source), sampler=sampler, steps=steps, **(SIZE | options)).model_calls


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        ("first-hitting", 32),
        ("top-probability", 8),
        ("threshold(threshold=1)", 32),
        ("threshold(threshold=0)", 1),
        ("entropy-bounded(gamma=1000)", 1),
        ("gibbs(inner=left-to-right, sweeps=2)", 8 + 2 * 32),
        ("gibbs(inner=left-to-right, stride=4)", 8 + 4),
        ("self-speculative(draft_length=1)", 32),
        ("as-published-mdlm(batch=20)", 9),
    ],
)
def test_evaluations_are_what_the_rule_needs(sampler, expected):
    assert model_calls(sampler).tolist() == [expected] * 20


def test_certain_positions_come_together_under_eb():
    """gamma = 0 reveals what is certain and one more: on the interval language the last place of each interval is."""
    made = generate(load("interval-5"), sampler="entropy-bounded(gamma=0)", **SIZE | {"length": 30})
    assert bool((made.model_calls < 30).all())
    assert bool(load("interval-5").supports(made.tokens).all())


def test_what_stands_inside_is_a_sampler():
    assert Gibbs("strided") == Gibbs(Strided())
    with pytest.raises(UnmaskError, match="inner is 3; expected a sampler, or the name of one"):
        Gibbs(3)


class Spelled(Denoiser):
    """A denoiser with no language behind it."""

    vocabulary = 2

    def posterior(self, tokens, positions=None, time=None):
        out = torch.nn.functional.one_hot(tokens, 3)[..., :2].double()
        out[tokens == 2] = 0.5
        places = torch.arange(tokens.shape[1]) if positions is None else positions
        return out.gather(1, places.expand(len(tokens), -1).unsqueeze(-1).expand(-1, -1, 2))


class Told(Spelled):
    """Writes down the times that it is told."""

    time_free = False

    def __init__(self):
        self.times = []

    def posterior(self, tokens, positions=None, time=None):
        self.times.append(time)
        return super().posterior(tokens, positions)


def test_first_hitting_tells_the_hitting_times():
    """Position j is revealed when alpha reaches its uniform u_j, under any schedule."""
    told = Told()
    made = generate(told, sampler="first-hitting", schedule="linear", steps=7, length=6, rows=1, seed=2)
    u = Randomness(2, torch.arange(1)).grid(Stream.ORDER, 6)[0]
    torch.testing.assert_close(torch.cat(told.times), 1 - u.sort().values)
    assert made.order[0].argsort().tolist() == u.argsort().tolist()
    delta = schedules.deltas("cosine", 2000)
    times = FirstHitting().times(delta, torch.ones(1, 6, dtype=torch.int64), Randomness(2, torch.arange(1)))
    torch.testing.assert_close(torch.cos(math.pi / 2 * times[0]), u, atol=1e-5, rtol=0)


def test_other_samplers_tell_even_times():
    for sampler, expected in {
        "left-to-right": [1, 0.75, 0.5, 0.25],
        "margin": [1, 0.75, 0.5, 0.25],
        "self-speculative(draft_length=1)": [n / 8 for n in range(8, 0, -1)],
        "gibbs(inner=left-to-right, stride=2)": [1, 0.75, 0.5, 0.25, 1 / 8, 1 / 8],
    }.items():
        told = Told()
        generate(told, sampler=sampler, steps=4, length=8, rows=1)
        assert torch.cat(told.times).tolist() == pytest.approx(expected)


# ------------------------------------------------------------------------------------------- as published by MDLM


@pytest.mark.parametrize("name", ["2-gram", "leak"])
def test_the_specimen_is_ancestral_where_nothing_is_rare(name):
    for steps in (1, 3):
        p = order_distribution(name, labels([1 / steps] * steps, 4))
        assert passes(name, p, sampler="as-published-mdlm", steps=steps, seed=2)


def test_the_specimen_looks_at_the_start_after_each_change_and_once_more_at_the_end():
    made = generate(CASES["2-gram"][0], sampler="as-published-mdlm(batch=1)", steps=30, length=6, rows=200, seed=4)
    expected = [2 + len(set(order) - {30, 31}) for order in made.order.tolist()]
    assert made.model_calls.tolist() == expected


def test_the_published_race_never_draws_what_is_rare():
    """Against a mask of weight 1: a uniform of 1 - 2^-24 is the luckiest there is, and 0 the unluckiest."""
    luckiest = torch.tensor([[1 - 2**-24, 0.0]], dtype=torch.float32)
    assert race(torch.tensor([[2e-9, 1.0]]), luckiest).tolist() == [1]
    assert race(torch.tensor([[3e-9, 1.0]]), luckiest).tolist() == [0]
    u = coarse(Randomness(1, torch.arange(50)), torch.arange(50), torch.arange(50), 3, 9)
    assert u.dtype == torch.float32
    assert bool((u * 2**24 == (u * 2**24).round()).all())
    assert len(u.unique()) > 440


# --------------------------------------------------------------------------------------- temperature, top-p and top-k


def sharp(p, temperature, top_p, top_k):
    """By hand: heat, the nucleus, the k best; the lower token first where two are alike."""
    if temperature == 0:
        return [float(v == p.index(max(p))) for v in range(len(p))]
    p = [x ** (1 / temperature) for x in p]
    p = [x / sum(p) for x in p]
    kept, mass = [], 0.0
    for v in sorted(range(len(p)), key=lambda v: (-round(p[v] * 1e9), v)):
        if mass < top_p - 1e-9 and len(kept) < (top_k or len(p)):
            kept.append(v)
        mass += p[v]
    return [x / sum(p[v] for v in kept) if v in kept else 0.0 for v, x in enumerate(p)]


@pytest.mark.parametrize("temperature", [0, 0.5, 1, 2.0])
@pytest.mark.parametrize(("top_p", "top_k"), [(1.0, None), (0.6, None), (1.0, 2), (0.9, 3), (1e-6, None), (0.5, 1)])
def test_sharpened_marginals(temperature, top_p, top_k):
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(40, 5, generator=generator, dtype=torch.float64)
    p[:20] = torch.round(3 * p[:20])  # equal ones, and zeros
    p[:, 0] += 0.1
    p /= p.sum(1, keepdim=True)
    ours = Sharpened(Ideal(load("paper-2gram")), temperature, top_p, top_k)
    ours.vocabulary = 5
    expected = torch.tensor([sharp(row, temperature, top_p, top_k) for row in p.tolist()], dtype=torch.float64)
    torch.testing.assert_close(
        ours.reshape(Table(p), torch.zeros(40, dtype=torch.int64)).dense(), expected, atol=1e-9, rtol=0
    )


@pytest.mark.rotates(4)
@pytest.mark.parametrize("sampler", ["left-to-right", "autoregressive", "speculative(draft_length=2)", "first-hitting"])
def test_every_sampler_sees_the_same_temperature(sampler):
    """One distribution for the canvas, the causal reader and what is drawn; not that of the language."""
    language, length = CASES["2-gram"]
    shaped = Sharpened(Ideal(language), 0.6, 0.9, 2)
    CASES["sharp"] = (shaped, length)
    try:
        orders = [(1.0, tuple(range(length)))] if sampler != "first-hitting" else []
        p = order_distribution("sharp", orders or labels_of_all(length))
    finally:
        del CASES["sharp"]
    options = {"sampler": sampler, "steps": 4, "temperature": 0.6, "top_p": 0.9, "top_k": 2}
    made = generate(language, length=length, rows=60_000, seed=1, **options)
    assert p_value(made.tokens.numpy(), sequences(3, length), p) > ALARM
    assert p_value(made.tokens.numpy(), sequences(3, length), distribution(language, length)) < ALARM
    assert made.ideal is None
    assert [made.configuration[name] for name in ("temperature", "top_p", "top_k")] == [0.6, 0.9, 2]


def labels_of_all(length):
    from itertools import permutations

    orders = list(permutations(range(length)))
    return [(1 / len(orders), order) for order in orders]


def test_sharpening_adds_nothing_where_nothing_is_asked():
    language = load("paper-2gram")
    assert generate(language, rows=3, length=8, temperature=1.0, top_p=1.0).ideal is language
    tokens = torch.full((2, 6), 8)
    tokens[:, 2] = 3
    plain = Ideal(language).posterior(tokens)
    torch.testing.assert_close(Sharpened(Ideal(language)).posterior(tokens), plain)
    nested = Sharpened(Perturbed(language, "leak", 0.1), top_k=1).posterior(tokens, torch.tensor([0, 2]))
    assert nested.sum(-1).tolist() == [[1, 1], [1, 1]]
    assert nested[:, 1, 3].tolist() == [1, 1]
