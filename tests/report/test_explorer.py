"""What a page answers: the rows, needs and verdicts of a choice, in Python and in the browser alike."""

from __future__ import annotations

import json
import math
import random
import re

import pytest

from unmask.core.estimates import exactly, proportion
from unmask.core.files import finite, origin
from unmask.cost.flops import break_even
from unmask.experiments.measures.standard import OF_AR
from unmask.report import whole
from unmask.report.explorer.chosen import need, rows, verdict
from unmask.report.explorer.figure import figures
from unmask.report.explorer.fragment import Explorer
from unmask.report.explorer.prepare import prepared
from unmask.report.explorer.yardsticks import YARDSTICKS
from unmask.report.results import CONTROLS, USUAL, WHO, Results, Training, points
from unmask.report.results import Entry as Line

HOSTILE = '<script>alert("x")</script> \u202eevil\u202c \U0001f600 ' + "x" * 60
STEPS = (2, 4, 8, 16, 32, 64)


def point(measure, estimate, **who):
    about = dict.fromkeys(WHO) | {"kind": "mdm", "model": "ideal", "sampler": "ancestral", "length": 64} | who
    needed = about.pop("evaluations", float(min(about["steps"] or 64, 64)))
    spent = {"evaluations": needed, "flops": 1.0 if about["kind"] == "ar" else 1.07 * needed, "seconds": None}
    spent["causal"] = needed / 2 if about["sampler"] == "gibbs(stride=8)" else 0.0
    return about | {"measure": measure} | finite(estimate.to_dict()) | spent | {"metric": "samples", "key": "k"}


def made(seed=0, lengths=(64, 128), times=False):
    """Two languages, one with a hostile name; samplers at one of two lengths; AR; a network beside the truth."""
    luck = random.Random(seed)
    found = []
    for of in ("paper-2gram", HOSTILE):
        for length in lengths:
            for sampler in ("ancestral", "strided", "gibbs(stride=8)") if length == lengths[0] else ("ancestral",):
                for model in ("ideal", "trained") if sampler == "ancestral" else ("ideal",):
                    for steps in STEPS:
                        wrong = min(199, max(0, round(200 * math.exp(-steps / luck.uniform(5, 25)))))
                        about = {"of": of, "length": length, "sampler": sampler, "steps": steps, "model": model}
                        about |= {"schedule": "linear", "evaluations": steps * luck.uniform(0.9, 1.0)}
                        found.append(point("ser", proportion(wrong, 200), **about))
                        found.append(point("ter_upper_ratio", exactly(1 + 1 / steps ** luck.uniform(1, 2)), **about))
            ar = {"of": of, "length": length, "kind": "ar", "sampler": "autoregressive", "evaluations": float(length)}
            found += [point("ser", exactly(0.0), **ar), point("ter_ratio", exactly(1.0), **ar)]
    if times:
        for one in found:
            one["seconds"] = one["evaluations"] * (0.01 if one["kind"] == "mdm" else 0.004)
    journal = [Line(k, 1.0 * k, 3.0 / k, 2.0 / k + 1) for k in range(1, 5)]
    return Results(
        found, [Training("paper-2gram", "mdm", journal, 1.0)], [], ["failed: samples: <b>no</b>"], ["store"], 12.0
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


def test_a_need_is_the_cheapest_that_keeps_its_promise():
    """By brute force: the first point after which none misses the target."""
    luck = random.Random(3)
    for _ in range(200):
        curve = [
            point("ser", exactly(luck.random()), steps=n, evaluations=float(luck.randint(1, 9))) for n in range(1, 7)
        ]
        target = luck.random()
        for name in ("ser", "accuracy"):
            yardstick = YARDSTICKS[name]
            ordered = sorted(curve, key=lambda p: (p["evaluations"], p["steps"]))
            good = [p["value"] >= target if yardstick.rises else p["value"] <= target for p in ordered]
            wanted = next((p for i, p in enumerate(ordered) if all(good[i:])), None)
            found = need(curve, yardstick, target)
            assert found.point is wanted
            if wanted is None:
                best = max if yardstick.rises else min
                assert found.best["value"] == best(p["value"] for p in curve)


def test_rows_are_those_of_the_state(explorer):
    state = explorer.state
    assert (state["metric"], state["sampler"], state["model"]) == ("ser", "ancestral", "ideal")
    found = rows(explorer.results.points, state | {"length": 64}, ("ser",), ("sampler",))
    assert {p["sampler"] for p in found} == {"ancestral", "strided", "gibbs(stride=8)", "autoregressive"}
    assert {p["of"] for p in found} == {"paper-2gram"}
    assert {p["length"] for p in found} == {64}


def test_a_verdict_says_what_it_costs(explorer):
    state = explorer.state | {"length": 64, "target": 0.3}
    curve = [p for p in rows(explorer.results.points, state, ("ser",), ()) if p["kind"] == "mdm"]
    at = need(curve, YARDSTICKS["ser"], 0.3).point
    said = verdict(explorer.results, state)
    assert said.numbers[0] == (f"{at['steps']} rounds", "for SER of at most 30%")
    assert said.numbers[1][0] == f"{at['evaluations'] / 64:.0%} of AR's evaluations"
    assert said.numbers[2][0] == f"break-even at {64 / at['evaluations']:.3g}"
    never = verdict(explorer.results, state | {"target": -1.0})
    assert never.sentence.startswith("No number of rounds")
    assert never.numbers[-1][0] == "AR: 0%"
    timed = verdict(made(times=True), state)
    assert timed.numbers[2][0] == f"{64 * 0.004 / (at['evaluations'] * 0.01):.2g} times as fast"


def test_every_figure_has_a_place_and_a_name_of_its_own():
    assert len({figure.name for figure in figures()}) == len(figures()) == len({figure.place for figure in figures()})


def test_definitions_fit_their_schema(explorer):
    drawn = {figure.draw for figure in explorer.figures}
    assert len(drawn) > 4
    for draw in drawn:
        draw(explorer.results).to_dict()  # which fails where one does not


def test_the_front_is_what_nothing_beats(explorer):
    (figure,) = (one for one in explorer.figures if one.name == "front")
    found, _, _ = prepared(figure, explorer.results, explorer.state | {"length": 64})
    drawn = [row for row in found if row["value"] is not None]
    for row in drawn:
        beaten = [o for o in drawn if o["value"] <= row["value"] and o["place"] <= row["place"] and o is not row]
        strictly = [o for o in beaten if o["value"] < row["value"] or o["place"] < row["place"]]
        assert row["front"] == (not strictly)


def states(explorer, count=12):
    """Some states, each a reader may come to."""
    luck = random.Random(1)
    for _ in range(count):
        state = dict(explorer.state)
        for name in ("of", "model", "sampler", "length"):
            state[name] = luck.choice(explorer.results.choices(name))
        yardstick = luck.choice(explorer.yardsticks)
        state |= {"metric": yardstick.name, "cost": luck.choice(["evaluations", "flops"])}
        yield state | {"target": luck.choice([0.05, 0.3, 0.0]) if yardstick.share else luck.choice([1.01, 1.2])}


def test_the_browser_says_what_python_says(explorer, page, open_page):
    """Verdict, rows and frames of all figures, in states at random; to the digits that a page has."""
    shown = open_page(page)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    for state in states(explorer):
        fragment = "&".join(f"{k}={v}" for k, v in _encoded(state).items())
        shown.evaluate("fragment => { location.hash = fragment; }", fragment)
        shown.wait_for_function(
            "state => unmask.state.of === state.of && unmask.state.target === state.target", arg=state
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


def test_every_control_changes_what_is_shown(page, open_page):
    shown = open_page(page)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    for name in ("metric", "of", "model", "length"):
        before = shown.locator("#verdict").inner_text() + shown.locator("#numbers").inner_text()
        box = shown.locator(f"#control-{name}")
        box.select_option(index=1)
        after = shown.locator("#verdict").inner_text() + shown.locator("#numbers").inner_text()
        assert before != after, name
        assert f"{name}=" in shown.url
        box.select_option(index=0)
    drawn = shown.locator("#front svg").inner_html()
    shown.locator("#control-cost").select_option("flops")
    assert shown.locator("#front svg").inner_html() != drawn
    shown.locator("#control-target").fill("2.5")
    assert "2.5%" in shown.locator("#verdict").inner_text()
    again = open_page(page)
    again.evaluate("address => { location.href = address; }", shown.url)
    again.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    again.wait_for_function("document.getElementById('verdict').innerText.includes('2.5%')")
    assert again.locator("#verdict").inner_text() == shown.locator("#verdict").inner_text()


def test_a_keyboard_is_enough(page, open_page):
    """Tab reaches every control and every number; Enter on a number chooses its point, and says what makes it again."""
    shown = open_page(page)
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    reached = set()
    for _ in range(12):
        shown.keyboard.press("Tab")
        reached.add(shown.evaluate("document.activeElement.name || document.activeElement.dataset.at"))
    assert {"metric", "target", "of", "model", "sampler", "length", "cost"} <= reached
    assert shown.evaluate("document.activeElement.dataset.at") is not None
    shown.keyboard.press("Enter")
    assert "unmask generate --language" in shown.locator("#point code").inner_text()


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
    assert "Not all is here." in text
    assert "failed: samples: &lt;b&gt;no&lt;/b&gt;" in text


def test_nothing_measured_is_a_page_too(tmp_path, open_page):
    explorer = Explorer(Results([], [], [], ["3 of 3 cells of store are not measured yet"], ["store"]))
    content = whole.contents(explorer, origin(), False)["index.html"]
    (tmp_path / "index.html").write_bytes(content)
    shown = open_page(tmp_path / "index.html")
    assert "Nothing was measured yet." in shown.locator("main").inner_text()
    assert "3 of 3 cells" in shown.locator("main").inner_text()


def test_a_training_and_a_frontier_alone_are_pages_too(tmp_path, open_page):
    """Without a number that a control could choose."""
    points = [{"sampler": "language", "setting": None, "cross_entropy": 1.2, "entropy": 1.2, "ser": 0.0, "of": "o"}]
    points += [
        {"sampler": "s", "setting": t, "cross_entropy": 1 + t, "entropy": t, "ser": t, "of": "o"} for t in (0.5, 1.0)
    ]
    whole_of = made()
    explorer = Explorer(Results([], whole_of.trainings, points, [], ["store"]))
    assert [figure.name for figure in explorer.figures] == ["training", "frontier"]
    (tmp_path / "index.html").write_bytes(whole.contents(explorer, origin(), False)["index.html"])
    shown = open_page(tmp_path / "index.html")
    shown.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    assert shown.locator("#frontier svg .mark-symbol path").count() == 3
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
    """36.5 evaluations and 36.5 tokens of AR for 128: an evaluation may last (128 - 36.5) / 36.5 tokens of AR."""
    estimate = finite(exactly(0.0).to_dict()) | {"evaluations": 73.0, "key": "k"}
    about = {"language": "paper-2gram", "length": 128, "seed": 0}
    who = about | {"metric": "samples", "sampler": "speculative", "steps": 1}
    ar = (
        about | {"metric": "samples", "sampler": "autoregressive", "measure": "ser"} | estimate | {"evaluations": 128.0}
    )
    rows_of = [ar, who | {"measure": "ser"} | estimate, who | {"measure": OF_AR} | estimate | {"value": 36.5}]
    found = points(rows_of)
    one = next(p for p in found if p["measure"] == "ser" and p["kind"] == "mdm")
    assert one["causal"] == 36.5
    assert one["flops"] == pytest.approx(36.5 / break_even(USUAL, 128) + 1)
    state = {name: one[name] for name in CONTROLS} | {"metric": "ser", "target": 0.1, "cost": "evaluations"}
    numbers = verdict(Results(found), state).numbers
    spent = f"per sequence; AR needs 128; at least {one['flops']:.3g} times AR's compute"
    assert numbers[1] == ("36.5 model calls and 36.5 AR tokens", spent)
    assert numbers[2][0] == "2.51 AR tokens"
    clocks = [
        about | {"metric": "clock", "kind": kind, "measure": "milliseconds"} | estimate | {"value": value}
        for kind, value in (("mdm", 10.0), ("ar", 4.0))
    ]
    learned = [row | {"metric": "learned"} for row in rows_of]
    for told, seconds in ((clocks, 36.5 * 0.014), (clocks[:1], None)):
        times = [p["seconds"] for p in points(learned + told) if p["measure"] == "ser" and p["kind"] == "mdm"]
        assert times == [pytest.approx(seconds) if seconds else None]
