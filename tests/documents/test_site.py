"""The site and the pages beside it: each page is in the navigation, and each link leads to a heading that there is."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]


def without_code(text):
    return re.sub(r"`[^`\n]+`", "", re.sub(r"(?ms)^```.*?^```$", "", text))


@cache
def anchors(page):
    """The names that GitHub and MyST give to the headings of a page."""
    found: list[str] = []
    for heading in re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```$", "", page.read_text())):
        plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", heading).lower().replace("`", "")
        name = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        found.append(name if name not in found else f"{name}-{found.count(name)}")
    return found


def navigation():
    trees = (DOCS / "index.rst").read_text().partition(".. toctree::")[2]
    lines = re.findall(r"(?m)^   (?!:)(?:.*<)?([\w-]+)>?$", trees)
    assert len(lines) == len(set(lines))
    return sorted(lines)


def test_every_page_is_in_the_navigation():
    there = {path.stem for path in DOCS.iterdir() if path.suffix in (".md", ".rst")} - {"index"}
    assert navigation() == sorted(there)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if target.startswith("https://"):
            continue
        path, _, heading = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.is_relative_to(ROOT), target
        assert place.exists(), target
        assert not heading or heading in anchors(place), target


def test_a_link_that_leads_nowhere_is_seen():
    assert "right-answers-and-right-steps" in anchors(DOCS / "networks.md")
    assert "what-there-is-not" not in anchors(DOCS / "networks.md")


def test_every_room_with_a_door_is_in_the_reference():
    named = re.findall(r"(?m)^\.\. names:: unmask\.(\w+)$", (DOCS / "reference.rst").read_text())
    inits = {path.parent.name: path.read_text() for path in (ROOT / "src/unmask").glob("*/__init__.py")}
    doors = [room for room, text in inits.items() if "lazily(__name__" in text or "\n__all__ = " in text]
    assert sorted(named) == sorted(doors)


def test_versions_agree():
    """Of the package, of its citation, and of the newest entry of what changed."""
    declared = re.search(r'(?m)^__version__ = "(.+)"', (ROOT / "src/unmask/__init__.py").read_text())[1]
    assert str(yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]) == declared
    assert re.search(r"(?m)^## (.+)$", (ROOT / "CHANGELOG.md").read_text())[1] == declared
