"""unmask theory: the acceptance figures, what is null and why, bounds that bound what is measured, files."""

from __future__ import annotations

import pytest

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
