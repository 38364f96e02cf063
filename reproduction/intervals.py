"""Languages in other forms, which checks compare with them: interval languages, and n-grams as HMMs."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import torch

from unmask.languages import HMM, Interval, NGram


def as_hmm(language: Interval) -> HMM:
    """Note C.8: the interval language as a hidden Markov language."""
    machine = language.as_machine()
    states, symbols = machine.states, machine.symbols
    assert symbols is not None
    transition = np.zeros((states, states))
    transition[machine.edge_source, machine.edge_target] = machine.edge_weight
    return HMM(machine.initial, transition, np.eye(language.vocabulary)[symbols])


def ngram_as_hmm(language: NGram) -> HMM:
    """Section 4.1: a state is the memory of an n-gram, the last n-1 tokens or all so far; it emits the last one."""
    memory, v = language.order - 1, language.vocabulary
    states = [own for size in range(1, memory + 1) for own in product(range(v), repeat=size)]
    number = {own: index for index, own in enumerate(states)}
    beginnings = np.asarray(language.initial).reshape((v,) * memory)
    mass = {own: float(beginnings[own].sum()) for own in states}  # of the sequences that begin like this

    transition = np.zeros((len(states), len(states)))
    for own, token in product(states, range(v)):
        if len(own) == memory:
            code = int(np.ravel_multi_index(own, (v,) * memory))
            transition[number[own], number[(*own[1:], token)]] = language.transition[code, token]
        else:
            following = mass[(*own, token)] / mass[own] if mass[own] else 1 / v
            transition[number[own], number[(*own, token)]] = following

    initial = [mass[own] if len(own) == 1 else 0.0 for own in states]
    return HMM(initial, transition, np.eye(v)[[own[-1] for own in states]])


def as_ngram(language: Interval) -> NGram:
    """The l-gram of an interval language over tokens that include their position: a V + v is v at position a."""
    width, v = language.width, language.vocabulary
    size = width * v
    transition = np.full((size ** (width - 1), size), 1 / size)
    initial = np.zeros(size ** (width - 1))
    contexts = np.stack(np.unravel_index(np.arange(len(initial)), (size,) * (width - 1)), 1)
    positions, tokens = np.divmod(contexts, v)
    for code, (place, token) in enumerate(zip(positions.tolist(), tokens.tolist(), strict=True)):
        following = (place[-1] + 1) % width
        if any((a + 1) % width != b for a, b in pairwise(place)):
            continue
        shown = torch.full((1, width), v)
        for a, t in zip(place, token, strict=True):
            if a < following:
                shown[0, a] = t
        transition[code] = 0
        transition[code, following * v : (following + 1) * v] = language.posterior(shown, torch.tensor([following]))
        if place[0] == 0:
            initial[code] = math.exp(language.log_evidence(torch.tensor([[*token, v]]))[0])
    return NGram(width, initial, transition)
