"""A row filled in one call is what `at`, `draw` and `reveal` make of it step by step, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.brute import tiny_languages
from unmask import generate
from unmask.core.chance import Randomness
from unmask.denoisers import Canvas, Ideal
from unmask.languages import HMM, load
from unmask.samplers import SAMPLERS, Session
from unmask.samplers.loops import steps_of
from unmask.samplers.schedules import deltas

PRESETS = ["paper-2gram", "paper-3gram", "paper-4gram", "paper-hmm", "sparse-hmm", "interval-5", "brackets"]
SAMPLED = ["ancestral", "fixed-size", "blocks(block_length=5)", "dyadic"]
ROWS = ("tokens", "order", "probability", "model_calls", "impossible")
COUNTS = ("spent", "planned")


def both_ways(monkeypatch, source, **options):
    once = generate(source, **options)
    with monkeypatch.context() as patch:
        patch.setattr(Canvas, "follow", lambda canvas, order: None)
        by_steps = generate(source, **options)
    for name in ROWS:
        assert torch.equal(getattr(once, name), getattr(by_steps, name)), name
    for name in COUNTS:
        assert getattr(once, name) == getattr(by_steps, name), name
    return once


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("sampler", SAMPLED)
def test_presets(monkeypatch, name, sampler):
    """In 12 steps most rows of 60 run into impossible contexts."""
    source = load(name)
    made = both_ways(monkeypatch, source, sampler=sampler, steps=12, length=60, rows=40, seed=3)
    if sampler == "ancestral" and name != "paper-hmm":
        assert bool((made.impossible > 0).any())


@pytest.mark.parametrize("name", tiny_languages())
def test_tiny_languages_with_given_tokens(monkeypatch, name):
    source, length = tiny_languages()[name]
    drawn = source.sample(50, length, seed=2)
    shown = torch.rand(drawn.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    given = torch.where(shown, drawn, source.vocabulary)
    for steps in (1, 2, length):
        both_ways(monkeypatch, source, steps=steps, length=length, rows=50, given=given)


@pytest.mark.parametrize("seed", range(6))
def test_dense_messages_are_followed(monkeypatch, seed):
    """Machines of 32 or 64 states, full of dead ends, with some or no tokens given; and the same in smaller blocks."""
    rng = np.random.default_rng(seed)
    states, vocabulary, length = 32 + 32 * (seed % 2), 5, 21

    def distribution(shape, kept):
        masses = rng.random(shape) * (rng.random(shape) < kept) + 1e-6 * (rng.random(shape) < 0.02)
        masses[..., 0] += masses.sum(-1) == 0
        return masses / masses.sum(-1, keepdims=True)

    ends = (rng.random(states) < 0.3).astype(float) if seed > 2 else None
    source = HMM(
        distribution((states,), 0.3),
        distribution((states, states), 0.07),
        distribution((states, vocabulary), 0.1),
        ends,
    )
    drawn = source.sample(50, length, seed=2)
    given = torch.where(torch.from_numpy(rng.random(drawn.shape) < 0.2 * (seed % 3)), drawn, vocabulary)
    for steps in (1, 3, 12, 10**6):
        options = dict(steps=steps, length=length, seed=seed)
        whole = both_ways(monkeypatch, source, rows=50, given=given, **options)
        part = generate(source, rows=3, first_row=20, given=given[20:23], **options)
        for name in ROWS:
            assert torch.equal(getattr(whole, name)[20:23], getattr(part, name)), name
        if steps == 3 and seed % 3 == 0:  # nothing is given
            assert bool((whole.impossible > 0).any())


def test_a_canvas_that_has_been_seen_and_written_goes_on(monkeypatch):
    """An earlier look is not counted again, an earlier contradiction is not forgotten, and randomness goes on."""
    source = load("paper-2gram")
    ends = []
    for patched in (False, True):
        with monkeypatch.context() as patch:
            if patched:
                patch.setattr(Canvas, "follow", lambda canvas, order: None)
            session = Session(Ideal(source), source.blank(30, 24), Randomness(1, torch.arange(30)), deltas("linear", 6))
            canvas = session.canvas
            rows = torch.arange(30)
            places = torch.full((30,), 3)
            for tokens in (torch.arange(30) % 8, torch.arange(30) // 4):
                canvas.draw(canvas.at(rows, places), rows, places)
                session.put(rows, places, tokens, torch.ones(30), 1)
                places = places + 1
            canvas.at(*canvas.hidden.nonzero(as_tuple=True))
            list(steps_of(SAMPLERS.make("ancestral"), session, torch.where(canvas.hidden, 0, -1)))
            ends.append(
                (
                    session.tokens,
                    session.order,
                    session.probability,
                    canvas.model_calls,
                    canvas.impossible,
                    canvas.visits,
                    canvas.hidden,
                    torch.tensor([canvas.spent.forwards, canvas.spent.rows, canvas.spent.tokens]),
                )
            )
    assert bool((ends[0][4] > 0).any())
    for once, by_steps in zip(*ends, strict=True):
        assert torch.equal(once, by_steps)
