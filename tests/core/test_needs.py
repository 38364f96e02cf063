"""Where a test skips, what it needs is truly missing; and no test skips in another way."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import needs

TESTS = Path(needs.__file__).parent
SOURCES = {
    path: path.read_text() for path in sorted(TESTS.rglob("*.py")) if path.name not in ("needs.py", "test_needs.py")
}
pytest_plugins = ("pytester",)
EXTRAS = ("open", "lm-eval", "cluster")


def test_there_is_one_way_to_skip():
    other = re.compile(r"importorskip|skipif|mark\.skip\b|pytest\.skip\(")
    found = [str(path.relative_to(TESTS)) for path, text in SOURCES.items() if other.search(text)]
    assert not found, "skip by tests/needs.py: needs(..), require(..) or unmet(..)"


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_missing_where_it_cannot_be_imported(extra):
    absent = {name for name in needs.distributions(extra) if find_spec(name.removesuffix("py")) is None}
    reason = needs.missing(extra)
    assert (reason is None) == (not absent)
    if reason:
        assert reason == f"{', '.join(sorted(absent))} not installed; pip install -e '.[{extra}]'"


def test_a_program_is_missing_where_path_has_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert needs.missing("make") == "no program make on PATH"
    (tmp_path / "make").write_text("#!/bin/sh\n")
    (tmp_path / "make").chmod(0o755)
    assert needs.missing("make") is None


ALL = """
import pytest

@pytest.mark.long
@pytest.mark.parametrize("number", range(23))
def test_long(number): pass

def test_short(): pass
"""


def collected(pytester, *options):
    """(the names of the tests that are run, the exit code)."""
    ran = pytester.runpytest_inprocess("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-rA", *options)
    return {line.split("::")[1] for line in ran.outlines if line.startswith("PASSED")}, ran.ret


def test_ten_parts_are_all_long_tests(pytester, monkeypatch):
    """Whatever the commit is: ten turns in a row run each long test once."""
    pytester.makeini("[pytest]\nmarkers =\n    long: slow\n    needs(name): needs\n")
    pytester.makeconftest("from tests.conftest import *")
    pytester.makepyfile(test_it=ALL)
    assert collected(pytester) == ({"test_short"}, 0)
    seen = []
    for number in range(17, 27):
        monkeypatch.setenv("UNMASK_TURN", str(number))
        found, code = collected(pytester, "--long", "--part=turn/10")
        assert code == 0
        seen += found
    assert sorted(seen) == sorted(f"test_long[{number}]" for number in range(23))
    assert collected(pytester, "--long", "--part=29/30") == (set(), 0)


def test_a_case_of_a_sampled_table_is_ordinary_or_long(pytester):
    """Each is run once, by `make test` or by `make test-long`, and every third by the first."""
    pytester.makeini("[pytest]\nmarkers =\n    sampled(one_of): sampled\n    needs(name): needs\n")
    pytester.makeconftest("from tests.conftest import *")
    table = "@pytest.mark.sampled(3)\n@pytest.mark.parametrize('k', range(7))\ndef test_it(k):\n    pass\n"
    pytester.makepyfile(test_it=f"import pytest\n\n{table}\n\ndef test_short():\n    pass\n")
    assert collected(pytester) == ({"test_short", "test_it[0]", "test_it[3]", "test_it[6]"}, 0)
    assert collected(pytester, "--long") == ({f"test_it[{number}]" for number in (1, 2, 4, 5)}, 0)


@pytest.mark.long
def test_a_marked_test_fails_without_what_it_needs():
    """Each test that a marker skips here is run, and must fail: else the marker names a need that it does not have."""
    marked = [path for path, text in SOURCES.items() if 'needs("' in text and path.name.startswith("test_")]
    marked = list(map(str, marked))
    command = [sys.executable, "-m", "pytest", "--unmet", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *marked]
    ran = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True)
    assert ran.returncode in (0, 5), ran.stdout  # 5: nothing is skipped here
