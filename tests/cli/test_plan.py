"""unmask plan: the keys, the words, and what is a mistake."""

from __future__ import annotations

import json

import pytest

from tests.models.open.speaking import spoken

KEYS = {"steps", "model_calls", "schedule", "predicted", "method", "break_even_model_calls", "verdict"}
ASKED = ("plan", "--language", "interval-5", "--length", 510, "--target", 0.5)


def test_json_has_the_plan_and_the_optimal_one(run):
    result = run(*ASKED, "--json").result
    assert set(result) >= KEYS
    assert {"value", "low", "high"} <= set(result["predicted"])
    assert (result["steps"], result["schedule"]) == (737, "linear")
    assert round(result["predicted"]["value"], 5) == 0.49966
    assert set(result["optimal"]) == KEYS - {"break_even_model_calls", "verdict"}
    assert 0.9 < result["break_even_model_calls"] < 1
    timed = run(*ASKED, "--json", "--ar-token-ms", 3.3, "--step-ms", 9.4, "--batch", 4).result
    assert round(timed["break_even_model_calls"], 3) == 179.043
    assert timed["model_calls"] > result["model_calls"]
    distribution = result[
        "crossover"
    ]  # of this language c(q) -> (l-1)/4, and evaluations / L -> (l-1)/(8 ln 2) (theory.md 6)
    assert distribution["ser"] is None
    assert abs(distribution["constant"] - 1) < 0.01
    assert abs(distribution["model_calls_per_token"] - 4 / (8 * 0.693147)) < 0.005
    assert abs(distribution["model_calls_per_token"] - result["model_calls"] / 510) < 0.005
    ser = timed["crossover"]["ser"]  # where evaluations / L are 3.3 / 9.4
    looser = run(*ASKED[:-1], ser, "--json", "--ar-token-ms", 3.3, "--step-ms", 9.4).result
    assert abs(looser["model_calls"] - looser["break_even_model_calls"]) < 0.15 * looser["model_calls"]
    assert "crossover" not in run(*ASKED[:-1], 0.01, "--metric", "ter", "--json").result


def test_the_advice_comes_first(run):
    ran = run(*ASKED)
    out = " ".join(ran.out.split())
    assert out.startswith(
        "advice In random order, AR is faster, unless one MDM forward pass takes less time than 1.38 AR tokens. An SER"
    )
    assert len(ran.out.splitlines()) <= 8
    assert "crossover: constant" in run(*ASKED, "--verbose").out


def test_what_is_missing_is_named_at_once(run):
    ran = run("plan")
    assert ran.code == 2
    assert "needs --target (the largest acceptable error) and one of --language (a known language), --model" in ran.err
    assert ran.err.endswith("For example: unmask plan --language paper-2gram --target 10%\n")


def test_a_target_is_the_error_that_may_remain(run):
    percent, fraction = (run(*ASKED[:-1], target, "--json").result for target in ("10%", "0.1"))
    assert percent == fraction
    for target, said in (("90", "--target is 90"), ("0", "--target is 0"), ("x%", "expected a percentage")):
        assert said in run(*ASKED[:-1], target).err
    assert "--budget-ms does not apply to a language" in run(*ASKED, "--budget-ms", 3).err
    assert (
        "--metric does not apply to records" in run("plan", "--results", "o", "--target", "1%", "--metric", "ter").err
    )


def test_the_schedule_of_the_metric_is_planned_once(run):
    result = run(*ASKED, "--schedule", "fewest-pairs", "--json").result
    assert result["optimal"] == {name: result[name] for name in result["optimal"]}


@pytest.mark.parametrize("words", [("--target", 0.001), ("--target", 1e-6, "--ar-token-ms", 3.3, "--step-ms", 9.4)])
def test_a_target_that_no_interval_reaches(run, words):
    """500 sequences without an impossible one leave an SER of up to 0.7%."""
    asked = ("plan", "--language", "paper-2gram", "--length", 8, "--sampler", "entropy", *words)
    result = run(*asked, "--json").result
    assert result["high"] is None
    said = " ".join(run(*asked).out.split())
    assert f"interval: {result['low']:g} steps or more (no upper end: 500 sequences" in said


def test_mistakes(run):
    for added, said in (
        (("--batch", 0), "batch is 0; expected at least 1"),
        (("--step-ms", 3.0), "--ar-token-ms and --step-ms need each other"),
        (("--schedule", "lineal"), "did you mean linear"),
        (("--schedule", "geometric"), "SER stays at"),
    ):
        ran = run(*ASKED, *added)
        assert ran.code == 2
        assert said in ran.err
    assert run("plan", "--language", "interval-5", "--target", 0).code == 2


@pytest.fixture
def opened(tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps(f"the cat {n} sat on the mat") for n in range(6)))
    (tmp_path / "p.jsonl").write_text("\n".join(json.dumps("a" * (1 + n % 2)) for n in range(6)))
    return "plan", "--model", spoken(directory), "--card", directory / "card.json"


def test_an_open_model(run, opened):
    """From texts, from texts after prompts, and from the model's own answers."""
    for files, own in (
        (("--texts", "t.jsonl"), False),
        (("--texts", "t.jsonl", "--prompts", "p.jsonl"), False),
        (("--prompts", "p.jsonl"), True),
    ):
        result = run(*opened, *files, "--length", 6, "--target", 0.4, "--json").result
        assert result["own_answers"] is own
        assert list(result["gaps"]) == ["1", "2", "4"]
        assert set(result["plans"]) == {"linear", "optimal"}
        assert result["plans"]["linear"]["steps"] <= 6
        assert result["rows"] == 6
    out = run(*opened, "--texts", "t.jsonl", "--length", 6, "--ar-token-ms", 3, "--step-ms", 1, "--target", 9).out
    assert "times faster than AR" in " ".join(out.split())
    assert "Pass --target" in run(*opened, "--texts", "t.jsonl", "--length", 6).out


def test_mistakes_with_an_open_model(run, opened, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "long.jsonl").write_text("\n".join(json.dumps("a" * 300) for _ in range(6)))
    (tmp_path / "few.jsonl").write_text(json.dumps("a"))
    ar = tmp_path / "ar"
    ar.mkdir()
    reader = ("plan", "--model", spoken(ar, "qwen2", block=1), "--card", ar / "card.json")
    for command, said in (
        ((*opened, "--prompts", "empty.jsonl"), "contains no prompts"),
        ((*opened, "--texts", "empty.jsonl"), "contains no text"),
        ((*opened, "--prompts", "long.jsonl"), "expected at most 64"),
        ((*opened, "--prompts", "few.jsonl", "--texts", "t.jsonl"), "1 prompts and 6 texts"),
        ((*reader, "--texts", "t.jsonl"), "is an AR model"),
        ((*opened, "--texts", "t.jsonl", "--batch", 2), "--batch does not apply to an open model"),
        ((*opened, "--texts", "t.jsonl", "--step-ms", 2), "need each other"),
        (("plan", "--texts", "t.jsonl"), "need an open model"),
        ((*opened, "--target", 0.1), "--card applies to open models"),
    ):
        ran = run(*command)
        assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
        assert said in ran.err


def test_the_steps_of_a_sampler_are_measured(run):
    """They are those of the job that a sweep has; a sampler that sets its own pace has none."""
    asked = ("plan", "--language", "sparse-hmm", "--length", 32, "--target", "10%", "--sampler")
    ran = run(*asked, "strided", "--json")
    assert (ran.code, ran.result["sampler"], ran.result["measure"]) == (0, "strided", "steps_for_ser")
    steps = int(ran.result["value"])
    generate = ("generate", "--language", "sparse-hmm", "--length", 32, "--sampler", "strided", "--rows", 500, "--out")
    enough, fewer = (run(*generate, "a.npy", "--steps", n, "--json").result for n in (steps, steps // 2))
    assert enough["impossible_rows"] <= 50 < fewer["impossible_rows"]
    assert f"strided needs {steps} steps" in " ".join(run(*asked, "strided").out.split())
    timed = run(*asked, "strided", "--ar-token-ms", 9, "--step-ms", 28).out
    assert f"These take {28 * steps:g} ms, and 288 ms." in " ".join(timed.split())
    assert "threshold has no number of steps" in run(*asked, "threshold").err
    assert "does not apply to --sampler" in run(*asked, "strided", "--metric", "ter").err
