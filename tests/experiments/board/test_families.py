"""Which option is the knob, and what it is set to."""

from __future__ import annotations

from pathlib import Path

import pytest

from unmask.core.errors import UnmaskError
from unmask.core.specs import parse
from unmask.experiments.board.families import KNOBS, STEPS, code_of, family, steps, with_steps
from unmask.samplers import SAMPLERS


def test_rounds_grow_with_the_length():
    assert steps(128, quick=True) == (4, 16, 64, 128)
    assert steps(128, quick=True, beyond=True) == (4, 16, 64, 128, 1024)
    assert steps(2) == (1, 2)  # no round twice, and at least one
    assert {min(steps(n)) for n in (1, 7, 30)} == {1}
    assert set(steps(512, quick=True)) < set(steps(512))


def test_the_number_of_rounds_is_the_knob_unless_something_else_is():
    assert family("ancestral", 128, quick=True).at(16) == ("ancestral", 16)
    assert family("ancestral(steps=[3, 9])", 128).values == (3, 9)
    found = family("blocks(block_length=8, inner=low-confidence)", 128, quick=True)
    assert found.knob == STEPS
    assert found.at(64) == ("blocks(block_length=8, inner=low-confidence)", 64)


@pytest.mark.parametrize(
    ("specification", "label"),
    [
        ("ancestral(steps=[3, 9])", "ancestral"),
        ("gibbs(stride=8, steps=[3, 9])", "gibbs(stride=8)"),
        (
            "blocks(block_length=8, steps=[3, 9], inner=low-confidence)",
            "blocks(block_length=8, inner='low-confidence')",
        ),
        ("blocks(inner='remdm(eta=0.5)', steps=[3, 9])", "blocks(inner='remdm(eta=0.5)')"),
        ("strided(steps=[3, 9])", "strided"),
    ],
)
def test_the_number_of_rounds_is_listed_like_an_option_and_is_no_part_of_the_name(specification, label):
    found = family(specification, 128)
    assert (found.specification, found.knob, found.values) == (label, STEPS, (3, 9))
    assert found.at(9) == (label, 9)
    assert family(with_steps(label, (3, 9)), 128) == found
    assert with_steps(specification, (1, 2)) == specification  # which says its own


def test_rounds_are_given_to_those_whose_knob_they_are():
    assert with_steps("speculative", (3, 9)) == "speculative"
    assert with_steps("low-confidence(temperature=[2, 0.5])", (3, 9)) == "low-confidence(temperature=[2, 0.5])"
    assert with_steps("ancestral", ()) == "ancestral"


def test_the_code_of_a_stranger_is_part_of_what_is_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for number in (1, 2):
        source = "from unmask.samplers import Sampler\nclass Mine(Sampler):\n    def order(self, *given): return {}\n"
        Path(f"stranger_{number}.py").write_text(source.format(number))
    assert code_of("stranger_1:Mine") != code_of("stranger_2:Mine")
    assert len(code_of("stranger_1:Mine")) == 64
    assert code_of("ancestral") == code_of("gibbs(stride=8)") == ""


def test_an_option_of_ours():
    found = family("speculative", 128)
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
        ("low-confidence(temperature=[1], steps=[2])", "one knob"),
        ("speculative(steps=[8])", "sets steps, but its knob is draft_length"),
        ("ancestral(steps=[8, 0])", "steps of sampler .* is 0"),
        ("ancestral(steps=[1.5])", "expected a whole number"),
        ("ancestral(steps=[])", "no value"),
        ("ancestral(", "cannot read"),
    ],
)
def test_mistakes(specification, expected):
    with pytest.raises(UnmaskError, match=expected):
        family(specification, 128)
