"""The jobs of claims, compared with exact values of tiny languages."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
import torch

from reproduction import jobs, rebuttal
from reproduction.records import Records
from unmask import UnmaskError, metrics
from unmask.languages import Interval, load
from unmask.samplers.schedules import deltas
from unmask.theory.listed import STATEMENTS, Case

ROOT = Path(__file__).parents[2]
PAIRS = "interval(width=2)"  # two neighbours share a bit


def values(records):
    return {record["measure"]: record["value"] for record in records}


def near(records, measure, value):
    record = next(record for record in records if record["measure"] == measure)
    return record["low"] <= value <= record["high"] and record["high"] - record["low"] < 0.15


def test_infilling_by_pairs():
    records = jobs.infilling(PAIRS, length=4, hidden=2, steps=2, rows=600)
    assert values(records)["ser"] == 0  # the partner of each hidden position is given
    assert near(records, "ser_left_to_right", 0.5)  # AR does not see the partner of one of them


def test_passes_by_pairs():
    records = jobs.passes(PAIRS, length=4, prompt_length=2, rows_per_prompt=2, rows=1200, steps=1)
    assert near(records, "pass_at_1", 0.5)
    assert near(records, "pass_at_k", 0.75)
    assert near(records, "ser_given_prompt", 0.5)
    with pytest.raises(UnmaskError, match="are not 2 of each prompt"):
        jobs.passes(PAIRS, length=4, prompt_length=2, rows_per_prompt=2, rows=3)


def test_derivations_mix_within_a_step_as_enumeration_says():
    """In one step every token has its own marginal: a derivation is right with the product of its tokens' marginals."""
    assert values(jobs.derivations("one", steps=1, rows=50)) == {"ser": 0.0, "answer_error": 0.0}
    rows = torch.tensor(jobs.answered("moving"))
    questions, which = rows[:, : jobs.OPERANDS].unique(dim=0, return_inverse=True)
    valid = 0.0
    for number in range(len(questions)):
        own = rows[which == number, jobs.OPERANDS :]
        marginals = torch.nn.functional.one_hot(own, jobs.END + 1).double().mean(0)
        valid += float(sum(marginals[torch.arange(len(row)), row].prod() for row in own)) / len(questions)
    assert near(jobs.derivations("moving", steps=1, rows=400), "ser", 1 - valid)


def test_an_answer_is_the_number_before_the_first_end():
    digits = jobs.OPERANDS * [0]
    rows = [[*digits, 7, jobs.END, 5], [*digits, jobs.END, 7, 5], [*digits, 1, 2, 3]]
    assert jobs.last_number(torch.tensor(rows)).tolist() == [7, -1, 3]
    several = torch.tensor(jobs.answered("several"))
    assert (jobs.last_number(several) == several[:, : jobs.OPERANDS].sum(1) % jobs.MODULUS).all()
    assert len(several) == 3000 - 100 - 100  # where a = b, or b = c, two derivations are one


def test_support_by_pairs():
    assert near(jobs.support(PAIRS, length=4, rows=1500), "possible", 0.25)


def test_erring():
    q = load("paper-2gram")
    small = {"language": "paper-2gram", "length": 3, "steps": 8}
    records = {kind: values(jobs.erring(**small, kind=kind, epsilon=0.1)) for kind in ("leak", "tilt")}
    none = values(jobs.erring(**small, epsilon=0.0))
    assert none["ser"] == pytest.approx(metrics.ser(q, 3, "linear", 8).value)
    own = metrics.ter_autoregressive(q, 3).value
    assert none["ter_ratio"] == pytest.approx(metrics.ter(q, 3, "linear", 8).value / own)
    assert records["tilt"]["ser"] < 2 * none["ser"] < records["leak"]["ser"]
    assert records["tilt"]["divergence_nats"] > none["divergence_nats"]
    with pytest.raises(UnmaskError, match="too long to enumerate"):
        jobs.erring(PAIRS, length=9)


def test_statement_and_published():
    records = jobs.statement("lemma-c6", PAIRS, length=8, steps=4)
    (statement,) = STATEMENTS.make("lemma-c6", Case(Interval(2), 8, deltas("linear", 4)))
    assert values(records) == {"ser": statement.value}
    figure = rebuttal.percent(Records([]), {"row": "gsm8k-qwen-3b"})
    assert figure.low < 76.5 - 2 < figure.value == 76.5 < 76.5 + 2 < figure.high


def test_valid_rounds():
    records = values(jobs.valid_steps(length=512, steps=512))
    assert records["valid_steps"] == pytest.approx(323.83, abs=0.01)
    shared = values(jobs.valid_steps(length=512, steps=512, batch=16))
    assert shared["valid_steps"] == pytest.approx(512, abs=0.01)
    assert records["flop_ratio"] * records["flop_break_even"] == pytest.approx(records["valid_steps"])


def test_the_public_api_is_enough():
    """Names of unmask and of its rooms; the wheel has src/unmask alone, and nothing there imports this."""
    rooms = {f"unmask.{room}" for room in ("denoisers", "diagnosis", "languages", "metrics", "planning", "samplers")}
    rooms |= {"unmask.models.trained", "unmask.samplers.schedules"}
    for file in (ROOT / "reproduction").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("unmask"):
                assert node.module in rooms | {"unmask"} or str(node.module).startswith("unmask.theory"), file.name
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["src/unmask"]
    imports = re.compile(r"^\s*(from|import) reproduction", re.MULTILINE)
    assert not any(imports.search(file.read_text()) for file in (ROOT / "src").rglob("*.py"))
