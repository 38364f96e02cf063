"""README and guides are true: their Python and console blocks are run, and what they print is what stands there.

A block that is not run is followed by a comment that says why: <!-- not run by the tests: REASON -->. A Python block
that begins with "# name.py" is that file, too.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from unmask.cli.main import main
from unmask.languages import PRESETS, load
from unmask.samplers import SAMPLERS
from unmask.samplers.schedules import SCHEDULES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKED = [PAGES[0], *(pytest.param(page, marks=pytest.mark.long) for page in PAGES[1:])]
BLOCK = re.compile(r"(?ms)^```(\w+)\n(.*?)^```\n(<!-- not run by the tests: [^>]+ -->)?")
MEASURED = re.compile(r"(?m)^(seconds|time|tokens per second|made by code|scored by code) .*$")  # measured


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
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:  # and what it imports from here
        if getattr(sys.modules[name], "__file__", None) == f"{tmp_path / name}.py":
            del sys.modules[name]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.name)
def test_documents_show_what_their_code_prints(page, page_directory):
    """UNMASK_WRITE=1 writes today's output into the documents."""
    text = page.read_text()
    today = executed(text, page, page_directory)
    if os.environ.get("UNMASK_WRITE"):
        page.write_text(today)
    else:
        assert MEASURED.sub("", today) == MEASURED.sub("", text)


def executed(text: str, page: Path, here: Path) -> str:
    """The page with the output of its Python and console blocks as it is today."""
    names: dict[str, object] = {}
    parts, out, last = [], None, 0  # out: printed by a Python block; the text block after it shows it
    for block in BLOCK.finditer(text):
        language, inside, skipped = block.groups()
        shown = inside
        assert not out or language == "text", f"no text block of {page.name} shows {out!r}"
        if skipped:
            pass
        elif language == "python":
            if file := re.match(r"# (\w+\.py)\n", inside):
                (here / file[1]).write_text(inside)
            out = printed(exec, compile(inside, page.name, "exec"), names)
        elif language == "json":
            (here / "language.json").write_text(inside)
        elif language == "console":
            shown = re.sub(r"(?ms)^\$ ((?:[^\n]*\\\n)*[^\n]*\n).*?(?=^\$ |\Z)", lambda step: console(step[1]), inside)
        else:
            assert language == "text", f"a block of {language} is neither run nor explained"
            if out is not None:
                shown, out = out, None
        parts += [text[last : block.start(2)], shown]
        last = block.end(2)
    return "".join([*parts, text[last:]])


def console(step: str) -> str:
    """A command and the output of it; $NAME is an environment variable that the page has set."""
    program, *arguments = shlex.split(os.path.expandvars(step.replace("\\\n", " ")))
    assert program == "unmask"
    usual = (0, 1) if arguments[0] == "diff" else (0,)  # 1: the traces differ
    return f"$ {step}" + printed(lambda a: main(a) in usual or pytest.fail(f"{a} failed"), arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_plain(page):
    text = page.read_text()
    assert text.isascii()
    assert max(len(line) for line in BLOCK.sub("", text).splitlines() if not line.startswith("|")) <= 120


def test_packages_import_from_packages_above():
    source = ROOT / "src/unmask"
    packages = first_column((ROOT / "docs/architecture.md").read_text(), "package")
    assert sorted(packages) == sorted(path.parent.name for path in source.glob("*/__init__.py"))
    for layer, package in enumerate(packages):
        for path in (source / package).rglob("*.py"):
            imports = re.findall(r"(?m)^ *(?:from|import) unmask\.(\w+)", path.read_text())
            for names in re.findall(r"(?m)^ *from unmask import (.*)", path.read_text()):
                imports += re.findall(r"\w+", names)
            below = {name for name in imports if name in packages[layer + 1 :]}
            assert not below, f"{path.relative_to(source)} imports from {below}, and {package} is above"


def first_column(text: str, heading: str) -> list[str]:
    """The names in the first column of the table under a heading, without their options."""
    table = text.partition(f"\n| {heading} |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return [name.partition("(")[0] for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_the_tables_list_what_there_is():
    text = (ROOT / "docs/catalogue.md").read_text()
    assert sorted(first_column(text, "preset")) == sorted(PRESETS.makers)
    assert sorted(first_column(text, "sampler")) == sorted(SAMPLERS.makers)
    schedules = text.partition("## Schedules")[2].partition("also be a list")[0]
    assert {name.partition("(")[0] for name in re.findall(r"`([^`]+)`", schedules)} == set(SCHEDULES.makers)
    for names, vocabulary in re.findall(r"(?m)^\| (`.*`) \| (\d+) \|", text):
        for name in re.findall(r"`([^`]+)`", names):
            assert load(name).vocabulary == int(vocabulary)


def test_what_a_new_part_needs_is_where_the_table_says():
    """Each file is there, with the name that the table puts into it; each decorator is used in its package."""
    table = (ROOT / "docs/architecture.md").read_text().partition("\n| new | files |")[2].partition("\n\n")[0]
    source = ROOT / "src/unmask"
    for path in re.findall(r"`([a-z_/]+\.py)`", table):
        assert (source / path).exists(), path
    named = re.findall(r"`([A-Z_]{3,})` (?:in|of)[\n |]*`([a-z_/]+\.py)`", table)
    assert len(named) >= 5
    for name, path in named:
        assert re.search(rf"(?m)^{name}\b", (source / path).read_text()), f"{path} has no {name}"
    for place, registry in re.findall(r"`([a-z_]+)/[^`]*` with `@([A-Z]+)\.register", table):
        assert any(f"@{registry}.register(" in path.read_text() for path in (source / place).rglob("*.py")), registry
