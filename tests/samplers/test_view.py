"""What a rule is shown and may remember; and that what a sampler is called makes it again."""

from __future__ import annotations

import pytest
import torch

from tests.doubles import LANGUAGE, Choosing
from unmask import UnmaskError, generate
from unmask.samplers import SAMPLERS, Choice
from unmask.samplers.rules.adaptive import EntropyBounded
from unmask.samplers.rules.blocks import Blocks
from unmask.samplers.rules.confidence import Margin
from unmask.samplers.rules.gibbs import Gibbs
from unmask.samplers.rules.low_confidence import LowConfidence
from unmask.samplers.rules.remdm import ReMDM


def first(view, number=1):
    return view.hidden & (view.hidden.cumsum(1) <= number)


def counts(seen):
    """Counts the steps of each row in its memory, and writes down what it finds there."""

    def choose(view):
        steps = view.memory.get("steps", torch.zeros(len(view.hidden), dtype=torch.int64))
        marks = view.memory.get("marks", torch.zeros(view.hidden.shape))
        going = view.hidden.any(1)
        assert torch.equal(steps[going], view.step[going] - 1)
        assert torch.equal((marks > 0).sum(1)[going], steps[going])
        for row in going.nonzero().squeeze(1).tolist():
            seen.append((row, int(view.turn[row]), int(steps[row])))
        view.memory["steps"] = steps + 1
        view.memory["marks"] = torch.where(first(view), 1.0, marks)
        return Choice(first(view))

    return Choosing(choose, "free")


def test_memory_is_a_rows_own_and_empty_where_a_block_begins():
    """Rows of 12, 9, 5 and 1 hidden positions in blocks of 4: each forgets when its own block is full."""
    given = LANGUAGE.sample(4, 12, seed=1)
    given[torch.arange(12) >= torch.tensor([0, 3, 7, 11]).unsqueeze(1)] = LANGUAGE.vocabulary
    seen: list = []
    generate(LANGUAGE, sampler=Blocks(4, counts(seen)), given=given, steps=12)
    assert sorted(seen) == [(row, k + 1, k % 4) for row, n in enumerate([12, 9, 5, 1]) for k in range(n)]


@pytest.mark.parametrize("kept", [torch.zeros(3), torch.tensor(1.0), 7, [0, 0]])
def test_what_is_kept_has_a_part_for_each_row(kept):
    def keeps(view):
        view.memory["state"] = kept
        return Choice(first(view))

    with pytest.raises(UnmaskError, match=r"stores 'state' in its memory as .*expected tensors \(B, ..\)"):
        generate(LANGUAGE, sampler=Choosing(keeps, "free"), length=4, rows=2)


def test_done_has_a_part_for_each_row():
    done = Choosing(lambda view: Choice(first(view), done=torch.zeros(3, dtype=torch.bool)), "free")
    with pytest.raises(UnmaskError, match=r"returns done = torch.bool \(3,\) in step 1; expected torch.bool \(2,\)"):
        generate(LANGUAGE, sampler=done, length=4, rows=2)


def looks(view):
    """Holds what it is shown against the posterior from scratch."""
    tokens, hidden = view.tokens, view.hidden
    p = torch.where(hidden.unsqueeze(-1), LANGUAGE.posterior(tokens), 0.0)
    order = p.sort(-1, descending=True).values
    assert torch.equal(view.places[0] * tokens.shape[1] + view.places[1], hidden.view(-1).nonzero().squeeze(1))
    torch.testing.assert_close(view.confidence, order[..., 0])
    torch.testing.assert_close(view.margin, order[..., 0] - order[..., 1])
    torch.testing.assert_close(view.entropy, -torch.xlogy(p, p).sum(-1))
    assert torch.equal(view.best, torch.where(hidden, (p / 1e-9).round().argmax(-1), LANGUAGE.vocabulary))
    torch.testing.assert_close(view.of(torch.ones_like(tokens)), p[..., 1])
    drawn, again = view.draw(), view.draw(0.5, 0.9, 2)
    assert torch.equal(drawn < LANGUAGE.vocabulary, hidden)
    assert torch.equal(again < LANGUAGE.vocabulary, hidden)
    assert bool((view.canvas.visits[hidden] >= 2).all())
    assert bool((p.gather(-1, drawn.clamp(max=3).unsqueeze(-1)).squeeze(-1)[hidden] > 0).all())
    assert not bool((hidden & view.revealed).any())
    return Choice(first(view, view.count.unsqueeze(1)), drawn)


@pytest.mark.parametrize("inner", [lambda s: s, lambda s: Blocks(3, s)], ids=["whole", "blocks"])
def test_a_view_shows_what_is_said_and_nothing_elsewhere(inner):
    given = LANGUAGE.sample(5, 9, seed=1)
    given[:, [0, 3, 4, 6, 8]] = LANGUAGE.vocabulary
    given[2] = LANGUAGE.vocabulary
    generate(LANGUAGE, sampler=inner(Choosing(looks)), given=given, steps=4)


NESTED = [
    Blocks(5, Margin(temperature=0.5, ties="position")),
    Blocks(3, EntropyBounded(0.3, proxy="margin")),
    Gibbs(Blocks(4, LowConfidence(0.0)), sweeps=2, stride=3),
    Gibbs(Gibbs("strided", stride=2), sweeps=3),
    Blocks(4, Gibbs(ReMDM("loop", eta=0.25))),
]


@pytest.mark.parametrize("sampler", NESTED, ids=lambda sampler: sampler.spec)
def test_what_nested_samplers_are_called_makes_them_again(sampler):
    assert SAMPLERS.make(sampler.spec) == sampler
    assert SAMPLERS.make(sampler.spec).spec == sampler.spec


def test_names_say_only_what_is_not_as_usual():
    assert LowConfidence().spec == "low-confidence"
    assert Blocks(32, "margin").spec == "blocks(inner='margin')"
    assert Blocks(4, LowConfidence(0.0)).spec == "blocks(block_length=4, inner='low-confidence(temperature=0.0)')"
