"""What the claims measure, against what is known exactly of tiny languages."""

from __future__ import annotations

import pytest

from unmask import metrics
from unmask.core.errors import UnmaskError
from unmask.experiments.measures import claims
from unmask.languages import Interval, load
from unmask.schedules import deltas
from unmask.theory.listed import STATEMENTS, Case

PAIRS = "interval(width=2)"  # two neighbours share a bit


def found(records):
    return {record["measure"]: record["value"] for record in records}


def near(records, measure, value):
    record = next(record for record in records if record["measure"] == measure)
    return record["low"] <= value <= record["high"] and record["high"] - record["low"] < 0.15


def test_infilling_by_pairs():
    made = claims.infilling(language=PAIRS, length=4, hidden=2, steps=2, rows=600)
    assert found(made)["ser"] == 0  # each of the two hidden has its partner beside it
    assert near(made, "ser_left_to_right", 0.5)  # one of them is written before its partner is seen


def test_passes_by_pairs():
    made = claims.passes(language=PAIRS, length=4, prompt_length=2, rows_per_prompt=2, rows=1200, steps=1)
    assert near(made, "pass_at_1", 0.5)
    assert near(made, "pass_at_k", 0.75)
    assert near(made, "ser_given_prompt", 0.5)
    with pytest.raises(UnmaskError, match="are not 2 of each prompt"):
        claims.passes(language=PAIRS, length=4, prompt_length=2, rows_per_prompt=2, rows=3)


def test_support_by_pairs():
    assert near(claims.support(language=PAIRS, length=4, rows=1500), "possible", 0.25)


def test_erring():
    q = load("paper-2gram")
    made = {kind: found(claims.erring(language="paper-2gram", length=3, steps=8, kind=kind, epsilon=0.1)) for kind in
            ("leak", "tilt")}  # fmt: skip
    none = found(claims.erring(language="paper-2gram", length=3, steps=8, kind="leak", epsilon=0.0))
    assert none["ser"] == pytest.approx(metrics.ser(q, 3, "linear", 8).value)
    own = metrics.ter_autoregressive(q, 3).value
    assert none["ter_ratio"] == pytest.approx(metrics.ter(q, 3, "linear", 8).value / own)
    assert made["tilt"]["ser"] < 2 * none["ser"] < made["leak"]["ser"]
    assert made["tilt"]["divergence_nats"] > none["divergence_nats"]
    with pytest.raises(UnmaskError, match="too long to enumerate"):
        claims.erring.check([{"language": PAIRS, "length": 9, "language_seed": 0, "pruned": True, "digest": ""}])


def test_statement_and_published():
    made = claims.statement(statement="lemma-c6", language=PAIRS, length=8, steps=4)
    (said,) = STATEMENTS.make("lemma-c6", Case(Interval(2), 8, deltas("linear", 4)))
    assert found(made) == {"ser": said.value}
    made = claims.published(recipe="paper-gsm8k-qwen-3b")
    assert found(made) == {"percent": 76.5, "seconds": 553.3}
    assert made[0]["low"] < 76.5 - 2 < 76.5 + 2 < made[0]["high"]


def test_valid_rounds():
    made = found(claims.valid_rounds(length=512, steps=512))
    assert made["valid_rounds"] == pytest.approx(323.83, abs=0.01)
    assert found(claims.valid_rounds(length=512, steps=512, batch=16))["valid_rounds"] == pytest.approx(512, abs=0.01)
    assert made["flop_ratio"] * made["flop_break_even"] == pytest.approx(made["valid_rounds"])
