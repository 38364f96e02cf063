"""unmask theory: the acceptance figures, what is null and why, bounds that bound what is measured, files."""

from __future__ import annotations

import csv
import io

import pytest

from tests.metrics.small import ENDING
from unmask.diagnosis.table import QUANTITIES

KEYS = {
    "ser",
    "ter_bits_per_token",
    "generative_nll_bits_per_token",
    "divergence_nats",
    "expected_plan_divergence_nats",
    "entropy_bits_per_token",
    "method",
    "notes",
}

SMALL = ("--language", "interval-5", "--length", 20, "--steps", 4, 32)


@pytest.mark.parametrize(("steps", "ser"), [(736, 0.50013), (737, 0.49966)])
def test_the_interval_language_at_one_half(run, steps, ser):
    ran = run("theory", "exact", "--language", "interval-5", "--length", 510, "--steps", steps, "--json")
    assert ran.code == 0
    assert set(ran.result) == KEYS
    assert round(ran.result["ser"], 5) == ser
    assert None not in ran.result.values()


def test_what_is_not_known_is_null_with_a_note(run):
    ran = run("theory", "exact", "--language", "sparse-hmm", "--length", 64, "--steps", 8, "--json")
    assert set(ran.result) == KEYS
    assert ran.result["ser"] is None
    assert any("SER" in note for note in ran.result["notes"])
    assert "note 1" in run("theory", "exact", "--language", "sparse-hmm", "--length", 64, "--steps", 8).out


def test_an_optimal_schedule_is_one_like_others(run):
    common = ("theory", "exact", "--language", "paper-2gram", "--length", 40, "--steps", 8, "--json")
    plain, best = run(*common).result, run(*common, "--schedule", "optimal").result
    assert best["expected_plan_divergence_nats"] < plain["expected_plan_divergence_nats"]


def test_bounds_hold_for_what_is_exact_and_what_is_measured(run):
    records = run("theory", "table", *SMALL, "--rows", 100, "--json").result["records"]
    assert {record["quantity"] for record in records} == set(QUANTITIES)
    for quantity in QUANTITIES:
        for steps in (4, 32):
            here = [r for r in records if (r["quantity"], r["steps"]) == (quantity, steps)]
            (exact,) = [r["value"] for r in here if r["kind"] == "exact"]
            (measured,) = [r for r in here if r["kind"] == "measured"]
            for bound in here:
                assert bound["kind"] != "upper" or bound["value"] >= exact - 1e-12
                assert bound["kind"] != "lower" or bound["value"] <= exact + 1e-12
            if quantity == "ser":
                assert measured["low"] <= exact <= measured["high"]
            else:  # the mean over orders
                (mean,) = [r["value"] for r in here if r["name"] == "mean over orders"]
                assert measured["low"] <= mean <= measured["high"]


def test_the_table_has_the_theorems_of_an_ngram(run):
    out = run("theory", "table", "--language", "paper-2gram", "--length", 24, "--steps", 8, 64, "--rows", 20).out
    for name in ("theorem 4.2, paper", "theorem 4.2, explicit", "lemma B.9", "theorem 4.3", "exact", "measured"):
        assert f"\n{name}" in out
    assert "N = 64" in out


def test_every_statement_is_listed_and_can_be_shown(run):
    listed = run("theory", "list", "--json").result
    assert listed["lemma-c2"] == "Lemma C.2: with one position per step P(valid) >= exp(-L eps)."
    assert f"lemma-c2 {listed['lemma-c2']}" in " ".join(run("theory", "list").out.split())
    ran = run("theory", "show", "--language", "paper-2gram", "--length", 32, "--steps", 8, "--json")
    assert list(dict.fromkeys(record["name"] for record in ran.result["statements"])) == list(listed)
    some = run("theory", "show", "theorem-4.4(coarse=True)", "lemma-c2", "--length", 510, "--learning", 0.0078125).out
    assert some.splitlines()[0].startswith("theorem-4.4(coarse=True): steps >= 275")
    assert "valid >= 0.018" in some
    assert run("theory", "show", "lemma-z").code == 2


def test_csv_is_the_same_records(run):
    rows = list(csv.DictReader(io.StringIO(run("theory", "table", *SMALL, "--rows", 0, "--csv").out)))
    records = run("theory", "table", *SMALL, "--rows", 0, "--json").result["records"]
    assert [float(row["value"]) for row in rows] == pytest.approx([record["value"] for record in records])
    assert not any(row["kind"] == "measured" for row in rows)


def test_what_the_table_cannot_do(run):
    ENDING.save("ending.json")
    ran = run("theory", "table", "--language", "ending.json", "--length", 5)
    assert ran.code == 2
    assert "varies in length" in ran.err
