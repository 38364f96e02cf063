"""A row filled in one call is what `at`, `draw` and `reveal` make of it round by round, bit for bit."""

from __future__ import annotations

import pytest
import torch

from tests.brute import tiny_languages
from unmask import generate
from unmask.chance import Luck
from unmask.denoisers import Canvas, Exact
from unmask.languages import preset
from unmask.samplers import SAMPLERS, Session
from unmask.samplers.loops import fill_part
from unmask.schedules import deltas

PRESETS = ["paper-2gram", "paper-3gram", "paper-4gram", "paper-hmm", "sparse-hmm", "interval-5", "brackets"]
SAMPLED = ["ancestral", "fixed-size", "blocks(block_length=5)", "dyadic"]
ROWS = ("tokens", "order", "probability", "evaluations", "impossible")
COUNTS = ("forwards", "rows_computed", "planned")


def both_ways(monkeypatch, source, **options):
    once = generate(source, **options)
    with monkeypatch.context() as patch:
        patch.setattr(Canvas, "follow", lambda canvas, order: None)
        by_rounds = generate(source, **options)
    for name in ROWS:
        assert torch.equal(getattr(once, name), getattr(by_rounds, name)), name
    for name in COUNTS:
        assert getattr(once, name) == getattr(by_rounds, name), name
    return once


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("sampler", SAMPLED)
def test_presets(monkeypatch, name, sampler):
    """In 12 rounds most rows of 60 run into impossible contexts."""
    source = preset(name)
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


def test_a_canvas_that_has_been_seen_and_written_goes_on(monkeypatch):
    """An earlier look is not counted again, an earlier contradiction is not forgotten, and luck goes on."""
    source = preset("paper-2gram")
    ends = []
    for patched in (False, True):
        with monkeypatch.context() as patch:
            if patched:
                patch.setattr(Canvas, "follow", lambda canvas, order: None)
            session = Session(Exact(source), source.blank(30, 24), Luck(1, torch.arange(30)), deltas("linear", 6))
            canvas = session.canvas
            rows = torch.arange(30)
            places = torch.full((30,), 3)
            for tokens in (torch.arange(30) % 8, torch.arange(30) // 4):
                canvas.draw(canvas.at(rows, places), rows, places)
                session.put(rows, places, tokens, torch.ones(30), 1)
                places = places + 1
            canvas.look()
            fill_part(SAMPLERS.make("ancestral"), session, canvas.hidden.clone(), session.delta, 2)
            ends.append(
                (
                    session.tokens,
                    session.order,
                    session.probability,
                    canvas.evaluations,
                    canvas.impossible,
                    canvas.visits,
                    canvas.hidden,
                    torch.tensor([canvas.forwards, canvas.rows_computed]),
                )
            )
    assert bool((ends[0][4] > 0).any())
    for once, by_rounds in zip(*ends, strict=True):
        assert torch.equal(once, by_rounds)
