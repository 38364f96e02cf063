"""Our jobs: what the functions that they stand for say, however the rows were cut and whoever has measured them."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from tests.experiments.sweeps.conftest import by_name, measured
from unmask import generate, languages, metrics, score, sweep
from unmask.core.errors import UnmaskError
from unmask.core.estimates import share
from unmask.core.means import mean as usual_mean
from unmask.denoisers import Ideal
from unmask.experiments import cell as module
from unmask.experiments.cell import Place as Directories
from unmask.experiments.cell import call, cell_of, find, merged
from unmask.experiments.jobs import sources as tallies
from unmask.experiments.jobs.sources import Amount, Pace, Source, check, records_of_samples, tally_of
from unmask.experiments.pool import Block, attempt
from unmask.languages import random_ngram
from unmask.samplers.schedules import deltas
from unmask.theory.sampled import information_curve

CELL = {"language": "paper-2gram(seed=2)", "length": 24, "steps": 6, "seed": 2}


def records(job, **cell):
    return by_name(measured(job, **cell))


def tally(job, **cell):
    return call(find(job).run, cell_of({"job": job} | cell).values, place=Directories(Path()))


def test_samples_are_what_score_says():
    found = records("samples", rows=90, **CELL)
    language = languages.load("paper-2gram(seed=2)")
    made = generate(language, length=24, steps=6, seed=2, rows=90)
    expected = score(made, language)
    assert found["ser"] == {"measure": "ser", "model_calls": found["ser"]["model_calls"]} | expected.ser.to_dict()
    perplexity = expected.generative_perplexity.to_dict()
    for name in ("value", "low", "high", "n", "level"):
        assert found["generative_perplexity"][name] == pytest.approx(perplexity[name], rel=1e-12)
    assert found["model_calls"]["value"] == pytest.approx(float(made.model_calls.double().mean()), rel=1e-15)


@pytest.mark.parametrize("language", ["paper-2gram", "sparse-hmm", "interval-5", "modular-sum"])
def test_however_the_rows_are_cut(language):
    """To the bit: 61 rows whole, in two, and in uneven pieces, merged in any order."""
    cell = CELL | {
        "length": 23,
        "language": language,
        "sampler": "ancestral",
        "rows": 61,
        "first_row": 3,
    }
    whole = measured("samples", **cell)
    for cuts in ((3, 64), (3, 30, 64), (3, 4, 20, 63, 64)):
        parts = [tally("samples", **cell | {"first_row": a, "rows": b - a}) for a, b in pairwise(cuts)]
        assert records_of_samples(merged(parts[::-1])) == whole


def test_sums_do_not_depend_on_their_order():
    rng = torch.Generator().manual_seed(1)
    samples = torch.rand(1000, generator=rng, dtype=torch.float64) * 1e3 - 20
    whole = tallies.sums("x", samples)
    shuffled = samples[torch.randperm(1000, generator=rng)]
    parts = [tallies.sums("x", part) for part in shuffled.split(77)]
    assert merged(parts) == whole
    expected, found = usual_mean(samples), tallies.mean("x", whole)
    assert found.n == expected.n
    for name in ("value", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-13)
    assert tallies.mean("x", tallies.sums("x", samples[:0])) is None
    assert tallies.mean("x", tallies.sums("x", samples[:1])).high == math.inf


def test_sums_of_groups_are_those_of_the_estimates():
    """Whatever shares a tally is a whole group; merged, the interval is the one over groups."""
    rng = torch.Generator().manual_seed(2)
    groups = torch.randint(40, (300,), generator=rng).sort().values
    samples = torch.rand(300, generator=rng, dtype=torch.float64) + groups / 40
    events = (samples > 1).double()
    cut = int((groups < 17).sum())
    parts = [slice(0, cut), slice(cut, 300)]
    for add, reduce, values, expected in (
        (tallies.sums, tallies.mean, samples, usual_mean(samples, groups=groups)),
        (tallies.counts, tallies.share, events, share(events > 0, groups)),
        (tallies.counts, tallies.share, events * 0, share(events < 0, groups)),
    ):
        found = reduce("x", merged([add("x", values[part], groups[part]) for part in parts]))
        assert (found.n, found.method) == (expected.n, expected.method)
        for name in ("value", "low", "high"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12)
    alone, expected = tallies.mean("x", tallies.sums("x", samples, groups * 0)), usual_mean(samples, groups=groups * 0)
    assert (alone.high, alone.n, alone.method) == (expected.high, 1, expected.method)
    found, expected = tallies.share("x", tallies.counts("x", events, groups * 0)), share(events > 0, groups * 0)
    assert (found.low, found.high, found.n) == (pytest.approx(expected.low), pytest.approx(expected.high), 1)


CONTINUED = {"prompt_length": 2, "rows_per_prompt": 3}


def test_prompts_are_scored_by_enumeration():
    """SER = E_c[1 - p(L_q(c) | c)] and 2^E_c E[-log2 q(x | c) / |x|], from the distribution of every continuation."""
    language, length = random_ngram(2, 3, temperature=2.0, threshold=0.15, seed=2), 4
    every, delta = metrics.sequences(3, length), deltas("linear", 1)
    own = language.log_prob(every).exp()
    wrong = bits = valid = 0.0
    for prompt in metrics.sequences(3, 2):
        c = torch.cat([prompt, torch.tensor([3, 3])])
        if (mass := float(own[(every[:, :2] == prompt).all(1)].sum())) > 0:
            p = metrics.output_distribution(Ideal(language), length, delta, c)
            log_q = language.log_prob(every, c)
            possible = log_q.isfinite()
            wrong += mass * float(p[~possible].sum())
            valid += mass * float(p[possible].sum())
            bits -= mass * float((p * log_q)[possible].sum()) / math.log(2) / 2
    given, prompt = Amount(30_000, 1, 2, 3).prompts(language, length)
    made = generate(language, steps=1, length=length, rows=30_000, seed=1, given=given)
    found = by_name(records_of_samples(tally_of(made, language, prompt)))
    for name, truth in (("ser", wrong), ("generative_perplexity", 2 ** (bits / valid))):
        error = (found[name]["high"] - found[name]["low"]) / 2 / 1.96
        assert abs(found[name]["value"] - truth) < 5 * error
        assert "by prompt" in found[name]["method"]
    assert found["ser"]["n"] == 10_000
    assert wrong > 0.02
    unconditional = 1 - float(metrics.output_distribution(Ideal(language), length, delta)[own > 0].sum())
    assert abs(found["ser"]["value"] - unconditional) > 5 * (found["ser"]["high"] - found["ser"]["value"])


def test_calls_of_the_ar_model_have_a_number_of_their_own():
    made = generate(random_ngram(2, 3, seed=2), sampler="speculative(draft_length=4)", length=24, rows=20, seed=1)
    found = by_name(records_of_samples(tally_of(made, random_ngram(2, 3, seed=2))))
    calls, needed = (float(count.double().mean()) for count in (made.model_calls_of["causal"], made.model_calls))
    assert found["model calls of causal"]["value"] == pytest.approx(calls)
    assert found["ser"]["model_calls"] == pytest.approx(needed)
    assert 0 < calls < needed
    for sampler in ("ancestral", "autoregressive"):
        made = generate(random_ngram(2, 3, seed=2), sampler=sampler, steps=4, length=24, rows=20, seed=1)
        assert "model calls of causal" not in by_name(records_of_samples(tally_of(made, random_ngram(2, 3, seed=2))))


@pytest.mark.parametrize("language", ["paper-2gram", "sparse-hmm"])
def test_prompts_however_the_rows_are_cut(language, monkeypatch):
    """Rows of one prompt stay together, and the records are those of the whole, to the bit."""
    cell = cell_of({"job": "samples", "rows": 61, "first_row": 4, "language": language, "length": 12} | CONTINUED)
    whole = measured(**cell.spec)
    monkeypatch.setattr(module, "TOKENS_A_BLOCK", 8 * 12)
    used, parts = cell.blocks(())
    assert (used, parts) == ([], [(4, 2), *((at, 6) for at in range(6, 60, 6)), (60, 5)])
    assert cell.blocks(parts[1:3]) == (parts[1:3], [part for part in parts if part not in parts[1:3]])
    longer = cell_of(cell.spec | {"rows": 80})
    assert longer.blocks(parts) == (parts[:-1], [(60, 6), (66, 6), (72, 6), (78, 6)])  # (60, 5) ends within a prompt
    tallies_of = [tally(**cell.spec | {"first_row": first, "rows": rows}) for first, rows in parts]
    assert records_of_samples(merged(tallies_of[::-1])) == whole


def test_bounds_and_the_baseline_continue_prompts():
    cell = {"language": "paper-2gram(seed=2)", "length": 10, "seed": 2}
    language = languages.load("paper-2gram(seed=2)")
    given, prompt = Amount(90, 2, 2, 3).prompts(language, 10)
    assert torch.equal(prompt, torch.arange(90) // 3)
    assert [len(part.unique(dim=0)) for part in given.split(3)] == [1] * 30
    curve = information_curve(language, 10, rows=90, seed=2, given=given, prompt=prompt)
    found = records("ter_upper", steps=4, rows=90, **cell, **CONTINUED)
    assert found["ter_upper"]["value"] == curve.ter_upper("linear", 4).value
    assert found["ter_upper"]["n"] == 30
    nats = curve.divergence(deltas("linear", 4)).value
    assert found["ter_upper_ratio"]["value"] == pytest.approx(math.exp(nats / 8))
    ar = records("autoregressive", prompt_length=2, prompts=40, **cell)
    drawn, _ = Amount(40, 2, 2).prompts(language, 10)
    assert ar["ter"]["value"] == metrics.ter_autoregressive(language, 10, drawn).value
    assert ar["ter"]["model_calls"] == 8.0
    assert records("theory", prompt_length=2, language="paper-2gram(seed=2)", length=10) == {}


def test_ter_upper_is_the_profile():
    found = records("ter_upper", rows=20, **CELL)
    profile = information_curve(languages.load("paper-2gram(seed=2)"), 24, rows=20, seed=2)
    for name in ("ter_upper", "ser_upper"):
        expected = getattr(profile, name)("linear", 6)
        assert found[name]["value"] == expected.value
    excess = profile.divergence(deltas("linear", 6)).value
    assert found["ter_upper_ratio"]["value"] == pytest.approx(math.exp(excess / 24))
    exact = records("ter_upper", language="interval-5", length=25, steps=6)
    assert exact["ter"]["value"] == metrics.ter(languages.load("interval-5"), 25, "linear", 6).value
    assert exact["ter_ratio"]["level"] == 1.0
    assert 1 < exact["ter_ratio"]["value"] <= 4


def test_autoregression_has_neither_error():
    found = records("autoregressive", language="paper-2gram", length=20)
    assert (found["ser"]["value"], found["ser"]["method"]) == (0.0, "exact")
    assert found["ter"]["value"] == metrics.ter_autoregressive(languages.load("paper-2gram"), 20).value
    assert found["ter_ratio"]["value"] == 1.0
    assert {record["model_calls"] for record in found.values()} == {20.0}
    made = generate(languages.load("paper-2gram"), sampler="autoregressive", length=20, rows=200)
    assert score(made, languages.load("paper-2gram")).impossible_rows == 0
    assert set(made.model_calls.tolist()) == {20}


def test_an_open_end_is_none_and_a_changed_file_is_refused(tmp_path):
    found = records("samples", language="modular-sum", length=11, steps=11, rows=1)
    assert found["model_calls"]["high"] is None
    path = tmp_path / "q.json"
    languages.load("interval-5").save(path)
    cell = cell_of({"job": "theory", "language": str(path), "length": 10, "digest": "0"}, planned=True)
    answer = attempt(Block(cell.key, cell.stem, cell.job, cell.values), tmp_path, False)
    assert "has changed since the sweep was planned" in answer.error
    assert answer.records is None


def test_a_file_that_is_written_anew_is_read_anew(tmp_path):
    """Also in one process: a language is known by what its file holds, not by its name."""
    path = tmp_path / "q.json"
    found = []
    for name in ("interval-5", "modular-sum"):
        languages.load(name).save(path)
        made = sweep(
            {"jobs": ["autoregressive"], "fixed": {"language": str(path), "length": 35}},
            store=tmp_path / "s",
            engine="here",
        )
        found.append(made.rows()[1]["value"])
        assert found[-1] == metrics.ter_autoregressive(languages.load(name), 35).value
    assert found[0] != found[1]


def test_a_fitted_schedule_is_checked_without_being_fitted():
    """Of sequences of 2^20 tokens, to which none could be fitted."""
    source = Source("interval-5", length=2**20)
    check(source, Pace(5, "optimal"), Amount())
    for schedule, steps, message in (
        ("optimal(power=2)", 5, "has no options"),
        ("optimall", 5, "unknown schedule 'optimall'; did you mean optimal"),
        ("linear", 0, "at least 1"),
    ):
        with pytest.raises(UnmaskError, match=message):
            check(source, Pace(steps, schedule), Amount())
