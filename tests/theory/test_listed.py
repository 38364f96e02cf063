"""The statements by name: each says of a case what is true there, and all can be printed."""

from __future__ import annotations

import math

import pytest
import torch

from tests.theory.small import SMALL, every_order
from unmask.core.errors import UnmaskError
from unmask.languages import Interval, load, random_hmm
from unmask.samplers.schedules import deltas
from unmask.theory import correctness
from unmask.theory.listed import STATEMENTS, Case, shown
from unmask.theory.partitions import partitions
from unmask.theory.statements import Statement

OTHER = {"theorem-4.2"}  # about a schedule of its own
JOINT = "joint-"  # about draws of their own: test_joint.py
CASES = {"2-gram": SMALL["2-gram, pruned"], "3-gram": SMALL["3-gram, pruned"], "interval": (Interval(3), 4)}


def truths(language, length, delta):
    """By ordered set partitions, and by listing the steps of all positions."""
    every = partitions(language, length)
    places = torch.cartesian_prod(*[torch.arange(len(delta))] * length).view(-1, length)
    mass = delta[places].prod(1)
    ordered = places.sort(1).values
    distinct = float(mass[(ordered[:, 1:] != ordered[:, :-1]).all(1)].sum())
    ser = every.ser(delta)
    orders = every_order(language, length, deltas("linear", len(delta)))
    best = {"divergence of one order": orders.divergence.min(), "ser of one order": orders.ser.min()}
    known = best | {"divergence": every.divergence(delta), "ser": ser, "distinct": distinct, "collision": 1 - distinct}
    return known | {"valid": 1 - ser}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("schedule", "steps"), [("linear", 3), ("cosine", 5), ("linear", 4)])
def test_what_is_said_is_true(name, schedule, steps):
    language, length = CASES[name]
    delta = deltas(schedule, steps)
    known, said = truths(language, length, delta), set()
    for label, statement in shown((), Case(language, length, delta)):
        if isinstance(statement, str) or label in OTHER | {"lemma-c2"} or label.startswith(JOINT):
            continue
        if label in ("lemma-c5", "lemma-c6") and not isinstance(language, Interval):
            continue
        if label == "lemma-c5":
            assert statement.allows(correctness.all_distinct(3, delta).value)
        elif statement.of in known:
            assert statement.allows(known[statement.of]), (label, statement, known)
        said.add(statement.of)
    assert {"divergence", "ser", "collision"} <= said


def test_each_is_what_its_formula_says():
    case = Case(load("interval-5"), 510, deltas("linear", 100), 1 / 128)
    coarse = STATEMENTS.make("theorem-4.4(coarse=True)", case)
    assert coarse[0].value == correctness.theorem_4_4(510, 5, 15 / 32).value
    assert coarse[1].value == pytest.approx(0.541, abs=5e-4)
    assert STATEMENTS.make("theorem-4.4", case)[1].value == pytest.approx(0.568, abs=5e-4)
    (few, enough) = STATEMENTS.make("theorem-4.3(ser=0.25)", case)
    assert enough.value == math.ceil(510 * 509 / 0.25)
    assert few.of == "ser"
    (only,) = STATEMENTS.make("lemma-c2", case)
    assert only.value == pytest.approx(math.exp(-510 / 128))


def test_all_are_shown_and_what_does_not_apply_says_why():
    case = Case(random_hmm(3, 3, seed=1), 40, deltas("linear", 8))
    found = dict(shown((), case))
    assert list(found) == list(STATEMENTS.makers)
    assert "the language is hmm; expected an n-gram" in found["theorem-4.2"]
    assert isinstance(found["lemma-c1"], Statement)
    with pytest.raises(UnmaskError, match="the language is hmm; expected an n-gram"):
        shown(["theorem-4.2"], case)


@pytest.mark.parametrize(
    ("name", "learning", "message"),
    [
        ("lema-c1", 0.0, "unknown statement 'lema-c1'; did you mean lemma-c1"),
        ("lemma-c6(witdh=3)", 0.0, "did you mean width"),
        ("lemma-c6", 0.6, "the two bits may always agree"),
        ("lemma-c2", -1.0, "learning is -1.0; expected nats per token"),
        ("theorem-4.4(ser=1.5)", 0.0, "ser is 1.5; expected a number from 0 to 1"),
    ],
)
def test_what_is_refused(name, learning, message):
    with pytest.raises(UnmaskError, match=message):
        shown([name], Case(Interval(3), 9, deltas("linear", 4), learning))
