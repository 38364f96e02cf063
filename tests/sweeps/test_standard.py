"""Our metrics: what the functions that they stand for say, however the rows were cut and whoever has measured them."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from unmask import generate, languages, metrics, networks, score, sweep, theory
from unmask.estimates import mean as usual_mean
from unmask.networks import Shape, Trunk
from unmask.schedules import deltas
from unmask.sweeps import tallies
from unmask.sweeps.attempt import attempt, measure
from unmask.sweeps.measures import find, merge
from unmask.theory import exact as _exact  # noqa: F401  theory.exact, as an attribute

CELL = {"language": "paper-2gram", "length": 24, "steps": 6, "seed": 2}


def by_name(records):
    return {record["measure"]: record for record in records}


def records(metric, **cell):
    kind, found, _ = measure({"metric": metric} | cell, whole=True)
    assert kind == "records"
    return by_name(found)


def test_samples_are_what_score_says():
    found = records("samples", rows=90, **CELL)
    language = languages.load("paper-2gram", seed=2)
    made = generate(language, length=24, steps=6, seed=2, rows=90)
    expected = score(made, language)
    assert found["ser"] == {"measure": "ser", "evaluations": found["ser"]["evaluations"]} | expected.ser.to_dict()
    perplexity = expected.generative_perplexity.to_dict()
    for name in ("value", "low", "high", "n", "level"):
        assert found["generative_perplexity"][name] == pytest.approx(perplexity[name], rel=1e-12)
    assert found["evaluations"]["value"] == pytest.approx(float(made.evaluations.double().mean()), rel=1e-15)


@pytest.mark.parametrize("language", ["paper-2gram", "sparse-hmm", "interval-5", "modular-sum"])
def test_however_the_rows_are_cut(language):
    """To the bit: 61 rows whole, in two, and in uneven pieces, merged in any order."""
    cell = CELL | {
        "length": 23,
        "language": language,
        "metric": "samples",
        "sampler": "ancestral",
        "rows": 61,
        "first_row": 3,
    }
    whole = measure(cell, True)[1]
    for cuts in ((3, 64), (3, 30, 64), (3, 4, 20, 63, 64)):
        parts = [measure(cell | {"first_row": a, "rows": b - a}, False)[1] for a, b in pairwise(cuts)]
        assert find("samples").records(merge(parts[::-1]), **cell) == whole


def test_nothing_valid_has_no_perplexity():
    found = records("samples", language="interval-5", length=60, steps=1, rows=20)
    assert found["ser"]["value"] == 1.0
    assert "generative_perplexity" not in found


def test_sums_do_not_depend_on_their_order():
    luck = torch.Generator().manual_seed(1)
    samples = torch.rand(1000, generator=luck, dtype=torch.float64) * 1e3 - 20
    whole = tallies.sums("x", samples)
    shuffled = samples[torch.randperm(1000, generator=luck)]
    parts = [tallies.sums("x", part) for part in shuffled.split(77)]
    assert merge(parts) == whole
    expected, found = usual_mean(samples), tallies.mean("x", whole)
    assert found.n == expected.n
    for name in ("value", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-13)
    assert tallies.mean("x", tallies.sums("x", samples[:0])) is None
    assert tallies.mean("x", tallies.sums("x", samples[:1])).high == math.inf


def test_ter_upper_is_the_profile():
    found = records("ter_upper", rows=20, **CELL)
    profile = metrics.profile(languages.load("paper-2gram", seed=2), 24, 20, 2)
    for name in ("ter_upper", "ser_upper"):
        expected = getattr(profile, name)("linear", 6)
        assert found[name]["value"] == expected.value
    excess = profile.divergence(deltas("linear", 6)).value
    assert found["ter_upper_ratio"]["value"] == pytest.approx(math.exp(excess / 24))
    exact = records("ter_upper", language="interval-5", length=25, steps=6)
    assert exact["ter"]["value"] == metrics.ter(languages.load("interval-5"), 25, "linear", 6).value
    assert exact["ter_ratio"]["level"] == 1.0
    assert 1 < exact["ter_ratio"]["value"] <= 4


def test_the_ratio_is_of_the_bound_to_the_language():
    """Measured on the same rows, it agrees with the quotient of the bound and the exact TER(q)."""
    found = records("ter_upper", rows=400, **(CELL | {"length": 16, "steps": 4}))
    own = metrics.ter_autoregressive(languages.load("paper-2gram", seed=2), 16).value
    quotient = found["ter_upper"]
    assert quotient["low"] / own < found["ter_upper_ratio"]["value"] < quotient["high"] / own


def test_autoregression_has_neither_error():
    found = records("autoregressive", language="paper-2gram", length=20)
    assert (found["ser"]["value"], found["ser"]["method"]) == (0.0, "exact")
    assert found["ter"]["value"] == metrics.ter_autoregressive(languages.load("paper-2gram"), 20).value
    assert found["ter_ratio"]["value"] == 1.0
    assert {record["evaluations"] for record in found.values()} == {20.0}
    made = generate(languages.load("paper-2gram"), sampler="autoregressive", length=20, rows=200)
    assert score(made, languages.load("paper-2gram")).invalid_rows == 0
    assert set(made.evaluations.tolist()) == {20}


def test_theory_is_the_door():
    found = records("theory", **CELL)
    known = theory.exact.exact(languages.load("paper-2gram", seed=2), 24, deltas("linear", 6))
    assert found["ser"]["value"] == known.ser
    assert found["generative_perplexity"]["value"] == 2**known.generative_nll_bits_per_token
    assert found["ser"]["method"].startswith("exact: recursion on gaps")


def test_an_open_end_is_none_and_a_changed_file_is_refused(tmp_path):
    found = records("samples", language="modular-sum", length=11, steps=11, rows=1)
    assert found["evaluations"]["high"] is None
    path = tmp_path / "q.json"
    languages.load("interval-5").save(path)
    spec = {"metric": "theory", "language": str(path), "length": 10, "digest": "0"}
    told = attempt(("key", spec, True, ()), tmp_path)
    assert told["kind"] == "raised"
    assert "has changed since the sweep was planned" in told["error"]


def test_samples_of_a_network_on_the_language_it_was_trained_on(tmp_path):
    language, length = languages.preset("paper-2gram"), 8
    torch.manual_seed(0)
    trunk = Trunk(Shape("mdm", 8, length, hidden=8, layers=1, heads=1))
    torch.nn.init.normal_(trunk.head.weight, std=0.3)
    about = {"language": language.to_dict(), "label": "a language"}
    networks.save(trunk, tmp_path / "net", account={"origin": {"configuration": about}})
    recipe = {
        "name": "net",
        "metrics": ["samples"],
        "fixed": {"model": str(tmp_path / "net"), "length": length, "steps": 4},
        "rows": 100,
    }
    found = {row["measure"]: row for row in sweep(recipe, store=tmp_path / "store", workers=1).rows()}
    network = networks.Network(networks.load(tmp_path / "net"))
    made = generate(network, steps=4, length=length, rows=100)
    assert found["ser"]["value"] == score(made, language).ser.value
    assert found["evaluations"]["value"] == pytest.approx(float(made.evaluations.double().mean()))


def test_a_file_that_is_written_anew_is_read_anew(tmp_path):
    """Also in one process: a language is known by what its file holds, not by its name."""
    path = tmp_path / "q.json"
    found = []
    for name in ("interval-5", "modular-sum"):
        languages.load(name).save(path)
        made = sweep(
            {"metrics": ["autoregressive"], "fixed": {"language": str(path), "length": 35}},
            store=tmp_path / "s",
            engine="here",
        )
        found.append(made.rows()[1]["value"])
        assert found[-1] == metrics.ter_autoregressive(languages.load(name), 35).value
    assert found[0] != found[1]
