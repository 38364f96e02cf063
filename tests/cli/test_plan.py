"""unmask plan: the keys, the words, and what is a mistake."""

from __future__ import annotations

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
        "advice Take AR unless one model call is faster than 1.38 AR tokens. An SER of at most 0.5 needs"
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


def test_mistakes(run):
    for added, said in (
        (("--step-ms", 3.0), "--ar-token-ms and --step-ms need each other"),
        (("--schedule", "lineal"), "did you mean linear"),
        (("--schedule", "geometric"), "SER stays at"),
    ):
        ran = run(*ASKED, *added)
        assert ran.code == 2
        assert said in ran.err
    assert run("plan", "--language", "interval-5", "--target", 0).code == 2
