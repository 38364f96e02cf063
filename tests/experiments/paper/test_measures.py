"""The jobs of claims, compared with exact values of tiny languages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unmask import metrics
from unmask.core.errors import UnmaskError
from unmask.experiments.jobs import claims
from unmask.languages import Interval, load
from unmask.schedules import deltas
from unmask.theory.listed import STATEMENTS, Case

PAIRS = "interval(width=2)"  # two neighbours share a bit


def values(records):
    return {record["measure"]: record["value"] for record in records}


def near(records, measure, value):
    record = next(record for record in records if record["measure"] == measure)
    return record["low"] <= value <= record["high"] and record["high"] - record["low"] < 0.15


def test_infilling_by_pairs():
    records = claims.Infilling(language=PAIRS, length=4, hidden=2, steps=2, rows=600).measure()
    assert values(records)["ser"] == 0  # the partner of each hidden position is given
    assert near(records, "ser_left_to_right", 0.5)  # AR does not see the partner of one of them


def test_passes_by_pairs():
    records = claims.Passes(language=PAIRS, length=4, prompt_length=2, rows_per_prompt=2, rows=1200, steps=1).measure()
    assert near(records, "pass_at_1", 0.5)
    assert near(records, "pass_at_k", 0.75)
    assert near(records, "ser_given_prompt", 0.5)
    with pytest.raises(UnmaskError, match="are not 2 of each prompt"):
        claims.Passes(language=PAIRS, length=4, prompt_length=2, rows_per_prompt=2, rows=3).measure()


def test_support_by_pairs():
    assert near(claims.Support(language=PAIRS, length=4, rows=1500).measure(), "possible", 0.25)


def test_erring():
    q = load("paper-2gram")
    tenth = claims.Erring(language="paper-2gram", length=3, steps=8, epsilon=0.1)
    records = {kind: values(replace(tenth, kind=kind).measure()) for kind in ("leak", "tilt")}
    none = values(replace(tenth, epsilon=0.0).measure())
    assert none["ser"] == pytest.approx(metrics.ser(q, 3, "linear", 8).value)
    own = metrics.ter_autoregressive(q, 3).value
    assert none["ter_ratio"] == pytest.approx(metrics.ter(q, 3, "linear", 8).value / own)
    assert records["tilt"]["ser"] < 2 * none["ser"] < records["leak"]["ser"]
    assert records["tilt"]["divergence_nats"] > none["divergence_nats"]
    with pytest.raises(UnmaskError, match="too long to enumerate"):
        claims.Erring(language=PAIRS, length=9).check()


def test_statement_and_published():
    records = claims.Statement(statement="lemma-c6", language=PAIRS, length=8, steps=4).measure()
    (statement,) = STATEMENTS.make("lemma-c6", Case(Interval(2), 8, deltas("linear", 4)))
    assert values(records) == {"ser": statement.value}
    records = claims.Published(recipe="paper-gsm8k-qwen-3b").measure()
    assert values(records) == {"percent": 76.5, "seconds": 553.3}
    assert records[0]["low"] < 76.5 - 2 < 76.5 + 2 < records[0]["high"]


def test_valid_rounds():
    records = values(claims.ValidSteps(length=512, steps=512).measure())
    assert records["valid_steps"] == pytest.approx(323.83, abs=0.01)
    assert values(claims.ValidSteps(length=512, steps=512, batch=16).measure())["valid_steps"] == pytest.approx(
        512, abs=0.01
    )
    assert records["flop_ratio"] * records["flop_break_even"] == pytest.approx(records["valid_steps"])
