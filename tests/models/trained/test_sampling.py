"""What comes out of a network: the law by enumeration, and every short cut against the long way with the same luck.

Chi-square tests have fixed seeds and a false-alarm rate of 1e-6 each; wrong engines stand beside them.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.brute import p_value, sequences
from tests.models.trained.small import L, V, causal_distribution, chances, copier, labels, order_distribution, trunk
from unmask import generate
from unmask.core import chance
from unmask.core.chance import Randomness, Stream, categorical
from unmask.denoisers import Canvas, Ideal
from unmask.diagnosis.loss_curve import loss_curve
from unmask.languages import NGram
from unmask.metrics import output_distribution
from unmask.models.trained import Network, denoiser, running
from unmask.models.trained.denoiser import FollowingEngine
from unmask.models.trained.running import NetworkCausal
from unmask.samplers import SAMPLERS, Session
from unmask.samplers.loops import fill_blocks
from unmask.samplers.schedules import deltas
from unmask.theory.partitions import partitions
from unmask.theory.sampled import information_curve

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


@pytest.mark.rotates(4)
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


def test_a_canvas_that_has_been_seen_and_written_goes_on(monkeypatch):
    """An earlier look is not evaluated again, and randomness goes on."""
    made, ends = trunk(length=LONG), []
    for patched in (False, True):
        with monkeypatch.context() as patch:
            if patched:
                patch.setattr(Canvas, "follow", lambda canvas, order: None)
            rng = Randomness(1, torch.arange(30))
            session = Session(Network(made), torch.full((30, LONG), V), rng, deltas("linear", 6))
            canvas, rows, places, before = session.canvas, torch.arange(30), torch.full((30,), 3), made.evaluated
            for _ in range(2):  # what is drawn first is thrown away
                tokens = canvas.draw(canvas.at(rows, places), rows, places)
            session.put(rows[:20], places[:20], tokens[:20], torch.ones(20), 1)
            canvas.at(*(canvas.hidden & (rows < 10).unsqueeze(1)).nonzero(as_tuple=True))
            fill_blocks(SAMPLERS.make("ancestral"), session, torch.where(canvas.hidden, 0, -1))
            assert made.evaluated - before == canvas.spent.rows
            counts = torch.tensor([canvas.spent.forwards, canvas.spent.rows])
            ends.append((session.tokens, session.order, canvas.model_calls, canvas.visits, canvas.hidden, counts))
    for once, by_steps in zip(*ends, strict=True):
        assert torch.equal(once, by_steps)


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


@pytest.mark.parametrize("seed", range(3))
def test_a_plain_loop_that_recomputes_everything_writes_the_same(seed):
    """Every position of every row in every step, in float32: a draw may differ 1e-5 from a boundary; none does."""
    made = trunk(length=LONG, dtype=torch.float32, layers=3, seed=seed)
    ours = generate(Network(made), rows=100, length=LONG, steps=10, seed=seed)
    rng, tokens, near = Randomness(seed, torch.arange(100)), torch.full((100, LONG), V), 0
    for turn in range(1, 11):
        marginals = torch.softmax(made(tokens).detach().double(), -1)
        u = rng.grid(Stream.TOKEN, LONG)
        drawn = categorical(marginals, u)
        near += int(((marginals.cumsum(-1) - u.unsqueeze(-1)).abs() < 1e-5).any(-1)[ours.order == turn].sum())
        tokens = torch.where(ours.order == turn, drawn, tokens)
    different = (tokens != ours.tokens).any(1)
    assert int(different.sum()) <= near < 5
    assert not bool(different.any())


class Stale(FollowingEngine):
    """A mutant: looks once."""

    def below(self, which, time=None):
        self.stale[which] = self._kept is None
        return super().below(which, time)


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


@EITHER
def test_sampling_round_by_round_has_it_too(monkeypatch, pair, rows):
    distribution, every = order_distribution(pair[0], [(1.0, (0, 1, 0, 1))]), sequences(V, L)
    monkeypatch.setattr(Canvas, "follow", lambda canvas, order: None)

    def p():
        made = generate(Network(pair[0]), sampler="strided", rows=rows, length=L, steps=2, seed=5)
        return p_value(made.tokens.numpy(), every, distribution)

    assert p() > ALARM
    monkeypatch.setattr(denoiser, "FollowingEngine", Stale)
    assert p() < ALARM


def rewind_together(self, lengths):
    self.memory.lengths = torch.full_like(lengths, int(lengths.min()) + 1)


@pytest.mark.rotates(3)
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
        monkeypatch.setattr(trunk("ar").__class__, "step", lambda self, symbols, *rest: self(symbols[:, None])[:, 0])
    assert p() < ALARM


def copying():
    """x_1 = x_2 = .. : uniform over three sequences."""
    return NGram(2, np.full(V, 1 / V), np.eye(V))


@pytest.mark.parametrize(("block", "layers"), [(0, 1), (0, 2), (1, 2), (1, 3)])
def test_weights_set_by_hand_give_the_exact_law(block, layers):
    """Its marginals are the posterior in every possible context, and so is all that is computed from them."""
    language = copying()
    made = Network(copier(block, layers))
    every = torch.from_numpy(sequences(V + 1, L))
    possible = torch.isfinite(language.log_evidence(every))
    torch.testing.assert_close(
        made.posterior(every[possible]), Ideal(language).posterior(every[possible]), atol=1e-12, rtol=0
    )
    found = partitions(language, L)
    where = torch.from_numpy(found.strings @ V ** np.arange(L)[::-1])
    for steps in (1, 2, 5):
        distribution = output_distribution(made, L, deltas("linear", steps))[where]
        np.testing.assert_allclose(distribution, found.distribution(deltas("linear", steps)), atol=1e-9)
    drawn = generate(made, rows=300, length=L, steps=10**6).tokens
    assert bool((drawn == drawn[:, :1]).all())
    assert set(drawn[:, 0].tolist()) == set(range(V))


def test_the_elbo_of_weights_set_by_hand():
    """What is revealed first costs log V nats a token, the rest nothing: as for the ideal denoiser by enumeration."""
    language, network = copying(), Network(copier())
    found = information_curve(language, L, rows=50, denoiser=network)
    expected = torch.zeros(50, L, dtype=torch.float64)
    expected[:, 0] = math.log(V)
    torch.testing.assert_close(found.rows.terms, expected, atol=1e-9, rtol=0)
    for steps in (1, 2, 7):
        delta = deltas("linear", steps)
        exact = partitions(language, L).information_curve().nelbo(delta).value
        assert found.nelbo(delta).value == pytest.approx(exact, abs=1e-9)
    samples = language.sample(40, L)
    curves = [loss_curve(source, samples) for source in (network, Ideal(language))]
    torch.testing.assert_close(curves[0].losses, curves[1].losses, atol=1e-9, rtol=0)


def test_the_elbo_of_random_weights(pair):
    """f(k) = the mean over j and |R| = k of E[-log p(x_j | x_R)], each context by itself; within 6 standard errors."""
    uniform = NGram(2, np.full(V, 1 / V), np.full((V, V), 1 / V))
    found = information_curve(uniform, L, rows=2000, denoiser=Network(pair[0]))
    said, every = chances(pair[0]).numpy(), sequences(V, L)
    costs = [[] for _ in range(L)]
    for shown in itertools.product([False, True], repeat=L):
        for j in (j for j in range(L) if not shown[j]):
            seen = np.where(shown, every, V)
            costs[sum(shown)].append(-np.log(said[tuple(seen.T)][np.arange(len(every)), j, every[:, j]]).mean())
    error = found.terms.std(0, ddof=1) / math.sqrt(2000)
    assert bool((np.abs(found.f - [np.mean(cost) for cost in costs]) < 6 * error).all())
