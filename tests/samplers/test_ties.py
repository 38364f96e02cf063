"""Equal numbers: a test by > or < fails for them, one by >= or <= passes, whatever float noise there is.

On brackets at 1/2 every second confidence is equal to the threshold, but for noise of up to 3e-16.
"""

from __future__ import annotations

import pytest
import torch

from unmask import generate
from unmask.languages import load
from unmask.samplers import SAMPLERS, Sampler
from unmask.samplers.rules import adaptive

BRACKETS = load("brackets")
TIES = ("threshold(threshold=0.5)", "klass(threshold=0.5, history=0)", "wino(threshold=0.5)")
STRICT = {"threshold", "klass", "wino"}


class Watched(Sampler):
    """Writes down, of each row, what is equal to 1/2 but for noise, what is above it, and what is revealed."""

    pace = "free"
    revises = True

    def __init__(self, inner):
        self.inner, self.seen = inner, []

    def choose(self, view):
        choice = self.inner.choose(view)
        known = view.confidence if choice.tokens is None else view.of(choice.tokens)
        equal = view.hidden & ((known - 0.5).abs() < 1e-12)
        above = view.hidden & ~equal & (known > 0.5)
        self.seen.append((equal, above, choice.reveal & view.hidden, view.hidden.any(1), known))
        return choice


def seen(sampler):
    watched = Watched(SAMPLERS.make(sampler))
    generate(BRACKETS, sampler=watched, length=12, rows=40, seed=1)
    return [torch.cat(parts) for parts in zip(*watched.seen, strict=True)]


def holds(sampler):
    """Whether a step reveals what is above 1/2, what is equal to it unless the rule is strict, or else one position."""
    equal, above, revealed, going, _ = seen(sampler)
    ready = above if sampler.partition("(")[0] in STRICT else above | equal
    some = ready.any(1, keepdim=True)
    alone = (revealed.sum(1) == 1) | ~going
    return torch.equal(revealed & some, ready & some) and bool(alone[~some.squeeze(1)].all())


def test_there_are_ties_that_noise_could_decide():
    equal, _, _, _, known = seen("localleap(threshold=0.5, relief=0)")
    noise = known[equal] - 0.5
    assert len(noise) > 100
    assert bool((noise > 0).any())
    assert bool((noise <= 0).any())


@pytest.mark.parametrize("sampler", TIES)
def test_float_noise_decides_no_tie(sampler):
    assert holds(sampler)


def test_a_comparison_of_the_floats_is_seen(monkeypatch):
    """Mutant: confidence > threshold."""
    monkeypatch.setattr(adaptive, "above", lambda view, values, bound: values > bound)
    assert not holds(TIES[0])


@pytest.mark.parametrize(("factor", "together"), [(1.5, 1), (1.5 + 1e-6, 2)])
def test_a_factor_that_is_reached_exactly_is_not_undercut(factor, together):
    """(n + 1)(1 - c_(n)) of two positions is 3 (1 - 1/2)."""
    equal, above, revealed, _, _ = seen(f"factor(factor={factor!r})")
    here = (equal.sum(1) > 1) & ~above.any(1)
    assert int(here.sum()) > 10
    assert revealed[here].sum(1).unique().tolist() == [together]
