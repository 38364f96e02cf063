"""Claims are judged by records: the verdicts on planted records and on the recorded measurements."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reproduction import __main__ as program
from reproduction import beside, figures, judge, rebuttal, separators, theorems
from reproduction.document import findings, markdown, totals
from reproduction.items import ITEMS
from reproduction.judge import VERDICTS, Size, Values, all_of, claim, part, shown
from reproduction.records import Absent, Records, plain, read
from unmask import Estimate, UnmaskError
from unmask.experiments.cell import cells_of
from unmask.experiments.recipe import from_dict
from unmask.theory import correctness

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "results/paper-quick.json"
CLAIMS = {name: claim for item in ITEMS.values() for name, claim in item.claims.items()}


ROW = {"job": "samples", "language": "interval-5", "steps": 64, "length": 10, "key": "k", "seconds": 1.0}
ROW |= {"measure": "ser", "value": 0.5, "low": 0.4, "high": 0.6, "n": 9, "level": 0.95, "method": "", "seed": 0}


def estimate(value, spread=0.01):
    return Estimate(value, value - spread, value + spread, 100, 0.95, "")


def values(*estimates):
    return Values(dict(enumerate(estimates)), {})


@pytest.mark.parametrize(("value", "most", "least"), [(0.2, True, False), (0.5, None, None), (0.8, False, True)])
def test_an_interval_that_contains_both_answers_decides_nothing(value, most, least):
    one = values(estimate(value))
    assert (one <= 0.5, one >= 0.5, one < 0.5, one > 0.5) == (most, least, most, least)
    verdict = {True: "agrees", False: "differs", None: "not tested"}
    row = ROW | {"value": value, "low": value - 0.01, "high": value + 0.01}
    half = claim("", "", shown("SER", "ser", steps=64), test=lambda ser: ser <= 0.5)
    assert half.finding(Records([row])).verdict == verdict[most]


def test_limits_themselves_and_exact_values():
    exact = values(estimate(0.5, 0))
    assert (exact <= 0.5, exact >= 0.5, exact < 0.5, exact > 0.5) == (True, True, False, False)
    touching = values(estimate(0.48, 0.02))
    assert (touching <= 0.5, touching < 0.5, touching >= 0.5) == (True, None, None)


def test_several_values_are_compared_one_by_one():
    low, high, wide = estimate(0.2), estimate(0.8), estimate(0.5, 0.4)
    assert (values(low, low) <= 0.5, values(low, high) <= 0.5, values(low, wide) <= 0.5) == (True, False, None)
    assert (values(low, low) < values(high, low), values(low, low) < values(high)) == (None, True)
    assert (values(low) < values(high, wide), values(high) > values(low, low)) == (None, True)
    assert (values(low).apart(values(high)), values(low).apart(values(wide))) == (True, False)
    assert (values(wide).contains(0.9), values(wide).contains(0.91)) == (True, False)
    with pytest.raises(ValueError, match="zip"):
        values(low, low) < values(low, low, low)  # noqa: B015
    assert [all_of(True, True), all_of(True, None), all_of(None, False)] == [True, None, False]


def test_a_line_takes_every_combination_of_its_lists():
    rows = [ROW | {"steps": n, "length": length, "value": n / length} for n in (1, 2) for length in (5, 10)]
    line = shown("{steps} of {length}", "ser", steps=[2, 1], length=lambda records: [5, 10])
    estimates, labelled = line.measured(Records(rows))
    assert estimates.values == [2 / 5, 2 / 10, 1 / 5, 1 / 10]
    assert [label for label, _ in labelled] == ["2 of 5", "2 of 10", "1 of 5", "1 of 10"]
    assert estimates[1, 10].value == 1 / 10
    with pytest.raises(Absent):
        line.measured(Records(rows[:-1]))


def test_a_row_of_a_sweep_becomes_a_record():
    record = plain(ROW | {"job": "reproduction.jobs:support", "digest": "", "model_calls": None})
    assert not {"key", "seconds", "digest", "model_calls"} & set(record)
    assert record["job"] == "support"
    records = Records([record])
    assert records.one("ser", language="interval-5", steps=64, seed=0).value == 0.5
    with pytest.raises(Absent):
        records.one("ser", steps=65)
    with pytest.raises(ValueError, match="several values of length"):
        Records([record, record | {"length": 11}]).one("ser")


def test_a_claim_without_records_is_not_tested():
    for name, one in CLAIMS.items():
        if not name.startswith("tables-rebuttal"):  # which compares published figures
            assert one.finding(Records([])).verdict == "not tested"


def test_absurd_records_are_refused():
    line = shown("", lambda records, at: 1 / records.one("ser").low)
    one = claim("", "", line, test=lambda ser: ser > 0, name="x.y")
    with pytest.raises(UnmaskError, match=r"x\.y cannot be judged by these records: ZeroDivisionError"):
        one.finding(Records([ROW | {"low": 0.0}]))


@pytest.mark.parametrize("size", [Size(), Size(full=True, device="cpu")], ids=lambda size: size.name)
def test_every_item_has_claims_and_cells_that_exist(size):
    for item in ITEMS.values():
        assert item.claims
        if parts := item.cells(size):
            assert cells_of(from_dict({"name": "paper", "parts": parts}))
    assert part("theory", steps=[1, 2], length=8, rows=3) == {
        "jobs": ["theory"], "grid": {"steps": [1, 2]}, "fixed": {"length": 8}, "rows": 3,
    }  # fmt: skip


def changed(records, edits):
    """Records with planted values of a measure, in cells with given fields."""
    planted = []
    for record in records:
        for measure, fields, value in edits:
            if record["measure"] == measure and fields.items() <= record.items():
                record = record | dict.fromkeys(("value", "low", "high"), value)
        planted.append(record)
    return planted


SER = {"job": "samples"}
BOUNDED = "entropy-bounded(gamma=0.1)"
PLANTED = {  # claim: (planted values, the new verdict)
    "figure-1.ter": ([("generative_perplexity", {"steps": 64}, 99.0)], "differs"),
    "figure-1.converges": ([("generative_perplexity", {"steps": 2048}, 99.0)], "differs"),
    "figure-1.name": ([("generative_perplexity", {"sampler": "low-confidence"}, 99.0)], "agrees"),
    "figure-1.ser-slower": ([("ser", {"steps": 64, "language": "sparse-hmm"}, 0.01)], "differs"),
    "figure-1.gap": ([("ser", {"steps": 2048}, 0.0)], "differs"),
    "figure-1.whose-fault": ([("ser", SER | {"language": "paper-2gram", "length": 64, "steps": 8}, 0.1)], "differs"),
    "length.ter": ([("steps_for_ter", {"length": 1025}, 900.0)], "differs"),
    "length.ser": ([("steps_for_ser", {"length": 1025}, 20.0)], "differs"),
    "sampling-strategies.confidence": ([("ser", {"sampler": "margin"}, 0.0)], "differs"),
    "sampling-strategies.none": ([("ser", {"sampler": "dyadic"}, 0.5)], "agrees"),
    "sampling-strategies.adaptive": ([("model_calls", {"sampler": BOUNDED}, 64.0)], "differs"),
    "figure-2-right.below": ([("answer_error", {"steps": 16, "sampler": "ancestral"}, 0.0)], "differs"),
    "figure-2-right.prompted": ([("answer_error", SER | {"steps": 1, "prompt_length": 8}, 0.4)], "agrees"),
    "figure-2-right.derivations": ([("answer_error", {"kind": "moving", "steps": 64}, 0.9)], "differs"),
    "figure-2-right.learned": ([("answer_error", {"job": "learned", "sampler": "ancestral"}, 0.2)], "agrees"),
    "figure-2-left.faster": ([("ngram_perplexity", {"sampler": "ancestral", "steps": 64}, 5.0)], "differs"),
    "timing.dearer-step": ([("flop_break_even", {"length": 1024}, 3.0)], "differs"),
    "timing.valid-steps": ([("valid_steps", {"length": 2048, "batch": 1}, 200.0)], "differs"),
    "theorem-4.2.bound": ([("ter_upper_ratio", {"steps": 97}, 20.0)], "differs"),
    "theorem-4.2.length": ([("ter_upper_ratio", {"length": 2048}, 1.2)], "differs"),
    "theorem-4.2.least": ([("ter_ratio", {"kind": "tilt", "epsilon": 0.03}, 0.99)], "differs"),
    "theorem-4.3.enough": ([("ser", SER | {"steps": 9920}, 0.3)], "differs"),
    "theorem-4.3.learning": ([("ser", {"job": "erring"}, 0.3)], "differs"),
    "theorem-4.3.steps": ([("steps", {"statement": "theorem-4.3(ser=0.1)"}, 300.0)], "differs"),
    "theorem-4.4.half": ([("ser", {"job": "theory", "length": 510, "steps": 293}, 0.4)], "differs"),
    "theorem-4.4.any-schedule": ([("ser", {"job": "theory", "schedule": "cosine"}, 0.7)], "differs"),
    "theorem-4.4.linear": ([("steps_for_ser", {"length": 2000}, 900.0)], "differs"),
    "lemmas.b9": ([("violations", {"lemma": "b9"}, 1.0)], "differs"),
    "lemmas.ngram-hmm": ([("violations", {"lemma": "ngram-hmm"}, 1.0)], "differs"),
    "ddpm-cache.few": ([("model_calls", {"steps": 32, "sampler": "ancestral", "length": 512}, 20.0)], "differs"),
    "ddpm-cache.distribution": ([("ser", {"sampler": "as-published-mdlm"}, 0.1)], "differs"),
    "reviews.conditional": ([("ser", {"prompt_length": 64, "steps": 64}, 1.0)], "differs"),
    "reviews.infilling": ([("ser_left_to_right", {}, 0.0)], "differs"),
    "reviews.hybrid": ([("ser", {"sampler": "speculative"}, 0.5)], "differs"),
    "reviews.finer": ([("ser", {"kind": "tilt"}, 0.5)], "differs"),
    "reviews.steps-of-reasoning": ([("right_by_wrong_steps", {}, 0.0)], "differs"),
    "reviews.pass-at-k": ([("pass_at_k", {}, 0.0)], "differs"),
    "reviews.order": ([("steps_for_ter", {"language": "paper-4gram"}, 60.0)], "differs"),
    "reviews.samples": ([("ser", {"rows": 20_000}, 0.99)], "differs"),
    "reviews.multiple": ([("flop_ratio", {}, 2.0)], "differs"),
}


@pytest.fixture(scope="module")
def measured():
    return read(RECORDS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PLANTED)
def test_other_records_have_another_verdict(measured, name):
    edits, verdict = PLANTED[name]
    item, claim = ITEMS[name.rpartition(".")[0]], CLAIMS[name]
    assert name.startswith(item.name)
    before = claim.finding(Records(measured.records))
    planted = changed(measured.records, edits)
    assert planted != measured.records
    assert (before.verdict == verdict, claim.finding(Records(planted)).verdict) == (False, verdict)


REBUTTAL = {  # claim: (row, percent, seconds, the new verdict)
    "reports": ("gsm8k-dream-256", 50.0, 5253.7, "differs"),
    "gsm8k-not-both": ("gsm8k-dream-256", 76.3, 1.0, "differs"),
    "own-ar": ("humaneval-dream-ltr", 30.0, 784.1, "differs"),
}


@pytest.mark.parametrize("name", REBUTTAL)
def test_other_figures_have_another_verdict(monkeypatch, name):
    row, percent, seconds, verdict = REBUTTAL[name]
    claim = CLAIMS[f"tables-rebuttal.{name}"]
    before = claim.finding(Records([])).verdict
    monkeypatch.setitem(rebuttal.TABLES, row, (percent, seconds))
    assert before != verdict == claim.finding(Records([])).verdict


def test_a_claim_without_its_cell_is_not_tested(measured):
    for name in ("theorem-4.4.half", "length.ser", "lemmas.a1", "reviews.finer"):
        rest = [r for r in measured.records if r["job"] not in ("theory", "steps_for_ser", "lemma", "erring")]
        assert CLAIMS[name].finding(Records(rest)).why.startswith("Not measured yet")


def test_the_measured_steps_are_those_of_the_theorems():
    assert {n: separators.explicit_steps(n, theorems.EPS) for n in theorems.STEPS} == theorems.STEPS
    assert correctness.theorem_4_4(510).value == theorems.MOST_4_4
    coarse = correctness.error_chance(1 / 128, coarse=True)
    assert correctness.theorem_4_4(510, wrong=coarse).value == theorems.COARSE


DIFFERS = {
    "figure-1.name",
    "figure-2-right.prompted",
    "figure-2-right.learned",
    "sampling-strategies.none",
    "ddpm-cache.many",
}
CONSISTENT = {
    "timing.valid-steps",
    "timing.ar",
    "timing.dearer-step",
    "tables-rebuttal.reports",
    "tables-rebuttal.gsm8k-not-both",
    "tables-rebuttal.mbpp-not-both",
    "tables-rebuttal.humaneval-not-both",
    "tables-rebuttal.own-ar",
    "reviews.multiple",
}
NOT_TESTED = {
    "figure-1.ar-zero",
    "figure-1.learned",
    "figure-1.assumption",
    "figure-1.hmm",
    "figure-1.architecture",
    "length.saturates",
    "figure-2-left.faster",
    "figure-2-right.above",
    "tables-rebuttal.llama",
    "lemmas.b6",
    "lemmas.c5-step",
    "ddpm-cache.faster",
    "figure-1.speed",
    "figure-2-left.mdlm-owt",
    "figure-2-left.speed-up",
    "figure-2-left.few-steps",
    "figure-2-right.gsm8k",
    "figure-2-right.lengths",
    "timing.considerable",
    "tables-rebuttal.gsm8k-again",
    "tables-rebuttal.mbpp-again",
    "tables-rebuttal.humaneval-again",
    "reviews.math500",
    "reviews.continuous",
}


def test_the_verdicts_on_the_recorded_measurements(measured):
    found = findings(ITEMS, [measured])
    verdict_of = {claim.name: finding.verdict for own in found.values() for claim, finding in own}
    verdicts = {verdict: {name for name in verdict_of if verdict_of[name] == verdict} for verdict in VERDICTS}
    assert (len(verdict_of), verdicts["differs"], verdicts["not tested"]) == (93, DIFFERS, NOT_TESTED)
    assert verdicts["consistent"] == CONSISTENT
    assert set(verdict_of) == set(CLAIMS)
    assert not [name for own in found.values() for name, finding in own if "Not measured yet" in finding.why]


def test_the_document_is_that_of_the_records(measured):
    sources = [measured, *map(read, program.RECORDS[1:])]
    text = markdown(findings(ITEMS, sources), sources)
    assert text == (ROOT / "reproduction/README.md").read_text()
    assert text.count("\n- `") == 93
    agree, differ, consistent, untested = totals(findings(ITEMS, sources)).values()
    words = " ".join((ROOT / "README.md").read_text().split())
    assert f"{agree} agree, {differ} differ, {consistent} are consistent" in words
    assert f"{untested} are not tested" in words


def test_the_page_of_the_demo_has_the_numbers_beside_numbers(measured):
    rows = beside.rows([measured, *map(read, program.RECORDS[1:])])
    page = (ROOT / "src/unmask/report/views/demo.html").read_text()
    assert beside.html(rows) in page
    faster = next(row.ours for row in rows if row.quantity.startswith("speed-up of 64 steps"))
    assert f"<td>{faster:.3g} times on another GPU" in page


def test_a_number_beside_another_says_its_ratio():
    row = beside.Beside("seconds", 2.0, 3.0, "another GPU")
    assert row.cells == ("seconds", "2", "3", "1.50", "another GPU")
    assert beside.html([row]).endswith("<tr><th>seconds</th><td>2</td><td>3</td><td>1.50</td><td>another GPU</td></tr>")
    assert beside.markdown([row])[-1] == "| seconds | 2 | 3 | 1.50 | another GPU |"


def test_arithmetic_on_the_figures_of_the_paper_is_consistent():
    """Nothing was measured, so such a claim does not agree; figures that contradict it still differ."""
    printed = claim("", "", shown("printed", 2.0), test=lambda value: value <= 3, arithmetic=True)
    assert printed.finding(Records([])).verdict == "consistent"
    assert replace(printed, arithmetic=False).finding(Records([])).verdict == "agrees"
    assert replace(printed, test=lambda value: value <= 1).finding(Records([])).verdict == "differs"


def test_the_program(capsys):
    assert program.main([]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["all", "57", "5", "9", "22"]
    assert program.main(["list"]) == 0
    assert sum(f"  {name}: " in capsys.readouterr().out for name in ["lemmas.a1"]) == 1
    assert program.main(["theorem-4.4.half", "timing"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("timing.valid-steps: consistent")
    assert "SER at N = 293, L = 510, ideal denoiser: 0.825108 (exact)" in out
    assert out.splitlines()[-1].split() == ["all", "2", "0", "3", "0"]


@pytest.mark.long
def test_measuring_again_gives_the_recorded_numbers(measured, tmp_path, monkeypatch, capsys):
    """A job of ours in a process of its own."""
    own = replace(ITEMS["ddpm-cache"], cells=lambda size: [judge.own("valid_steps", steps=[*figures.MANY])])
    monkeypatch.setitem(ITEMS, "ddpm-cache", own)
    words = ["measure", "ddpm-cache.faster", "--out", str(tmp_path), "--workers", "1"]
    assert program.main(words) == 0
    assert "N = 2048, L = 512: 4.51984 (exact)" in capsys.readouterr().out
    made = read(tmp_path / "paper.json")
    assert len(made.records) == 12
    again = findings({"ddpm-cache": own}, [made])["ddpm-cache"]
    before = findings({"ddpm-cache": own}, [measured])["ddpm-cache"]
    assert [finding for claim, finding in again if claim.name == "ddpm-cache.faster"] == [
        finding for claim, finding in before if claim.name == "ddpm-cache.faster"
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("theorm-4.4", "there is no item or claim 'theorm-4.4'. Expected a name of `list`. Did you mean: theorem-4.4"),
        ("--records nowhere.json", "nowhere.json cannot be read: No such file"),
        ("--records broken.json", "broken.json has no records of the paper"),
        ("--records empty.json", "empty.json has no records of the paper: KeyError('records')"),
        ("--records record.json", "a record of 'a number' has no high and no level and no low"),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{")
    Path("empty.json").write_text("{}")
    Path("record.json").write_text(
        json.dumps({"size": "quick", "seconds": 1, "records": [{"job": "lemma", "value": 1}]})
    )
    assert program.main(words.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
