"""unmask plan: the keys, the words, and what is a mistake."""

from __future__ import annotations

KEYS = {"steps", "evaluations", "schedule", "predicted", "method", "break_even_evaluations", "verdict"}
ASKED = ("plan", "--language", "interval-5", "--length", 510, "--target", 0.5)


def test_json_has_the_plan_and_the_optimal_one(run):
    result = run(*ASKED, "--json").result
    assert set(result) >= KEYS
    assert {"value", "low", "high"} <= set(result["predicted"])
    assert (result["steps"], result["schedule"]) == (737, "linear")
    assert round(result["predicted"]["value"], 5) == 0.49966
    assert set(result["optimal"]) == KEYS - {"break_even_evaluations", "verdict"}
    assert 0.9 < result["break_even_evaluations"] < 1
    timed = run(*ASKED, "--json", "--ar-token-ms", 3.3, "--step-ms", 9.4, "--batch", 4).result
    assert round(timed["break_even_evaluations"], 3) == 179.043
    assert timed["evaluations"] > result["evaluations"]
    law = result["crossover"]  # of this language c(q) -> (l-1)/4, and evaluations / L -> (l-1)/(8 ln 2) (theory.md 6)
    assert law["ser"] is None
    assert abs(law["constant"] - 1) < 0.01
    assert abs(law["evaluations_per_token"] - 4 / (8 * 0.693147)) < 0.005
    assert abs(law["evaluations_per_token"] - result["evaluations"] / 510) < 0.005
    ser = timed["crossover"]["ser"]  # where evaluations / L are 3.3 / 9.4
    looser = run(*ASKED[:-1], ser, "--json", "--ar-token-ms", 3.3, "--step-ms", 9.4).result
    assert abs(looser["evaluations"] - looser["break_even_evaluations"]) < 0.15 * looser["evaluations"]
    assert "crossover" not in run(*ASKED[:-1], 0.01, "--metric", "ter", "--json").result


def test_the_table_ends_with_one_sentence(run):
    out = " ".join(run(*ASKED).out.split())
    assert "verdict An SER of 0.5 takes 737 steps of schedule linear" in out
    assert out.endswith(".")


def test_the_schedule_of_the_metric_is_planned_once(run):
    result = run(*ASKED, "--schedule", "fewest-pairs", "--json").result
    assert result["optimal"] == {name: result[name] for name in result["optimal"]}


def test_mistakes(run):
    for added, said in (
        (("--step-ms", 3.0), "give both --ar-token-ms and --step-ms"),
        (("--schedule", "lineal"), "did you mean linear"),
        (("--schedule", "geometric"), "the floor of SER is"),
    ):
        ran = run(*ASKED, *added)
        assert ran.code == 2
        assert said in ran.err
    assert run("plan", "--language", "interval-5", "--target", 0).code == 2
