"""README and guides are true: their Python and console blocks are run, and what they print is what stands there.

A block that is not run is followed by a comment that says why: <!-- not run by the tests: REASON -->. A Python block
that begins with "# name.py" is that file, too.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.diagnosis.audit.remembering import remembered
from unmask.cli.main import main
from unmask.diagnosis.audit import verdict
from unmask.languages import PRESETS, load
from unmask.samplers import SAMPLERS
from unmask.schedules import SCHEDULES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MEASURED = re.compile(r"(?m)^(seconds|tokens per second|made by code|scored by code) .*$")  # by machine, and by version


class Block(NamedTuple):
    language: str
    text: str
    skipped: bool


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"(?ms)^```(\w+)\n(.*?)^```\n(<!-- not run by the tests: [^>]+ -->)?", page.read_text())
    return [Block(language, text, bool(reason)) for language, text, reason in found]


def printed(function, *arguments) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        function(*arguments)
    return out.getvalue()


@pytest.fixture
def page_directory(tmp_path, monkeypatch):
    """Where the commands of a page run: what earlier blocks have written is there for later ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(SAMPLERS, "_makers", dict(SAMPLERS.makers))  # what a page registers is forgotten after it
    monkeypatch.setattr(verdict, "Bench", remembered)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:  # and what it imports from here
        if getattr(sys.modules[name], "__file__", None) == f"{tmp_path / name}.py":
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_do_what_they_say(page, page_directory):
    names: dict[str, object] = {}
    shown = [*blocks(page), Block("", "", False)]
    for block, following in pairwise(shown):
        if block.skipped:
            continue
        if block.language == "python":
            if file := re.match(r"# (\w+\.py)\n", block.text):
                (page_directory / file[1]).write_text(block.text)
            out = printed(exec, compile(block.text, page.name, "exec"), names)
            assert out == (following.text if following.language == "text" else "")
        elif block.language == "json":
            (page_directory / "language.json").write_text(block.text)
        elif block.language == "console":
            for step in re.split(r"(?m)^\$ ", block.text)[1:]:
                command, expected = re.fullmatch(r"(?s)((?:[^\n]*\\\n)*[^\n]*\n)(.*)", step).groups()
                program, *arguments = shlex.split(command.replace("\\\n", " "))
                assert program == "unmask"
                out = printed(lambda a: main(a) and pytest.fail(f"{a} failed"), arguments)
                assert MEASURED.sub("", out) == MEASURED.sub("", expected)
        else:
            assert block.language == "text", f"a block of {block.language} is neither run nor explained"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_plain(page):
    text = page.read_text()
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 120


def test_rooms_import_from_rooms_above():
    house = ROOT / "src/unmask"
    rooms = first_column((ROOT / "docs/house.md").read_text(), "room")
    assert sorted(rooms) == sorted(path.parent.name for path in house.glob("*/__init__.py"))
    for place, room in enumerate(rooms):
        for path in (house / room).rglob("*.py"):
            wanted = re.findall(r"(?m)^ *(?:from|import) unmask\.(\w+)", path.read_text())
            for names in re.findall(r"(?m)^ *from unmask import (.*)", path.read_text()):
                wanted += re.findall(r"\w+", names)
            below = {name for name in wanted if name in rooms[place + 1 :]}
            assert not below, f"{path.relative_to(house)} imports from {below}, and {room} stands above"


def first_column(text: str, heading: str) -> list[str]:
    """The names in the first column of the table under a heading, without their options."""
    table = text.partition(f"\n| {heading} |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return [name.partition("(")[0] for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_the_tables_list_what_there_is():
    text = (ROOT / "docs/catalogue.md").read_text()
    assert sorted(first_column(text, "preset")) == sorted(PRESETS.makers)
    assert sorted(first_column(text, "sampler")) == sorted(SAMPLERS.makers)
    schedules = text.partition("Schedules say")[2].partition("or a list")[0]
    assert {name.partition("(")[0] for name in re.findall(r"`([^`]+)`", schedules)} == set(SCHEDULES.makers)
    for names, vocabulary in re.findall(r"(?m)^\| (`.*`) \| (\d+) \|", text):
        for name in re.findall(r"`([^`]+)`", names):
            assert load(name).vocabulary == int(vocabulary)
