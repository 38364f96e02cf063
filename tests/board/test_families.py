"""Which option is the knob, and what it is set to."""

from __future__ import annotations

import pytest

from unmask.board.families import KNOBS, STEPS, family, rounds
from unmask.errors import UnmaskError
from unmask.names import parse
from unmask.samplers import SAMPLERS


def test_rounds_grow_with_the_length():
    assert rounds(128, quick=True) == (4, 16, 64, 128)
    assert rounds(128, quick=True, beyond=True) == (4, 16, 64, 128, 1024)
    assert rounds(2) == (1, 2)  # no round twice, and at least one
    assert {min(rounds(n)) for n in (1, 7, 30)} == {1}
    assert set(rounds(512, quick=True)) < set(rounds(512))


def test_independent_positions_collide_beyond_the_length_too():
    assert max(family("ancestral", 64).values) == 512
    assert max(family("fixed-size", 64).values) == 64


def test_the_number_of_rounds_is_the_knob_unless_something_else_is():
    assert family("ancestral", 128, quick=True).at(16) == ("ancestral", 16)
    assert family("ancestral", 128, steps=(3, 9)).values == (3, 9)
    found = family("blocks(block_length=8, inner=low-confidence)", 128, quick=True)
    assert found.knob == STEPS
    assert found.at(64) == ("blocks(block_length=8, inner=low-confidence)", 64)


def test_an_option_of_ours():
    found = family("speculative", 128, steps=(3, 9))
    assert found.knob == "draft_length"
    specification, steps = found.at(found.values[0])
    assert parse("sampler", specification) == ("speculative", {"draft_length": found.values[0]})
    assert steps is None


def test_a_list_makes_any_option_the_knob():
    found = family("low-confidence(ties=position, temperature=[2, 0.5])", 128)
    assert (found.knob, found.values) == ("temperature", (2, 0.5))
    specification, steps = found.at(0.5)
    assert parse("sampler", specification) == ("low-confidence", {"ties": "position", "temperature": 0.5})
    assert steps is None


def test_a_knob_that_is_fixed_is_none():
    assert family("speculative(draft_length=3)", 128).values == (3,)


def test_every_knob_of_ours_is_one():
    for name in KNOBS:
        assert name in SAMPLERS.makers
        assert family(name, 128).values  # each makes a sampler


@pytest.mark.parametrize(
    ("specification", "expected"),
    [
        ("ancestrl", "did you mean ancestral"),
        ("speculative(draft_length=[2, 0])", "draft_length is 0"),
        ("speculative(draft_length=[])", "no value"),
        ("low-confidence(temperature=[1], ties=[2])", "one knob"),
        ("ancestral(", "cannot read"),
    ],
)
def test_mistakes(specification, expected):
    with pytest.raises(UnmaskError, match=expected):
        family(specification, 128)
