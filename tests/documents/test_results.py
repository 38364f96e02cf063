"""results/: a table says which code made each file, and numbers that no longer follow from the code are an error."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import remake
from tests.needs import needs
from unmask.core.files import age, code, origin

RESULTS = Path(__file__).parents[2] / "results"
ORIGINS = {path.name: json.loads(path.read_text())["origin"] for path in sorted(RESULTS.glob("*.json"))}


def test_the_table_is_that_of_the_files():
    table = dict(re.findall(r"\| (\S+\.json) \| (\S+) \|", (RESULTS / "README.md").read_text()))
    assert table == {name: made.get("code", "unknown") for name, made in ORIGINS.items()}
    assert set(ORIGINS) == set(remake.FILES)


def test_numbers_follow_from_the_code():
    """Files from before `make results` have no digest of that code; the table calls them old."""
    found = {name: remake.stale(made) for name, made in ORIGINS.items() if "numbers" in made}
    wrong = [f"results/{name} is {why}" for name, why in found.items() if why]
    assert not wrong, "\n".join(wrong)


def test_a_number_that_no_longer_follows_is_an_error():
    assert remake.stale({"numbers": remake.numbers()}) is None
    assert "run `make results`" in (remake.stale({"numbers": "0123"}) or "")


@pytest.mark.parametrize(
    ("place", "old", "new", "same"),
    [
        ("samplers/left_to_right.py", "A fixed number", "Some number", True),
        ("samplers/left_to_right.py", "orders.left_to_right(", "orders.left_to_right(0 + ", False),
        ("cli/board.py", "def run(", "def other(", True),
    ],
)
def test_the_digest_sees_what_numbers_depend_on(tmp_path, place, old, new, same):
    package = tmp_path / "unmask"
    shutil.copytree(remake.SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    text = (package / place).read_text()
    assert old in text
    (package / place).write_text(text.replace(old, new))
    assert (remake.numbers(package) == remake.numbers()) == same


@needs("git")
def test_a_dirty_tree_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(remake, "ROOT", tmp_path)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(tmp_path)]
    (tmp_path / "results").mkdir()
    (tmp_path / "code.py").write_text("1\n")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    (tmp_path / "results" / "new.json").write_text("{}")
    assert re.fullmatch("[0-9a-f]{40}", remake.check_clean())
    (tmp_path / "code.py").write_text("2\n")
    with pytest.raises(SystemExit, match=r"files differ from the commit: code.py; commit them first"):
        remake.check_clean()


def test_without_git_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(remake, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(SystemExit, match="needs git and a clone"):
        remake.check_clean()


def test_a_run_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    """The second step fails once: the first is not repeated, and the files are written at the end."""
    done: list[str] = []

    def run(step: remake.Step, here: Path) -> None:
        done.append(step.name)
        if step.name == "b" and done.count("b") == 1:
            raise KeyboardInterrupt
        (here / f"{step.name}.json").write_text(json.dumps({"origin": {"command": ["x"]}, "value": step.name}))

    monkeypatch.setattr(remake, "_run", run)
    monkeypatch.setattr(remake, "check_clean", lambda: "abc")
    monkeypatch.setattr(remake, "STEPS", (remake.Step("a", "x", 1), remake.Step("b", "y", 2)))
    monkeypatch.setattr(remake, "FILES", {f"{name}.json": (name, remake._file(f"{name}.json")) for name in "ab"})
    monkeypatch.setattr(remake, "WORK", tmp_path / "work")
    monkeypatch.setattr(remake, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["remake"])
    with pytest.raises(KeyboardInterrupt):
        remake.main()
    assert (tmp_path / "a.json").exists()
    assert not (tmp_path / "b.json").exists()
    remake.main()
    assert done == ["a", "b", "b"]
    assert "1 of 2 steps are done; about 120 min are left" in capsys.readouterr().out
    made = json.loads((tmp_path / "b.json").read_text())
    assert made["value"] == "b"
    assert made["origin"]["numbers"] == remake.numbers()
    assert {"command", "code", "commit", "date", "machine"} <= made["origin"].keys()
    assert f"| b.json | {code()} |" in (tmp_path / "README.md").read_text()


def test_age():
    assert age(origin()) is None
    assert age({"code": "0123"}) == f"it is old: written by code 0123, and this is code {code()}"
    assert age({}) == f"it is old: written by an unknown version, and this is code {code()}"
