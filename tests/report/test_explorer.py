"""What a page answers: the rows, needs and verdicts of a choice, in Python and in the browser alike."""

from __future__ import annotations

import json
import math
import random
import re

import numpy as np
import pytest

from tests.tasks.evaluation.test_comparing import many
from unmask.core.estimates import exactly, proportion
from unmask.core.files import finite, origin
from unmask.diagnosis.flops import break_even
from unmask.experiments.jobs.sources import OF_AR
from unmask.languages import load
from unmask.report import whole
from unmask.report.explorer.chosen import need, rows, verdict
from unmask.report.explorer.figure import figures
from unmask.report.explorer.figures import schedule as schedules
from unmask.report.explorer.fragment import Explorer, watch
from unmask.report.explorer.metrics import METRICS
from unmask.report.explorer.prepare import prepared
from unmask.report.results import CONTROLS, USUAL, WHO, Results, Training, points
from unmask.report.results import Entry as Line
from unmask.samplers.schedules import Fit, deltas
from unmask.tasks.evaluation import summary
from unmask.tasks.evaluation.advise import advise
from unmask.theory.known import curve

HOSTILE = '<script>alert("x")</script> \u202eevil\u202c \U0001f600 ' + "x" * 60
STEPS = (2, 4, 8, 16, 32, 64)


def point(measure, estimate, **who):
    about = dict.fromkeys(WHO) | {"kind": "mdm", "model": "ideal", "sampler": "ancestral", "length": 64} | who
    needed = about.pop("model_calls", float(min(about["steps"] or 64, 64)))
    spent = {"model_calls": needed, "flops": 1.0 if about["kind"] == "ar" else 1.07 * needed, "seconds": None}
    spent["causal"] = needed / 2 if about["sampler"] == "gibbs(stride=8)" else 0.0
    return about | {"measure": measure} | finite(estimate.to_dict()) | spent | {"job": "samples", "key": "k"}


def made(seed=0, lengths=(64, 128), times=False):
    """Two languages, one with a hostile name; samplers at one of two lengths; AR; a network beside the truth."""
    rng = random.Random(seed)
    found = []
    for of in ("paper-2gram", HOSTILE):
        for length in lengths:
            for sampler in ("ancestral", "strided", "gibbs(stride=8)") if length == lengths[0] else ("ancestral",):
                for model in ("ideal", "trained") if sampler == "ancestral" else ("ideal",):
                    for steps in STEPS:
                        wrong = min(199, max(0, round(200 * math.exp(-steps / rng.uniform(5, 25)))))
                        about = {"of": of, "length": length, "sampler": sampler, "steps": steps, "model": model}
                        about |= {"schedule": "linear", "model_calls": steps * rng.uniform(0.9, 1.0)}
                        found.append(point("ser", proportion(wrong, 200), **about))
                        found.append(point("ter_upper_ratio", exactly(1 + 1 / steps ** rng.uniform(1, 2)), **about))
                        found.append(point("generative_perplexity", exactly(rng.uniform(3, 9)), **about))
            ar = {"of": of, "length": length, "kind": "ar", "sampler": "autoregressive", "model_calls": float(length)}
            found += [point("ser", exactly(0.0), **ar), point("ter_ratio", exactly(1.0), **ar)]
    if times:
        for one in found:
            one["seconds"] = one["model_calls"] * (0.01 if one["kind"] == "mdm" else 0.004)
    journal = [Line(k, 1.0 * k, 3.0 / k, 2.0 / k + 1) for k in range(1, 5)]
    return Results(
        found, [Training("paper-2gram", "mdm", journal, 1.0)], ["failed: samples: <b>no</b>"], ["store"], 12.0
    )


@pytest.fixture(scope="module")
def explorer():
    return Explorer(made())


@pytest.fixture(scope="module")
def page(explorer, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    for name, content in whole.contents(explorer, origin(), False).items():
        (out / name).write_bytes(content)
    return out / "index.html"


def numbered(points):
    return [one | {"number": number} for number, one in enumerate(points)]


def test_a_need_is_the_cheapest_that_surely_meets_the_target():
    """By brute force: whole intervals first, then intervals that contain the target; the best value if none does."""
    rng = random.Random(3)
    seen = set()
    for _ in range(300):
        found = numbered(
            point("ser", proportion(rng.randint(0, 40), 40), steps=n, model_calls=float(rng.randint(1, 9)))
            for n in range(1, 7)
        )
        target = rng.random()
        for name in ("ser", "accuracy"):
            metric = METRICS[name]
            sure = [p for p in found if (p["low"] >= target if metric.rises else p["high"] <= target)]
            perhaps = [p for p in found if p["low"] <= target <= p["high"]]
            wanted = min(sure or perhaps, key=lambda p: (p["model_calls"], p["steps"]), default=None)
            at = need(found, metric, target)
            assert at.point is wanted
            assert at.standing == ("meets" if sure else "may meet" if perhaps else "misses")
            seen.add(at.standing)
            if wanted is None:
                assert at.best["value"] == (max if metric.rises else min)(p["value"] for p in found)
    assert seen == {"meets", "may meet", "misses"}


def test_a_page_and_advise_decide_alike():
    """The same counts as an evaluation and as points: one setting, one standing."""
    rng = random.Random(5)
    for _ in range(20):
        right, target = [rng.randint(0, 30) for _ in range(5)], rng.random()
        groups = [
            many([True] * count + [False] * (30 - count), steps=2**n, seconds=2.0**n) for n, count in enumerate(right)
        ]
        advice = advise(summary.groups([one for group in groups for one in group]), target)
        found = numbered(
            point("accuracy", proportion(count, 30), steps=2**n, model_calls=2.0**n) for n, count in enumerate(right)
        )
        at = need(found, METRICS["accuracy"], target)
        assert (at.point and at.point["steps"]) == (advice.best and advice.best.group.settings["steps"])
        assert advice.best is None or at.standing == advice.best.standing


def test_the_headline_is_the_cheapest_sampler_and_names_the_chosen_one():
    """An oracle is no answer; a cheaper sampler than the chosen one is."""
    who = {"of": "paper-2gram", "length": 64}
    found = [
        point("ser", proportion(wrong, 400), sampler=sampler, steps=steps, model_calls=float(steps), **who)
        for sampler, steps, wrong in (
            ("best-order", 2, 0),
            ("strided", 4, 1),
            ("ancestral", 4, 300),
            ("ancestral", 32, 2),
        )
    ]
    results = Results(found)
    state = Explorer(results).state
    assert state["sampler"] == "ancestral"
    said = verdict(results, state)
    assert "cheapest measured setting with SER of at most 10% is strided, 4 steps." in said.sentence
    assert said.sentence.endswith("The chosen sampler, ancestral, needs 32 steps.")
    assert said.numbers[0] == (
        "strided, 4 steps",
        "the cheapest measured setting; SER 0.25% [0.00633%, 1.38%]: the whole interval meets the target",
    )
    oracle = verdict(results, state | {"sampler": "best-order"}).sentence
    assert "is strided, 4 steps." in oracle
    assert "a reference that uses the true language" in oracle


def test_the_cost_decides_what_is_cheapest():
    who = {"of": "paper-2gram", "length": 64, "sampler": "ancestral"}
    few = point("ser", proportion(0, 400), steps=4, model_calls=4.0, **who) | {"flops": 9.0}
    light = point("ser", proportion(0, 400), steps=8, model_calls=8.0, **who) | {"flops": 2.0}
    results = Results([few, light])
    state = Explorer(results).state
    assert verdict(results, state).numbers[0][0] == "ancestral, 4 steps"
    assert verdict(results, state | {"cost": "flops"}).numbers[0][0] == "ancestral, 8 steps"


def test_rows_are_those_of_the_state(explorer):
    state = explorer.state
    assert (state["metric"], state["sampler"], state["model"]) == ("ser", "ancestral", "ideal")
    found = rows(explorer.results.points, state | {"length": 64}, ("ser",), ("sampler",))
    assert {p["sampler"] for p in found} == {"ancestral", "strided", "gibbs(stride=8)", "autoregressive"}
    assert {p["of"] for p in found} == {"paper-2gram"}
    assert {p["length"] for p in found} == {64}


def test_a_verdict_says_what_it_costs(explorer):
    state = explorer.state | {"length": 64, "target": 0.3}
    masked = [p for p in rows(explorer.results.points, state, ("ser",), ("sampler",)) if p["kind"] == "mdm"]
    at = need(masked, METRICS["ser"], 0.3).point
    said = verdict(explorer.results, state)
    assert said.numbers[0][0] == f"{at['sampler']}, {at['steps']} steps"
    assert said.numbers[1][0] == f"{at['model_calls']:.4g} model calls"
    assert said.numbers[2][0] == f"{64 / at['model_calls']:.3g} AR tokens"
    never = verdict(explorer.results, state | {"target": -1.0})
    assert "no measured setting reaches" in never.sentence
    assert never.numbers[-1][0] == "AR: 0%"
    timed = verdict(made(times=True), state)
    assert timed.numbers[2][0] == f"{64 * 0.004 / (at['model_calls'] * 0.01):.2g} times AR's speed"


def test_every_figure_has_a_place_and_a_name_of_its_own():
    assert len({figure.name for figure in figures()}) == len(figures()) == len({figure.place for figure in figures()})


def test_definitions_fit_their_schema(explorer):
    drawn = {figure.draw for figure in explorer.figures}
    assert len(drawn) > 4
    for draw in drawn:
        definition = draw(explorer.results).to_dict()  # which fails where one does not
        assert not definition.get("datasets")  # a page fills in `rows` alone: other data would be lost


def test_the_front_is_what_nothing_beats(explorer):
    (figure,) = (one for one in explorer.figures if one.name == "front")
    found, _, _ = prepared(figure, explorer.results, explorer.state | {"length": 64})
    drawn = [row for row in found if row["value"] is not None]
    for row in drawn:
        beaten = [o for o in drawn if o["value"] <= row["value"] and o["place"] <= row["place"] and o is not row]
        strictly = [o for o in beaten if o["value"] < row["value"] or o["place"] < row["place"]]
        assert row["front"] == (not strictly)


def states(explorer, count=16):
    """Some states, each a reader may come to."""
    rng = random.Random(1)
    for _ in range(count):
        state = dict(explorer.state)
        for name in ("of", "model", "sampler", "length"):
            state[name] = rng.choice(explorer.choices(name))
        metric = rng.choice(explorer.metrics)
        state |= {"metric": metric.name, "cost": rng.choice(["model_calls", "flops"])}
        targets = [0.05, 0.3, 0.0] if metric.share else [1.01, 1.2] if metric.target else [None, None, 5.0]
        yield state | {"target": rng.choice(targets)}


@pytest.mark.rotates(3)
def test_the_browser_says_what_python_says(explorer, page, open_page):
    """Verdict, rows and frames of all figures, in states at random; to the digits that a page has."""
    shown = open_page(page)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    for state in states(explorer):
        fragment = "&".join(f"{k}={v}" for k, v in _encoded(state).items())
        shown.evaluate("fragment => { location.hash = fragment; }", fragment)
        shown.wait_for_function(
            "all => Object.entries(all).every(([k, v]) => v === null || String(unmask.state[k]) === String(v))",
            arg=state,
        )
        said = verdict(explorer.results, state)
        assert shown.locator("#verdict .verdict").inner_text() == said.sentence
        assert shown.locator("#verdict li strong").all_inner_texts() == [number for number, _ in said.numbers]
        for figure in explorer.figures:
            found, _, _ = prepared(figure, explorer.results, state, explorer.own.get(figure.name, ()))
            theirs = shown.evaluate("name => unmask.rows(name)", figure.name)
            assert _same(found, theirs), figure.name


def _encoded(state):
    from urllib.parse import quote

    return {name: quote(str(value)) for name, value in state.items() if value is not None}


def _same(ours, theirs):
    """Whether rows are equal but for the digits that a page does not have; what is not said is null or not there."""
    return len(ours) == len(theirs) and all(
        _close({n: v for n, v in mine.items() if v is not None}, {n: v for n, v in other.items() if v is not None})
        for mine, other in zip(json.loads(json.dumps(ours)), theirs, strict=True)
    )


def _close(mine, other):
    if isinstance(mine, dict):
        return mine.keys() == other.keys() and all(_close(mine[name], other[name]) for name in mine)
    if isinstance(mine, str):  # the numbers in words
        number = r"\d+(?:\.\d+)?(?:e[+-]\d+)?"
        found = [[float(x) for x in re.findall(number, text)] for text in (mine, other)]
        return re.sub(number, "#", mine) == re.sub(number, "#", other) and found[0] == pytest.approx(found[1], rel=2e-3)
    return mine == other if isinstance(mine, bool) else mine == pytest.approx(other, rel=1e-5)


@pytest.mark.rotates(3)
def test_every_control_changes_what_is_shown(page, open_page):
    shown = open_page(page)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    for name in ("metric", "of", "model"):
        before = shown.locator("#verdict").inner_text() + shown.locator("#numbers").inner_text()
        box = shown.locator(f"#control-{name}")
        box.select_option(index=1)
        after = shown.locator("#verdict").inner_text() + shown.locator("#numbers").inner_text()
        assert before != after, name
        assert f"{name}=" in shown.url
        box.select_option(index=0)
    shown.locator("#control-length").select_option("128")
    assert "at 128 tokens" in shown.locator("#verdict").inner_text()
    shown.locator("#control-length").select_option("64")
    drawn = shown.locator("#front svg").inner_html()
    shown.locator("#control-cost").select_option("flops")
    shown.wait_for_function("before => document.querySelector('#front svg').innerHTML !== before", arg=drawn)
    shown.locator("#control-target").fill("2.5")
    assert "2.5%" in shown.locator("#verdict").inner_text()
    again = open_page(page)
    again.evaluate("address => { location.href = address; }", shown.url)
    again.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    again.wait_for_function("document.getElementById('verdict').innerText.includes('2.5%')")
    assert again.locator("#verdict").inner_text() == shown.locator("#verdict").inner_text()


def test_only_choices_with_data_are_offered(page, open_page):
    """At 128 tokens only ancestral was measured; the others are a click away, at 64 tokens. A bad target is ignored."""
    shown = open_page(page)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")

    def disabled(name):
        return shown.locator(f"#control-{name} option").evaluate_all(
            "all => all.filter(o => o.disabled).map(o => o.value)"
        )

    assert shown.locator("#control-sampler option").all_inner_texts() == ["ancestral", "strided", "gibbs(stride=8)"]
    shown.locator("#control-length").select_option("128")
    assert disabled("sampler") == ["strided", "gibbs(stride=8)"]
    shown.locator("#elsewhere button", has_text="strided").click()
    assert shown.locator("#control-length").input_value() == "64"
    assert shown.locator("#control-sampler").input_value() == "strided"
    assert "No data" not in shown.locator("#verdict").inner_text()
    assert disabled("length") == ["128"]
    before = shown.locator("#verdict").inner_text()
    for wrong in ("-3", "101"):
        shown.locator("#control-target").fill(wrong)
        assert shown.locator("#verdict").inner_text() == before


def test_an_empty_choice_names_the_nearest_one_with_data(tmp_path, open_page):
    measured = [
        point("ser", proportion(1, 200), of=of, length=length, sampler=sampler, steps=steps)
        for of, length, sampler in (("a", 64, "ancestral"), ("b", 128, "ancestral"), ("b", 128, "strided"))
        for steps in STEPS
    ]
    explorer = Explorer(Results(measured))
    (tmp_path / "index.html").write_bytes(whole.contents(explorer, origin(), False)["index.html"])
    said = verdict(explorer.results, explorer.state | {"of": "a", "length": 128}).sentence
    assert said == "No data for SER of a at 128 tokens. The nearest choice with data: length 64."
    shown = open_page(tmp_path / "index.html")
    shown.evaluate("location.hash = 'of=a&length=128'")
    shown.wait_for_function("text => document.querySelector('#verdict .verdict').innerText === text", arg=said)
    shown.locator("#elsewhere button", has_text="length 64").first.click()
    assert "No data" not in shown.locator("#verdict").inner_text()
    assert (shown.locator("#control-of").input_value(), shown.locator("#control-length").input_value()) == ("a", "64")


def test_numbers_are_sorted_by_a_column(page, open_page):
    shown = open_page(page)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    shown.locator("#numbers th button").first.click()
    column = shown.locator("#numbers tr td:nth-child(3)").all_inner_texts()
    values = [0.0 if text.startswith("<") else float(text.partition("%")[0]) for text in column if text != "-"]
    assert len(values) > 10
    assert values == sorted(values)


def test_a_keyboard_is_enough(page, open_page):
    """Tab reaches every control and every number; Enter on a number chooses its point, and says what makes it again."""
    shown = open_page(page)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    reached = set()
    for _ in range(14):
        shown.keyboard.press("Tab")
        reached.add(shown.evaluate("document.activeElement.name || document.activeElement.dataset.at"))
    assert {"metric", "target", "of", "model", "sampler", "length", "cost"} <= reached
    assert shown.evaluate("document.activeElement.dataset.at") is not None
    shown.keyboard.press("Enter")
    assert "unmask generate --language" in shown.locator("#point code").inner_text()


@pytest.mark.rotates(3)
@pytest.mark.parametrize("width", [360, 1400])
def test_it_fits_and_can_be_read_by_all(page, open_page, serious, width):
    shown = open_page(page, width=width, dark=width == 360)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert serious(shown) == []
    assert shown.evaluate("document.body.innerHTML.includes('<script>alert')") is False
    assert HOSTILE.split()[0] in shown.locator("#control-of").inner_text()


def test_what_is_missing_is_said(page):
    text = page.read_text()
    assert "Results are missing." in text
    assert "failed: samples: &lt;b&gt;no&lt;/b&gt;" in text


def test_nothing_measured_is_a_page_too(tmp_path, open_page):
    explorer = Explorer(Results([], [], ["3 of 3 cells of store are not measured yet"], ["store"]))
    content = whole.contents(explorer, origin(), False)["index.html"]
    (tmp_path / "index.html").write_bytes(content)
    shown = open_page(tmp_path / "index.html")
    assert "No data yet." in shown.locator("main").inner_text()
    assert "3 of 3 cells" in shown.locator("main").inner_text()


def test_a_training_alone_is_a_page_too(tmp_path, open_page):
    """Without a number that a control could choose."""
    explorer = Explorer(Results([], made().trainings, [], ["store"]))
    assert [figure.name for figure in explorer.figures] == ["training"]
    (tmp_path / "index.html").write_bytes(whole.contents(explorer, origin(), False)["index.html"])
    shown = open_page(tmp_path / "index.html")
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    assert shown.locator("#training svg").count() == 1
    assert shown.locator("#controls").count() == 0


def test_it_prints(page, open_page):
    """As a PDF: the figures that stand there, without the controls."""
    shown = open_page(page)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    printed = shown.pdf()
    assert printed.startswith(b"%PDF")
    shown.emulate_media(media="print")
    assert not shown.locator("#controls").is_visible()
    assert shown.locator("#ser-by-language svg").is_visible()


def test_calls_of_an_ar_model_are_no_evaluations_of_the_masked_one():
    """36.5 model calls and 36.5 tokens of AR for 128: an evaluation may last (128 - 36.5) / 36.5 tokens of AR."""
    estimate = finite(exactly(0.0).to_dict()) | {"model_calls": 73.0, "key": "k"}
    about = {"language": "paper-2gram", "length": 128, "seed": 0}
    who = about | {"job": "samples", "sampler": "speculative", "steps": 1}
    ar = about | {"job": "samples", "sampler": "autoregressive", "measure": "ser"} | estimate | {"model_calls": 128.0}
    rows_of = [ar, who | {"measure": "ser"} | estimate, who | {"measure": OF_AR} | estimate | {"value": 36.5}]
    found = points(rows_of)
    one = next(p for p in found if p["measure"] == "ser" and p["kind"] == "mdm")
    assert one["causal"] == 36.5
    assert one["flops"] == pytest.approx(36.5 / break_even(USUAL, 128) + 1)
    state = {name: one[name] for name in CONTROLS} | {"metric": "ser", "target": 0.1, "cost": "model_calls"}
    numbers = verdict(Results(found), state).numbers
    spent = f"per sequence; AR needs 128; at least {one['flops']:.3g} times AR's compute"
    assert numbers[1] == ("36.5 model calls and 36.5 AR tokens", spent)
    assert numbers[2][0] == "2.51 AR tokens"
    clocks = [
        about | {"job": "clock", "kind": kind, "measure": "milliseconds"} | estimate | {"value": value}
        for kind, value in (("mdm", 10.0), ("ar", 4.0))
    ]
    learned = [row | {"job": "learned"} for row in rows_of]
    for told, seconds in ((clocks, 36.5 * 0.014), (clocks[:1], None)):
        times = [p["seconds"] for p in points(learned + told) if p["measure"] == "ser" and p["kind"] == "mdm"]
        assert times == [pytest.approx(seconds) if seconds else None]


def test_a_player_shows_a_measured_setting_or_says_that_it_is_an_example():
    language = load("paper-2gram")
    digests = {"paper-2gram": {language.source()["digest"]}}
    who = {"of": "paper-2gram", "schedule": "linear"}
    measured = [
        point("ser", proportion(wrong, 50), sampler=sampler, length=length, steps=steps, **who)
        for sampler, length, steps, wrong in (
            ("best-order", 24, 3, 25),
            ("low-confidence", 24, 6, 30),
            ("low-confidence", 512, 6, 25),
        )
    ]
    results = Results(measured, digests=digests)
    text = watch(results, Explorer(results).state)
    assert "A setting of this page: paper-2gram, 24 tokens, low-confidence, 6 steps." in text
    assert json.loads(re.search(r'json">(.*?)</script>', text)[1])["runs"][0]["rows"][0]["length"] == 24
    long = Results(measured[2:], digests=digests)
    assert "An example, not a setting of this page: paper-2gram, 32 tokens" in watch(long, Explorer(long).state)
    assert watch(Results(measured), Explorer(results).state) == ""  # not the language of that name


@pytest.mark.parametrize("name", ["paper-2gram", "interval-5"])
@pytest.mark.parametrize("schedule", ["linear", "optimal"])
def test_the_shaded_area_is_the_divergence(name, schedule):
    language, length = load(name), 20
    results = Results([], theory=[{"of": name, "length": length}], languages={name: language})
    shaded = schedules.own(results, schedule)
    truth = curve(language, length).divergence(deltas(schedule, schedules.STEPS, Fit(language, length))).value
    area = 0.0
    for number in range(1, schedules.STEPS + 1):
        step = [row for row in shaded if row["step"] == number]
        area += np.trapezoid([r["high"] - r["value"] for r in step], [r["place"] for r in step])
        assert step[0]["loss"] >= -1e-12
    assert area == pytest.approx(truth / length / np.log(2), rel=0.05)  # the points are not the corners
    assert sum({row["step"]: row["loss"] for row in shaded}.values()) == pytest.approx(area)
