"""What comes out of a network: the law by enumeration, and every short cut against the long way with the same luck.

Chi-square tests have fixed seeds and a false-alarm rate of 1e-6 each; wrong engines stand beside them.
"""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.brute import p_value, sequences
from tests.models.trained.small import L, V, causal_distribution, labels, order_distribution, trunk
from unmask import generate
from unmask.core import chance
from unmask.core.chance import Randomness
from unmask.denoisers import Canvas
from unmask.models.trained import Network, denoiser, running
from unmask.models.trained.running import NetworkCausal

ALARM = 1e-6
FEW, ROWS = 5000, 20_000
EITHER = pytest.mark.parametrize("rows", [FEW, pytest.param(ROWS, marks=pytest.mark.long)])  # few show the mutants too
LONG = 16
KEPT = ("tokens", "order", "probability", "model_calls", "impossible")
COUNTS = ("spent", "planned")


@pytest.fixture(scope="module")
def pair():
    return trunk(seed=1), trunk("ar", seed=2)


def both_ways(monkeypatch, network, close=1e-12, **options):
    once = generate(network, **options)
    with monkeypatch.context() as patch:
        patch.setattr(Canvas, "follow", lambda canvas, order: None)
        by_steps = generate(network, **options)
    for name in KEPT:
        torch.testing.assert_close(getattr(once, name), getattr(by_steps, name), atol=close, rtol=0, msg=name)
    for name in COUNTS:
        assert getattr(once, name) == getattr(by_steps, name), name
    return once


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sampler", ["ancestral", "fixed-size", "blocks(block_length=5)", "dyadic", "first-hitting"])
def test_an_order_in_one_call_is_the_same_round_by_round(monkeypatch, sampler, dtype):
    network = Network(trunk(length=LONG, dtype=dtype), batch=9)
    given = torch.randint(0, 2 * V, (30, LONG), generator=torch.Generator().manual_seed(3)).clamp(max=V)
    given[4] = 0  # a row that is complete
    for start in (None, given):
        made = both_ways(
            monkeypatch,
            network,
            1e-12 if dtype == torch.float64 else 1e-5,
            sampler=sampler,
            steps=6,
            length=LONG,
            rows=30,
            seed=3,
            given=start,
        )
        assert made.planned


class Waits(TorchDispatchMode):
    """Counts the operations for which a host would wait for its device."""

    NAMES = ("_local_scalar_dense", "nonzero", "unique", "equal", "masked_select", "is_nonzero", "item")

    def __init__(self):
        super().__init__()
        self.met = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.met += any(name in str(function) for name in self.NAMES)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("reader", ["order", "causal"])
def test_the_host_waits_for_nothing_on_the_way(monkeypatch, pair, reader):
    """However many steps or tokens there are."""
    monkeypatch.setattr(running, "categorical", lambda weights, u: chance._first_above(weights, u, True)[0])  # a device
    mdm, ar = trunk(length=LONG), trunk("ar", length=LONG)
    met = []
    for length in (4, LONG):
        rng, tokens = Randomness(0, torch.arange(5)), torch.full((5, length), V)
        network = Network(mdm, ar)
        if reader == "causal":
            reading = network.causal(5, length)
            with Waits() as waits:
                reading.finish(torch.full((5,), V), tokens, rng)
        else:
            order = torch.stack([torch.randperm(length) for _ in range(5)]) + 1
            engine = network.engine(tokens)
            steps = running.Steps.of(order, rng, torch.zeros_like(tokens), torch.device("cpu"))
            below = engine.below(steps.rows)
            with Waits() as waits:
                running.fill(network.mdm, steps, tokens, below)
        met.append(waits.met)
    assert met[0] == met[1] < 5
    with Waits() as waits:
        bool(tokens.any())
    assert waits.met == 1


def keep_first(evaluator, steps, tokens, below):
    """A mutant: every step looks at what the first one saw."""
    seen, evaluator = below, type(evaluator)(evaluator.trunk)
    evaluator.below = lambda tokens: seen[: len(tokens)]
    return fill(evaluator, steps, tokens, below)


def in_place_of_order(evaluator, steps, tokens, below):
    """A mutant: rows are taken for those of another number of steps."""
    each = [one._replace(places=one.places.flip(0)) for one in steps.each]
    return fill(evaluator, steps._replace(each=each), tokens, below)


fill = running.fill


@EITHER
def test_ancestral_sampling_has_its_law(monkeypatch, pair, rows):
    distribution = order_distribution(pair[0], labels(3))
    assert abs(distribution.sum() - 1) < 1e-9
    every = sequences(V, L)

    def p(seed=5):
        return p_value(
            generate(Network(pair[0]), rows=rows, length=L, steps=3, seed=seed).tokens.numpy(), every, distribution
        )

    assert p() > ALARM
    for mutant in (keep_first, in_place_of_order):
        with monkeypatch.context() as patch:
            patch.setattr(denoiser, "fill", mutant)
            assert p() < ALARM


def rewind_together(self, lengths):
    self.memory.lengths = torch.full_like(lengths, int(lengths.min()) + 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sampler", "rows"),
    [
        ("autoregressive", FEW),
        pytest.param("autoregressive", ROWS, marks=pytest.mark.long),
        ("speculative(draft_length=3)", ROWS),
    ],
)
def test_autoregression_and_speculation_have_the_law_of_the_ar_model(monkeypatch, pair, sampler, rows):
    distribution, every = causal_distribution(pair[1]), sequences(V, L)

    def p():
        made = generate(Network(*pair), sampler=sampler, rows=rows, length=L, seed=6)
        return p_value(made.tokens.numpy(), every, distribution)

    assert p() > ALARM
    if sampler != "autoregressive":  # a mutant: all rows go back as far as one of them
        monkeypatch.setattr(NetworkCausal, "rewind", rewind_together)
    else:  # a mutant: the step before is forgotten
        monkeypatch.setattr(trunk("ar").__class__, "step", lambda self, recent, *rest: self(recent[:, -1:])[:, 0])
    assert p() < ALARM
