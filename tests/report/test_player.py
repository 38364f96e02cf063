"""The player in a browser: what it shows is what the trace says, at every step, by every way to ask for it."""

from __future__ import annotations

import json
import math
import re

import pytest

from unmask import generate, languages
from unmask.core.errors import UnmaskError
from unmask.report.player import Run, chosen, page, play
from unmask.samplers.trace import Row, Trace

LANGUAGE = languages.load("paper-2gram")
LENGTH, STEPS, ROWS = 14, 4, 6
NASTY = [
    "<script>alert(1)</script>",
    "\u05e9\u05dc\u05d5\u05dd",
    "\U0001f408\u200d\u2b1b",
    "x" * 10_000,
    "\u202eabc",
    "]]>",
    " ",
]


@pytest.fixture(scope="module")
def runs():
    """Parallel and one after another, with the same randomness."""
    asked = {"length": LENGTH, "rows": ROWS, "seed": 0}
    made = generate(LANGUAGE, steps=STEPS, **asked), generate(LANGUAGE, sampler="autoregressive", **asked)
    return [Run(name, one.trace(), LANGUAGE) for name, one in zip(("parallel", "AR"), made, strict=True)]


@pytest.fixture(scope="module")
def nasty():
    """Texts that nobody should have to show, behind a prompt, some of them taken back."""
    events = [(place + 1, place + 1, place % len(NASTY), 0.5) for place in range(len(NASTY))]
    events += [(9, 2, None, None), (9, 2, 0, 0.25), (10, 3, None, None)]
    return Run("<b>no</b>", Trace(vocabulary=7, symbols=NASTY, rows=[Row(length=9, given=[(0, 4)], events=events)]))


@pytest.fixture
def opened(open_page, runs, tmp_path):
    def show(*some, row=None, **options):
        file = tmp_path / "play.html"
        file.write_bytes(page(some or runs, "what a <title>", "unmask play", row))
        return open_page(file, **options)

    return show


def shown(view, run=0):
    """The tokens that can be seen, None where hidden."""
    return view.evaluate(
        """run => [...document.querySelectorAll(".run")[run].querySelectorAll(".cell")].map(cell =>
        getComputedStyle(cell.firstChild).visibility === "visible" ? cell.firstChild.textContent : null)""",
        run,
    )


STEP = """what => { document.querySelector(`[data-do=${what}]`).click();
    const runs = [...document.querySelectorAll(".run")];
    return { clock: document.querySelector(".player").dataset.clock, runs: runs.map(run => ({
        tokens: [...run.querySelectorAll(".cell")].map(cell =>
            getComputedStyle(cell.firstChild).visibility === "visible" ? cell.firstChild.textContent : null),
        meter: run.querySelector(".meter strong").textContent,
        new: run.querySelectorAll(".cell.new").length,
        guilty: run.querySelectorAll(".cell.guilty").length,
        arcs: [...run.querySelectorAll(".row path")].map(one => Number(one.getAttribute("stroke-width"))) })) }; }"""


def clock(view):
    return int(view.get_attribute(".player", "data-clock"))


def stands(run, row, step):
    """What stands after so many steps, as it is shown."""
    steps, told = list(run.trace.rows[row].steps()), run.trace.rows[row]
    after = (
        dict(told.given)
        if not step
        else {place: one[0] for place, one in steps[min(step, len(steps)) - 1].after.items()}
    )
    return [run.trace.symbol(after[place]) if place in after else None for place in range(told.length)]


def lost(run, row, step):
    reading = run.readings[row]
    meter = reading.steps[min(step, len(reading.steps)) - 1].meter if step else 0.0
    return "\u221e nats lost" if meter == math.inf else f"{round(meter, 2) + 0.0:.2f} nats lost".replace("-", "\u2212")


def test_every_step_shows_what_the_trace_says(opened, runs):
    """On and back again: tokens, meter, step, and the words of the first error."""
    view = opened()
    row = next(row for row in range(ROWS) if runs[0].readings[row].impossible is not None)
    error = runs[0].readings[row].impossible
    assert clock(view) == error + 1
    assert runs[0].readings[row].why in view.inner_text(".why.wrong")
    assert view.locator(".run .cell.guilty").count() == len(runs[0].readings[row].guilty)
    view.click("[data-do=home]")
    for step in [*range(1, LENGTH + 1), *range(LENGTH - 1, -1, -1)]:
        found = view.evaluate(STEP, "next" if step > clock(view) else "back")
        assert found["clock"] == str(step)
        for run, seen in zip(runs, found["runs"], strict=True):
            assert seen["tokens"] == stands(run, row, step)
            assert seen["meter"] == lost(run, row, step)
            done = run.steps[row][min(step, len(run.steps[row])) - 1]
            assert seen["new"] == (len(done.revealed) if step else 0)
            first = run.readings[row].impossible
            assert seen["guilty"] == (len(run.readings[row].guilty) if first is not None and step > first else 0)
            arcs = run.arcs(row, done_at - 1) if (done_at := min(step, len(run.steps[row]))) else []
            wrong = first is not None and done_at == first + 1
            assert len(seen["arcs"]) in ({len(arcs), len(arcs) + 1} if wrong else {len(arcs)})
            assert seen["arcs"] == sorted(seen["arcs"], reverse=True) or wrong


def test_controls_change_what_is_shown(opened, runs):
    view = opened()
    view.select_option("[data-set=row]", "3")
    first = runs[0].readings[3].impossible
    assert clock(view) == (LENGTH if first is None else first + 1)
    view.fill("input[type=range]", "2")
    assert shown(view) == stands(runs[0], 3, 2)
    assert f"step 2 of {STEPS}" in view.inner_text(".state >> nth=0")
    view.click("[data-do=end]")
    assert shown(view) == stands(runs[0], 3, LENGTH)
    assert f"done in {STEPS} steps" in view.inner_text(".state >> nth=0")
    colour = "getComputedStyle(document.querySelector('.cell.on')).backgroundColor"
    before = view.evaluate(colour)
    view.select_option("[data-set=by]", "probability")
    assert view.evaluate(colour) != before
    assert "improbable" in view.inner_text(".legend")


def test_it_plays_to_its_end_and_begins_again(opened):
    view = opened()
    view.select_option("[data-set=speed]", "60")
    view.click("[data-do=end]")
    view.click("[data-do=play]")
    assert view.inner_text("[data-do=play]").endswith("Pause")
    view.wait_for_function("document.querySelector('.player').dataset.clock === '14'")
    view.wait_for_function("document.querySelector('[data-do=play]').getAttribute('aria-label') === 'Play'")


def test_the_keyboard_alone(opened, runs):
    view = opened()
    view.keyboard.press("Tab")
    assert view.evaluate("document.activeElement.className") == "player"
    assert view.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for key, at in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", LENGTH)):
        view.keyboard.press(key)
        assert clock(view) == at
    view.keyboard.press("Home")
    view.keyboard.press(" ")
    assert view.get_attribute("[data-do=play]", "aria-label") == "Pause"
    view.wait_for_function("Number(document.querySelector('.player').dataset.clock) > 1")
    view.keyboard.press(" ")
    at = clock(view)
    assert view.get_attribute("[data-do=play]", "aria-label") == "Play"
    view.focus("input[type=range]")
    view.keyboard.press("ArrowLeft")
    assert clock(view) == at - 1


def test_a_screen_reader_is_told_the_round(opened, runs):
    view = opened()
    row = chosen({"a": runs[0].trace}, LANGUAGE).row
    assert runs[0].readings[row].why in view.inner_text("[role=status]")
    view.click("[data-do=home]")
    view.click("[data-do=next]")
    said = view.inner_text("[role=status]")
    place = next(iter(runs[0].steps[row][0].revealed))
    assert f"parallel, step 1: revealed {stands(runs[0], row, 1)[place]} at {place + 1}" in said
    assert "AR, step 1: revealed" in said
    assert view.get_attribute(".row", "aria-label").count("hidden") == stands(runs[0], row, 1).count(None)


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (360, True)])
def test_it_fits_and_is_accessible(opened, serious, runs, nasty, width, dark):
    view = opened(width=width, dark=dark, reduced_motion="reduce")
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    tops = view.eval_on_selector_all(".run", "all => all.map(one => one.getBoundingClientRect().top)")
    assert (tops[0] == tops[1]) == (width > 360)
    assert serious(view) == []
    assert view.evaluate("getComputedStyle(document.querySelector('.cell.new span')).animationName") == "none"
    view = opened(nasty, width=width, dark=dark)
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    assert serious(view) == []


def test_hostile_texts_are_text(opened, nasty):
    view = opened(nasty)
    view.click("[data-do=home]")
    assert shown(view)[0] == NASTY[4]
    view.fill("input[type=range]", "7")
    assert shown(view)[1:8] == [*NASTY[:6], "\u2423"]
    view.click("[data-do=end]")
    assert shown(view)[1:5] == [NASTY[0], NASTY[0], None, NASTY[3]]
    assert view.inner_text("h3") == "<b>no</b>"
    assert view.inner_text("h1") == "what a <title>"
    assert view.locator("script").count() == 2
    view.click("[data-do=home]")
    assert shown(view)[1:] == [None] * 8
    assert view.locator(".run .cell.given").count() == 1


def test_print_shows_the_end(opened, runs):
    view = opened()
    view.click("[data-do=home]")
    view.emulate_media(media="print")
    view.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert None not in shown(view)
    assert not view.is_visible(".bar")
    assert view.pdf().startswith(b"%PDF")
    view.evaluate("dispatchEvent(new Event('afterprint'))")
    assert clock(view) == 0


def test_the_page_asks_for_nothing_and_ends_no_script(runs, nasty):
    text = page([nasty]).decode()
    assert not re.search(r"(src|href)\s*=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)
    assert json.loads(data)["runs"][0]["symbols"]["0"] == NASTY[0]


@pytest.mark.parametrize("count", [0, 3])
def test_one_run_or_two(runs, count):
    with pytest.raises(UnmaskError, match=f"there are {count} runs; a player shows one, or two"):
        page((runs * 2)[:count])


def test_a_joint_draw_beside_independent_ones(tmp_path, open_page):
    """It has no error and no loss of independent draws; on a phone the whole of both is in view."""
    made = play("paper-2gram", against="fitted", length=24, steps=6, rows=20)
    assert made.wrong[0] > 0 == made.wrong[1]
    (first, second), told = made.runs, made.table()
    assert (first.joint, second.joint) == (False, True)
    assert told[2] == ("ancestral + fitted, 6 steps", "possible")
    assert "nats_lost" not in made.to_dict()["ancestral + fitted, 6 steps"]
    made.write(tmp_path / "play.html")
    view = open_page(tmp_path / "play.html", width=390, height=844)
    why, other = view.locator(".why").all()
    assert "Impossible" in why.inner_text()
    assert "one joint distribution" in other.inner_text()
    assert view.locator(".meter").count() == 1
    box = view.locator(".player").bounding_box()["y"], view.locator(".runs").bounding_box()
    assert box[1]["y"] + box[1]["height"] - box[0] < 844
