"""Messages restricted to revealed tokens give the posterior of the whole machine, after any changes of tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unmask.denoisers.ideal import MessageEngine, WindowEngine
from unmask.languages import random_ngram
from unmask.languages.kernels import windows
from unmask.languages.kernels.messages import posterior_rows

CASES = [(3, 2, 0.1, 2), (3, 3, 0.1, 7), (3, 9, 0.05, 12), (4, 3, 0.1, 3), (4, 3, 0.0, 11), (5, 2, 0.2, 13)]


class Row:
    """One row with restricted messages."""

    def __init__(self, order, symbols, threshold, length):
        self.language = random_ngram(order, symbols, threshold=threshold, seed=order)
        self.form = windows.windows(order - 1, self.language.initial, self.language.transition)
        self.scratch = windows.scratch(self.form, length)
        self.tokens = np.full(length, symbols)
        self.restart()

    def restart(self):
        self.messages = windows.blank(self.form, len(self.tokens))

    def set(self, positions, tokens):
        """Whether the context is possible."""
        self.tokens[positions] = tokens
        return windows.sweep(self.form, self.tokens, *self.messages, np.sort(positions), self.scratch)

    def marginals(self):
        """(L, V): at revealed positions as if hidden."""
        out = np.empty((len(self.tokens), self.form.symbols))
        for j, row in enumerate(out):
            windows.marginal(self.form, self.tokens, j, *self.messages, row, self.scratch)
        return out

    def posterior(self):
        """(L, V): what `marginals` must be, from the machine and from scratch."""
        length, symbols = len(self.tokens), self.form.symbols
        contexts, out = np.tile(self.tokens, (length, 1)), np.empty((length, 1, symbols))
        np.fill_diagonal(contexts, symbols)
        posterior_rows(self.language.machine, contexts, np.arange(length).reshape(-1, 1), out)
        return out[:, 0]


@pytest.mark.parametrize(("order", "symbols", "threshold", "length"), CASES)
@pytest.mark.parametrize("seed", range(8))
def test_marginals_are_those_of_the_machine(order, symbols, threshold, length, seed):
    """Chunks of tokens of q, and random ones, are revealed, hidden and changed; impossible contexts are found."""
    row, rng = Row(order, symbols, threshold, length), np.random.default_rng(seed)
    drawn = row.language.sample(1, length, seed=seed)[0].numpy()
    for _ in range(12):
        positions = rng.permutation(length)[: rng.integers(1, 4)]
        hide, chance = rng.random((2, len(positions))) < [[0.25], [0.05]]
        tokens = np.where(chance, rng.integers(symbols, size=len(positions)), drawn[positions])
        possible = row.set(positions, np.where(hide, symbols, tokens))
        assert possible == bool(row.language.log_evidence(torch.from_numpy(row.tokens[None])) > -torch.inf)
        if not possible:
            row.tokens[:] = symbols
            row.restart()
        ours, wanted = row.marginals(), row.posterior()
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-9)
        assert ((ours > 0) == (wanted > 0)).all()


@pytest.mark.parametrize("seed", range(4))
def test_an_engine_of_windows_is_one_of_messages(seed):
    """Rows that are revealed, hidden again and changed, through impossible contexts."""
    language, rng = random_ngram(3, 5, threshold=0.05, seed=seed), np.random.default_rng(seed)
    drawn, tokens = language.sample(20, 9, seed=seed), language.blank(20, 9)
    tokens[:, 2] = drawn[:, 2]
    engines = WindowEngine(language, tokens), MessageEngine(language, tokens)
    rows, positions = torch.ones_like(tokens).nonzero(as_tuple=True)
    for _ in range(8):
        ours, wanted = (engine.at(rows, positions, None) for engine in engines)
        torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-9)
        known = torch.from_numpy(language.log_evidence(tokens).numpy() == -np.inf)
        assert torch.equal(engines[0].dead(), known)
        assert torch.equal(engines[1].dead(), known)
        at = torch.from_numpy(rng.random(tokens.shape) < 0.2)
        choice = torch.from_numpy(rng.random(tokens.shape))
        tokens[at] = torch.where(choice < 0.9, drawn, torch.from_numpy(rng.integers(5, size=tokens.shape)))[at]
        tokens[at & (choice < 0.2)] = 5
        for engine in engines:
            engine.renew(*at.nonzero(as_tuple=True))
    assert bool(known.any())
    assert not bool(known.all())
