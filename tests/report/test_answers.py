"""The answers of an evaluation on its page: the incorrect ones first, of the chosen setting, and never as HTML."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from tests.needs import required
from tests.tasks.evaluation.test_comparing import many
from unmask.tasks.sample import lines

with required("pages"):
    from unmask.report import answers
    from unmask.report.publishing import report

EVIL = "</pre><script>alert('x')</script>"


def written(rights, **how):
    own = many(rights, **how)
    return [
        msgspec.structs.replace(
            one, text=f"text {EVIL}", answer=f"{one.item}\x1b[2J", why="" if one.right else "wrong sum"
        )
        for one in own
    ]


@pytest.fixture
def page(tmp_path):
    samples = written([True, False] * 30) + written([True] * 60, steps=4)
    samples += written([True] * 60, sampler="ancestral") + written([True] * 60, sampler="autoregressive", steps=None)
    (tmp_path / "records.jsonl").write_bytes(lines(samples))
    shown, _ = report([tmp_path], tmp_path / "out")
    return shown, (tmp_path / "out" / "index.html").read_text()


def test_the_incorrect_answers_are_first_and_counted(page):
    tables = re.findall(r"<summary>([^<]*): ([^<:]*)</summary>\s*<table.*?</table>", page[1], re.S)
    counts = dict(tables)
    assert counts["m, llada, steps=8"] == "30 of 60 right; 30 wrong sum"
    first = re.search(r"steps=8: 30 of 60 right.*?</table>", page[1], re.S)[0]
    assert re.findall(r"<th scope='row'>(\d+)</th>", first) == [str(k) for k in range(1, 2 * answers.SHOWN, 2)]


def test_correct_answers_take_the_places_that_are_left():
    chosen = answers.chosen(many([True, False, True]))
    assert [one.item for one in chosen] == ["1", "0", "2"]
    assert len(answers.chosen(many([True] * 60))) == answers.SHOWN


def test_a_setting_is_on_view_with_its_choice_and_ar_always(page):
    shown, text = page
    heads = dict(re.findall(r"<details([^>]*)><summary>m, (\w+)", text))
    of_sampler = {one["sampler"]: n for n, one in enumerate(shown.settings)}
    found = {sampler: re.search(r'data-at="(\d+)"', head) for head, sampler in heads.items()}
    assert {name: int(one[1]) for name, one in found.items() if one} == of_sampler
    assert found["autoregressive"] is None


def test_no_text_is_markup_or_a_control_character(page):
    assert "<script>alert" not in page[1]
    assert "&lt;script&gt;alert" in page[1]
    assert "\x1b" not in page[1]
    assert json.dumps("\x1b")[1:-1] not in page[1]


def test_a_long_prompt_shows_its_end():
    shown = answers.end("examples " * 100 + "the question", 20)
    assert shown == ".." + "examples the question"[-20:]


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1400, True)])
def test_it_opens_in_a_browser(page, tmp_path, open_page, serious, width, dark):
    opened = open_page(tmp_path / "out" / "index.html", width=width, dark=dark)
    assert serious(opened) == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.locator("details[open] details summary >> visible=true").first.click()
    assert opened.locator("details[open] details[open] pre >> visible=true").count() == 1
