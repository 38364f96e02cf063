"""Properties of a machine: size, entropy rate, mixing, primitivity, and the fraction of random strings it accepts."""

from __future__ import annotations

import math

import numpy as np
import torch

from unmask.core.chance import Stream, uniform
from unmask.core.estimates import Estimate, exactly, proportion
from unmask.core.means import mean
from unmask.languages.base import Language
from unmask.languages.kernels import paths
from unmask.languages.kernels.machine import Floats, Ints, Machine

RANDOM_LENGTH = 16  # long enough to distinguish languages, short enough that some random strings are valid
RATE_LENGTH = 256
DENSE_STATES = 1024  # up to this number, eigenvalues take at most a second


def entropy_rate(language: Language) -> Estimate:
    """lim H(X_1..X_L)/L in nats, from the growth of H between two lengths, in which the ends cancel."""
    short = language.nearest_lengths(RATE_LENGTH)[-1]
    long = language.nearest_lengths(2 * RATE_LENGTH)[-1]
    if short == long:
        return exactly(0.0)  # bounded lengths: H does not grow
    assert language.machine is not None
    if language.machine.unambiguous:
        first, second = language.entropy(short).value, language.entropy(long).value
        return exactly((second - first) / (long - short))

    drawn = language.sample(200, long)
    beginning = drawn.clone()
    beginning[:, short:] = language.vocabulary
    growth = language.log_evidence(beginning) - language.log_evidence(drawn)
    return mean(growth / (long - short), method="monte carlo")


def valid_fraction(language: Language, rows: int = 20000) -> Estimate:
    """The fraction of random strings of about 16 tokens that are valid; exact if a string determines its path."""
    machine = language.machine
    assert machine is not None
    length = language.nearest_lengths(RANDOM_LENGTH)[-1]
    if machine.unambiguous:
        ones = machine._replace(
            initial=(machine.initial > 0) / machine.vocabulary,
            edge_weight=np.full_like(machine.edge_weight, 1 / machine.vocabulary),
            final=(machine.final > 0).astype(np.float64),
        )
        free = np.full((1, length), machine.vocabulary)
        return exactly(float(np.exp(paths.log_evidence(ones, free)[0])))

    u = uniform(0, Stream.LANGUAGE, torch.arange(rows).unsqueeze(1), torch.arange(length))
    return proportion(int(language.supports((u * language.vocabulary).long()).sum()), rows)


def second_eigenvalue(machine: Machine) -> float | None:
    """|lambda_2| of the transition matrix: correlations decay like its powers. None if the machine is too large."""
    if machine.states > DENSE_STATES:
        return None
    matrix = np.zeros((machine.states, machine.states))
    matrix[machine.edge_source, machine.edge_target] = machine.edge_weight
    sizes = np.sort(np.abs(np.linalg.eigvals(matrix)))
    return float(sizes[-2]) if len(sizes) > 1 else 0.0


def primitive(machine: Machine) -> bool:
    """Whether T^k is positive for some k on the recurrent states: one recurrent class, of period one."""
    source, target = machine.edge_source, machine.edge_target
    state = int(np.argmax(machine.initial))

    while True:
        ahead = _steps(source, target, state, machine.states)
        behind = _steps(target, source, state, machine.states)
        lost = np.flatnonzero((ahead >= 0) & (behind < 0))  # reachable without a way back: closer to recurrence
        if not len(lost):
            break
        state = int(lost[0])
    if (behind < 0).any():
        return False

    inside = ahead[source] >= 0
    lags = ahead[source[inside]] + 1 - ahead[target[inside]]
    return math.gcd(*lags.tolist()) == 1


def occupied(machine: Machine, length: int) -> Floats:
    """(L, S) the distribution of the state at each position, where every sequence can go on."""
    source = machine.edge_source
    masses = np.empty((length, machine.states))
    masses[0] = machine.initial
    for j in range(1, length):
        masses[j] = np.bincount(machine.edge_target, masses[j - 1, source] * machine.edge_weight, machine.states)
    return masses


def _steps(source: Ints, target: Ints, start: int, states: int) -> Ints:
    """(S) the number of edges from `start` to each state, -1 without a path."""
    steps = np.full(states, -1)
    frontier = np.array([start])
    depth = 0
    while len(frontier):
        steps[frontier] = depth
        here = np.zeros(states, bool)
        here[frontier] = True
        following = np.unique(target[here[source]])
        frontier = following[steps[following] < 0]
        depth += 1
    return steps
