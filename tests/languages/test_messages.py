"""Messages against dense matrices: the rule for impossible contexts, and sweeps that must equal a fresh start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import brute
from unmask.languages import load, sparse_hmm
from unmask.languages.kernels.machine import Machine, from_dense
from unmask.languages.kernels.messages import fill_rows, posterior_rows, sweep_forward, sweep_rows

TINY = {name: case for name, case in brute.tiny_languages().items() if not name.startswith("interval")}
EXAMPLES = settings(max_examples=300)


class Dense(NamedTuple):
    """A machine as matrices, and the documented rule on them."""

    initial: np.ndarray
    transition: np.ndarray
    emission: np.ndarray
    final: np.ndarray

    @classmethod
    def of(cls, machine: Machine) -> Dense:
        transition = np.zeros((machine.states, machine.states))
        transition[machine.edge_source, machine.edge_target] = machine.edge_weight
        emission = np.zeros((machine.states, machine.vocabulary))
        columns = np.repeat(np.arange(machine.vocabulary), np.diff(machine.column_start))
        emission[machine.column_state, columns] = machine.column_weight
        return cls(machine.initial, transition, emission, machine.final)

    def weighed(self, message, token, restart=True):
        """(the message times the evidence, or the evidence alone where that is zero; whether it is)."""
        if token == self.emission.shape[1]:
            return message, False
        product, column = message * self.emission[:, token], self.emission[:, token]
        return (column, True) if restart and not product.any() else (product, False)

    @staticmethod
    def carried(message, restart=True):
        """(the message scaled, or ones where it is zero; whether it is)."""
        if message.any():
            return message / message.sum(), False
        return (np.ones(len(message)) if restart else message), True

    def forward(self, tokens, restart=True):
        """(messages, restarts)"""
        messages, restarts = [self.initial], []
        for token in tokens:
            weighed, again = self.weighed(messages[-1], token, restart)
            message, empty = self.carried(weighed @ self.transition, restart)
            messages.append(message)
            restarts.append(again or empty)
        restarts[-1] = again or not (weighed * self.final).any()
        return messages[:-1], restarts

    def backward(self, tokens, restart=True):
        messages = [self.final]
        for token in tokens[:0:-1]:
            messages.append(self.carried(self.transition @ self.weighed(messages[-1], token, restart)[0], restart)[0])
        return messages[::-1]

    def posterior(self, tokens, restart=True):
        out = []
        for token, ahead, behind in zip(tokens, self.forward(tokens, restart)[0], self.backward(tokens), strict=True):
            if token < self.emission.shape[1]:
                out.append(np.eye(self.emission.shape[1])[token])
                continue
            both = (ahead * behind) @ self.emission
            out.append(both if both.any() else ahead @ self.emission)
        return np.array([row / row.sum() for row in out])


def posterior(machine, contexts):
    positions = np.tile(np.arange(contexts.shape[1]), (len(contexts), 1))
    out = np.empty((*contexts.shape, machine.vocabulary))
    posterior_rows(machine, contexts, positions, out)
    return out


def messages(machine, tokens):
    """(forward, backward, restarts) of rows (B, L) from scratch."""
    forward, backward = np.empty((2, *tokens.shape, machine.states))
    restarts = np.empty(tokens.shape, bool)
    fill_rows(machine, tokens, forward, backward, restarts)
    return forward, backward, restarts


def rows_of(weights: list[list[int]]) -> np.ndarray:
    """Probabilities from whole weights; a row of zeros becomes an even one."""
    table = np.array(weights, float)
    table[table.sum(1) == 0] = 1
    return table / table.sum(1, keepdims=True)


def table(rows: int, columns: int) -> st.SearchStrategy[np.ndarray]:
    """Half of the entries are zero."""
    entry = st.sampled_from([0, 0, 0, 1, 2, 5])
    return st.lists(st.lists(entry, min_size=columns, max_size=columns), min_size=rows, max_size=rows).map(rows_of)


@st.composite
def machines(draw, vocabulary=3):
    states = draw(st.integers(1, 4))
    initial, transition = draw(table(1, states))[0], draw(table(states, states))
    final = draw(st.none() | table(1, states).map(lambda row: row[0]))
    return from_dense(initial, transition, draw(table(states, vocabulary)), final)


def strings(vocabulary: int, shortest: int = 1, longest: int = 8) -> st.SearchStrategy[list[int]]:
    """Contexts: the hidden symbol is as likely as all others together."""
    token = st.just(vocabulary) | st.integers(0, vocabulary - 1)
    return st.lists(token, min_size=shortest, max_size=longest)


@pytest.mark.sampled(26)
@pytest.mark.parametrize("most", [500, pytest.param(3000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", TINY)
def test_rule_on_all_contexts(name, most):
    """Impossible contexts included: posteriors, messages and restarts, of as many as `most` where there are more."""
    language, length = TINY[name]
    machine = language.machine
    dense = Dense.of(machine)
    contexts = brute.sequences(machine.vocabulary + 1, length)
    contexts = contexts[np.random.default_rng(0).permutation(len(contexts))[:most]]
    wanted = np.array([dense.posterior(row) for row in contexts])
    np.testing.assert_allclose(posterior(machine, contexts), wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(language.posterior(torch.from_numpy(contexts)).numpy(), wanted, rtol=0, atol=1e-12)
    forward, backward, restarts = messages(machine, contexts)
    ahead, again = zip(*map(dense.forward, contexts), strict=True)
    assert (restarts == np.array(again)).all()
    for ours, reference in (
        (forward, ahead),
        (backward, [*map(dense.backward, contexts)]),
    ):
        reference = np.array(reference)
        assert ((ours > 0) == (reference > 0)).all()
        scale = ours.sum(2, keepdims=True) / reference.sum(2, keepdims=True)
        np.testing.assert_allclose(ours, reference * scale, rtol=1e-9)


@pytest.mark.long
@EXAMPLES
@given(machines(), strings(3))
def test_rule_on_any_machine(machine, context):
    dense, tokens = Dense.of(machine), np.array([context])
    np.testing.assert_allclose(posterior(machine, tokens)[0], dense.posterior(context), rtol=0, atol=1e-12)
    assert messages(machine, tokens)[2][0].tolist() == dense.forward(context)[1]


def test_the_restart_matters():
    """The mutant without restarts has nothing to say behind the contradiction 0, 1."""
    dense = Dense.of(from_dense(np.array([0.5, 0.5]), np.eye(2), np.eye(2), None))
    assert dense.posterior([0, 1, 2]).tolist() == [[1, 0], [0, 1], [0, 1]]
    assert not dense.forward([0, 1, 2], restart=False)[0][2].any()


@EXAMPLES
@given(st.integers(2, 4).flatmap(lambda v: st.tuples(table(v, v), table(1, v), strings(v))))
def test_first_order_chain_has_the_local_closed_form(drawn):
    """At a hidden position P^a(left, v) P^b(v, right) of the nearest revealed; the first alone if that is zero."""
    transition, initial, context = drawn
    vocabulary, length = len(transition), len(context)
    power = [np.linalg.matrix_power(transition, n) for n in range(length + 1)]
    machine = from_dense(initial[0], transition, np.eye(vocabulary), None)
    ours = posterior(machine, np.array([context]))[0]
    revealed = [j for j, token in enumerate(context) if token < vocabulary]
    for j in set(range(length)) - set(revealed):
        left = max((i for i in revealed if i < j), default=None)
        right = min((i for i in revealed if i > j), default=None)
        ahead = initial[0] @ power[j] if left is None else power[j - left][context[left]]
        behind = np.ones(vocabulary) if right is None else power[right - j][:, context[right]]
        both = ahead * behind if (ahead * behind).any() else ahead
        np.testing.assert_allclose(ours[j], both / both.sum(), rtol=0, atol=1e-12)


def test_impossible_is_known_before_the_last_token():
    """restarts of 0 1 in a chain that forbids it: where the forward message fails, however much is hidden."""
    machine = from_dense(np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.5, 0.5]]), np.eye(2), np.array([1.0, 0.0]))
    for context, restarts in (
        ([2, 2, 2], [False, False, False]),
        ([1, 2, 2], [True, False, False]),
        ([0, 1, 2], [False, True, False]),
        ([2, 2, 1], [False, False, True]),
        ([1, 1, 1], [True, False, True]),
    ):
        assert messages(machine, np.array([context]))[2][0].tolist() == restarts


# Incremental messages: operations are chunks of (position, token), a token may be hidden again.


def swept(machine, tokens, state, row, positions):
    rows, starts = np.array([row]), np.array([0, len(positions)])
    sweep_rows(machine, tokens, *state, rows, starts, np.array(positions))


def agrees(ours, fresh):
    """Equal restarts, the same zeros, and 1e-8 relative."""
    for ours_side, fresh_side in zip(ours[:2], fresh[:2], strict=True):
        if ((ours_side > 0) != (fresh_side > 0)).any() or not np.allclose(ours_side, fresh_side, rtol=1e-8, atol=0):
            return False
    return bool((ours[2] == fresh[2]).all())


def replay(machine, length, chunks, sweep=swept):
    """Two rows, changed in turn, starting blank: whether messages equal fresh ones after every chunk."""
    tokens = np.full((2, length), machine.vocabulary)
    state = messages(machine, tokens)
    for i, chunk in enumerate(chunks):
        for position, token in chunk.items():
            tokens[i % 2, position] = token
        sweep(machine, tokens, state, i % 2, sorted(chunk))
        if not agrees(state, messages(machine, tokens)):
            return False
    return True


@st.composite
def stories(draw, vocabulary=3):
    length = draw(st.integers(1, 12))
    chunk = st.dictionaries(st.integers(0, length - 1), st.integers(0, vocabulary), min_size=1, max_size=4)
    return length, draw(st.lists(chunk, max_size=12))


@pytest.mark.long
@EXAMPLES
@given(machines(), stories())
def test_sweeps_equal_a_fresh_start(machine, story):
    """Reveals, changes and hides in any order, through possible and impossible contexts."""
    assert replay(machine, *story)


@pytest.mark.parametrize("successors", [None, 4])
def test_sweeps_of_many_rows_at_once(successors):
    """Long rows, each revealed in its own random order and chunks with tokens of q or not, and then hidden again."""
    language, rng = sparse_hmm(8, 4, successors, seed=1), np.random.default_rng(0)
    machine, rows, length = language.machine, 6, 80
    tokens, final = np.full((rows, length), 4), language.sample(rows, length).numpy()
    final[3:] = rng.integers(4, size=(rows - 3, length))
    state = messages(machine, tokens)
    orders = rng.permuted(np.tile(np.arange(length), (rows, 1)), axis=1)
    for target in (final, np.full_like(final, 4)):
        done = np.zeros(rows, int)
        while (active := np.flatnonzero(done < length)).size:
            sizes = rng.integers(0, 15, size=len(active))
            chunks = [np.sort(orders[b, done[b] : done[b] + size]) for b, size in zip(active, sizes, strict=True)]
            for b, chunk in zip(active, chunks, strict=True):
                tokens[b, chunk] = target[b, chunk]
            starts = np.cumsum([0, *map(len, chunks)])
            sweep_rows(machine, tokens, *state, active, starts, np.concatenate(chunks))
            done[active] += sizes
            assert agrees(state, messages(machine, tokens))


def chain(seed, states=4, vocabulary=3):
    rng = np.random.default_rng(seed)
    sizes = ((1, states), (states, states), (states, vocabulary))
    initial, transition, emission = (
        rows_of((rng.integers(6, size=s) * rng.integers(2, size=s)).tolist()) for s in sizes
    )
    return from_dense(initial[0], transition, emission, None)


def tale(seed, length=12, vocabulary=3):
    rng = np.random.default_rng(seed)
    return [{int(p): int(rng.integers(vocabulary + 1)) for p in rng.integers(length, size=3)} for _ in range(8)]


def stale(machine, tokens, state, row, positions):
    """Nothing is renewed."""


def forward_only(machine, tokens, state, row, positions):
    forward, scratch = state[0][row].reshape(-1), np.empty((2, machine.states))
    sweep_forward(machine, tokens[row], forward, state[2][row], np.array(positions), *scratch)


def first_change_only(machine, tokens, state, row, positions):
    swept(machine, tokens, state, row, positions[:1])


def one_position_short(side):
    """The outermost message that a sweep renews keeps its old value."""

    def sweep(machine, tokens, state, row, positions):
        old = state[side][row].copy()
        swept(machine, tokens, state, row, positions)
        renewed = np.flatnonzero((state[side][row] != old).any(1))
        if len(renewed):
            outermost = renewed[-1] if side == 0 else renewed[0]
            state[side][row, outermost] = old[outermost]

    return sweep


def neighbours_only(machine, tokens, state, row, positions):
    """Evidence reaches the next position and no further."""
    kept = [message[row].copy() for message in state]
    swept(machine, tokens, state, row, positions)
    near = {p + step for p in positions for step in (-1, 0, 1)}
    for j in set(range(tokens.shape[1])) - near:
        for message, old in zip(state, kept, strict=True):
            message[row, j] = old[j]


def no_restart(machine, tokens, state, row, positions):
    """What contradicts itself stays at zero."""
    swept(machine, tokens, state, row, positions)
    dense = Dense.of(machine)
    state[0][row], state[2][row] = dense.forward(tokens[row].tolist(), restart=False)


MUTANTS = (stale, forward_only, first_change_only, neighbours_only, no_restart)


@pytest.mark.parametrize("mutant", [*MUTANTS, one_position_short(0), one_position_short(1)])
def test_sweeping_mutants_are_caught(mutant):
    caught = sum(not replay(chain(seed), 12, tale(seed), mutant) for seed in range(20))
    assert caught >= 5
    assert all(replay(chain(seed), 12, tale(seed)) for seed in range(20))


@given(st.integers(3, 64), st.integers(2, 5), st.integers(0, 10**6))
def test_both_forms_of_a_machine_agree_with_its_matrix(states, vocabulary, seed):
    """Dense tiles (32, 64 states), dense rests (fewer than 8) and runs of eight: the same messages, the same zeros."""
    states = 32 * max(1, round(states / 32)) if seed % 3 == 0 else states  # a third of them in whole tiles
    rng = np.random.default_rng(seed)
    near = np.abs(np.subtract.outer(np.arange(states), np.arange(states))) < rng.integers(2, states)
    masses = rng.random((states, states)) * near * (rng.random((states, states)) < 0.7) + 1e-3 * np.eye(states)
    emission = rng.random((states, vocabulary)) * (rng.random((states, vocabulary)) < 0.5) + 1e-9
    rows = [m / m.sum(1, keepdims=True) for m in (rng.random((1, states)), masses, emission)]
    machine = from_dense(rows[0][0], rows[1], rows[2], None)
    assert (machine.dense.shape[1] > 0) != (len(machine.run_target) > 0)
    tokens = rng.integers(0, vocabulary + 1, (3, 10))
    forward, backward, _ = messages(machine, tokens)
    dense = Dense.of(machine)
    for ours, wanted in ((forward, [dense.forward(row)[0] for row in tokens]), (backward, map(dense.backward, tokens))):
        reference = np.array(list(wanted))
        reference /= reference.sum(2, keepdims=True)
        np.testing.assert_allclose(ours / ours.sum(2, keepdims=True), reference, rtol=1e-11)
        assert ((ours == 0) == (reference == 0)).all()


def test_a_chain_answers_by_its_neighbours_what_messages_say():
    """Also in impossible contexts, and revealed tokens."""
    chain, draws = load("paper-2gram"), np.random.default_rng(1)
    tokens = np.where(draws.random((300, 24)) < 0.6, chain.vocabulary, draws.integers(chain.vocabulary, size=(300, 24)))
    dead = chain.log_evidence(torch.from_numpy(tokens)) == -torch.inf
    assert 50 < int(dead.sum()) < 250
    said = np.empty((300, 24, chain.vocabulary))
    posterior_rows(chain.machine, tokens, np.tile(np.arange(24), (300, 1)), said)
    assert chain.posterior(tokens).numpy() == pytest.approx(said, abs=1e-12)
