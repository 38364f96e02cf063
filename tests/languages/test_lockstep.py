"""Eight rows at a time against one: the same rule to the last digits, and no row knows of its neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import brute
from tests.languages.test_messages import machines
from unmask.core.chance import Randomness
from unmask.languages import load
from unmask.languages.kernels import messages, paths
from unmask.languages.kernels.machine import Machine, from_dense
from unmask.languages.kernels.passes import Passes
from unmask.languages.machine import MachineLanguage
from unmask.languages.presets import PRESETS

TINY = {name: case for name, case in brute.tiny_languages().items() if not name.startswith("interval")}
MACHINES = [name for name in PRESETS.makers if isinstance(load(name), MachineLanguage)]


class Eight(Passes):
    """Lockstep whether it pays or not."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.eight_filter = self.eight_draw = self.eight


class Alone(Passes):
    """Row by row, with emission state by state."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine._replace(columns=np.zeros(0)))
        assert self.eight is self.eight_filter is self.eight_draw is None


def posterior(passes, tokens, positions=None):
    positions = np.tile(np.arange(tokens.shape[1]), (len(tokens), 1)) if positions is None else positions
    out = np.empty((*positions.shape, passes.machine.vocabulary))
    passes.posterior(tokens, positions, out)
    return out


def blank_future(machine, length):
    shape = (1, length, machine.states)
    forward, backward = np.empty((2, *shape))
    free = np.full((1, length), machine.vocabulary)
    messages.fill_rows(machine, free, forward, backward, np.empty((1, length), bool))
    return backward[0]


def prefixes(machine, tokens, lengths):
    """What a reader knows that has been told the first `lengths` tokens and has read all but the last of them."""
    forward, backward = np.empty((2, *tokens.shape, machine.states))
    messages.fill_rows(machine, tokens, forward, backward, np.empty(tokens.shape, bool))
    end, rows = np.maximum(lengths - 1, 0), np.arange(len(tokens))
    return paths.Prefixes(end, forward[rows, end], np.where(lengths > 0, tokens[rows, end], machine.vocabulary))


def drawn(passes, known, length, row_ids):
    """(tokens, probability): -1 and nan where nothing is drawn."""
    tokens = np.full((len(row_ids), length), -1)
    probability = np.full(tokens.shape, np.nan)
    ahead = blank_future(passes.machine, length)
    passes.draw(ahead, Randomness(5, torch.from_numpy(row_ids)), known, tokens, probability)
    return tokens, probability


def assert_same(machine, tokens, lengths):
    """All three passes, over contexts and prefixes of any kind."""
    eight, alone = Eight(machine), Alone(machine)
    together, single = posterior(eight, tokens), posterior(alone, tokens)
    assert ((together > 0) == (single > 0)).all()
    np.testing.assert_allclose(together, single, rtol=1e-12)
    np.testing.assert_allclose(eight.evidence(tokens), alone.evidence(tokens), rtol=1e-12, atol=1e-12)
    known, row_ids = prefixes(machine, tokens, lengths), np.arange(len(tokens)) + 100
    (ours, chance), (wanted, likely) = (drawn(form, known, tokens.shape[1], row_ids) for form in (eight, alone))
    assert (ours == wanted).all()
    np.testing.assert_allclose(chance, likely, rtol=1e-12)
    place = np.arange(tokens.shape[1])
    fresh = known.token == machine.vocabulary
    assert ((ours >= 0) == (place >= (known.end + ~fresh)[:, None])).all()


@pytest.mark.long
@settings(deadline=None, database=None, derandomize=True, max_examples=300)
@given(machines(), st.integers(1, 8), st.integers(1, 20), st.integers(0, 10**6))
def test_any_machine_in_any_context(machine, length, rows, seed):
    """Zeros, restarts and dead contexts; every length and number of rows."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, machine.vocabulary + 1, (rows, length))
    assert_same(machine, tokens, rng.integers(0, length + 1, rows))


@settings(deadline=None, database=None, derandomize=True, max_examples=40)
@given(st.integers(5, 70), st.integers(2, 12), st.floats(0.05, 1), st.integers(1, 20), st.integers(0, 10**6))
def test_larger_machines_and_longer_rows(states, vocabulary, density, rows, seed):
    rng = np.random.default_rng(seed)

    def table(count, size):
        masses = rng.random((count, size)) * (rng.random((count, size)) < density)
        masses[np.arange(count), rng.integers(size, size=count)] += 1e-3
        return masses / masses.sum(1, keepdims=True)

    machine = from_dense(table(1, states)[0], table(states, states), table(states, vocabulary), None)
    tokens = rng.integers(0, vocabulary, (rows, 40))
    tokens[rng.random(tokens.shape) < rng.random()] = vocabulary
    assert_same(machine, tokens, rng.integers(0, 41, rows))


@pytest.mark.parametrize("name", MACHINES)
def test_presets(name):
    """Rows of the language, half hidden, and the same with tokens of none."""
    language, rng = load(name), np.random.default_rng(1)
    length = language.nearest_lengths(60)[0]
    tokens = np.tile(language.sample(9, length, seed=1).numpy(), (2, 1))
    tokens[9:, :: max(1, length // 3)] = rng.integers(language.vocabulary, size=(9, 1))
    lengths = rng.integers(0, length + 1, len(tokens))
    assert_same(language.machine, np.where(rng.random(tokens.shape) < 0.5, language.vocabulary, tokens), lengths)
    assert_same(language.machine, tokens, lengths)


@pytest.mark.parametrize("name", TINY)
def test_enumeration(name):
    """Posterior and evidence of all contexts that are possible, and the mass of what is drawn."""
    language, length = TINY[name]
    passes, v = Eight(language.machine), language.vocabulary
    strings, q = brute.support(language, length)
    contexts = brute.sequences(v + 1, length)
    contexts = contexts[np.random.default_rng(0).permutation(len(contexts))[:2000]]
    mass = brute.evidence(q, strings, contexts, v)
    possible = mass > 0
    evidence = passes.evidence(contexts) - language.log_normaliser(length)
    assert (np.isfinite(evidence) == possible).all()
    np.testing.assert_allclose(evidence[possible], np.log(mass[possible]), rtol=0, atol=1e-10)
    wanted = brute.posterior(q, strings, contexts[possible], v)
    np.testing.assert_allclose(posterior(passes, contexts)[possible], wanted, rtol=0, atol=1e-12)
    nothing = prefixes(language.machine, np.full((50, length), v), np.zeros(50, int))
    tokens, probability = drawn(passes, nothing, length, np.arange(50))
    masses = dict(zip(map(tuple, strings.tolist()), q.tolist(), strict=True))
    np.testing.assert_allclose(probability.prod(1), [masses[tuple(x)] for x in tokens.tolist()], rtol=1e-9)


@pytest.mark.parametrize("name", ["sparse-hmm", "paper-3gram"])
def test_a_row_does_not_know_its_neighbours(name):
    """Bit for bit the same alone, in another order, beside dead rows and beside rows that begin elsewhere."""
    language, rng = load(name), np.random.default_rng(2)
    passes, length, v = Eight(language.machine), 50, language.vocabulary
    tokens = np.where(rng.random((19, length)) < 0.6, v, language.sample(19, length, seed=3).numpy())
    tokens[::3] = rng.integers(v + 1, size=tokens[::3].shape)
    known = prefixes(language.machine, tokens, rng.integers(0, length + 1, 19))
    whole = posterior(passes, tokens), passes.evidence(tokens), *drawn(passes, known, length, np.arange(19))
    for rows in (*np.arange(19)[:, None], rng.permutation(19), np.arange(5, 16)):
        some = paths.Prefixes(*(array[rows] for array in known))
        part = posterior(passes, tokens[rows]), passes.evidence(tokens[rows]), *drawn(passes, some, length, rows)
        for ours, wanted in zip(part, whole, strict=True):
            np.testing.assert_array_equal(ours, wanted[rows])


def test_positions_may_be_any():
    """Repeated, in any order, other ones in each row, revealed or not."""
    language, rng = load("sparse-hmm"), np.random.default_rng(4)
    tokens = np.where(rng.random((11, 30)) < 0.5, 8, language.sample(11, 30, seed=1).numpy())
    positions = rng.integers(0, 30, (11, 7))
    whole = posterior(Eight(language.machine), tokens)
    part = posterior(Eight(language.machine), tokens, positions)
    np.testing.assert_array_equal(part, np.take_along_axis(whole, positions[:, :, None], 1))


def test_which_machines_go_in_step():
    """What was measured: filters of HMMs and small n-grams; not likelihoods that know their one state."""
    pays = {name: load(name).passes for name in MACHINES}
    assert all(passes.eight is not None and passes.eight_draw is not None for passes in pays.values())
    assert {name for name, passes in pays.items() if passes.eight_filter is None} == {"paper-4gram", "modular-sum"}
