"""results/: a table says which code made each file, and this code measures the same numbers again."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks import remake
from tests.needs import needs
from unmask.core.files import code
from unmask.experiments.board.settings import Settings
from unmask.experiments.board.table import board
from unmask.samplers import SAMPLERS

RESULTS = Path(__file__).parents[2] / "results"
FILES = {str(path.relative_to(RESULTS)): path for path in sorted(RESULTS.rglob("*.json"))}
ORIGINS = {name: json.loads(path.read_text())["origin"] for name, path in FILES.items()}


def test_the_table_is_that_of_the_files():
    table = dict(re.findall(r"\| (\S+\.json) \| (\S+) \|", (RESULTS / "README.md").read_text()))
    assert table == {name: made.get("code", "unknown") for name, made in ORIGINS.items()}
    own = {name for name in ORIGINS if not name.startswith("gpu/")}  # make gpu, where a GPU is
    # python -m benchmarks.engines, benchmarks.real_models, benchmarks.real_text: where engines, weights and texts are
    # benchmarks.law_power and engines.coarse take an hour of a core together
    apart = {"engines.json", "real-models.json", "real-text.json", "law.json", "coarse-noise.json"}
    assert own == {*remake.FILES, *apart}


def samplers(name: str) -> dict[tuple[str, str], list[dict]]:
    """Records of a board by (language, sampler)."""
    found: dict[tuple[str, str], list[dict]] = {}
    for record in json.loads((RESULTS / name).read_text())["records"]:
        found.setdefault((record["language"], record["sampler"]), []).append(record)
    return found


def identity(record: dict) -> str:
    return json.dumps([record.get(name) for name in ("language", "sampler", "budget", "measure", "target")])


def unlike(kept: Iterable[dict], found: Iterable[dict]) -> list[str]:
    """Records that are not found again, but those that compare a sampler with another.

    Numbers are compared to 12 digits: the last bits of sums and logarithms depend on the processor."""
    measured = {identity(record): plain(record) for record in json.loads(json.dumps(list(found), default=float))}
    compared = [record for record in kept if record["measure"] != "accuracy_difference"]
    assert compared
    return [
        identity(record)
        for record in compared
        if not plain(record).items() <= measured.get(identity(record), {}).items()
    ]


def plain(record: dict) -> dict:
    """Without the numbers of each seed and the words, and with 12 digits of each number."""
    return {
        name: float(f"{value:.12g}") if isinstance(value, float) else value
        for name, value in record.items()
        if name not in ("by_seed", "note")
    }


STILL = [key for key in samplers("board-quick.json") if key[1].partition("(")[0] in SAMPLERS.names()]  # built in


@pytest.mark.long
@pytest.mark.parametrize(("language", "sampler"), STILL)
def test_this_code_measures_the_same_again(language, sampler):
    made = ORIGINS["board-quick.json"]["configuration"]
    settings = {field.name: made[field.name] for field in fields(Settings) if field.name in made}
    again = board(Settings(**settings | {"samplers": (sampler,), "languages": (language,)}))
    assert unlike(samplers("board-quick.json")[language, sampler], again.records) == []


def test_another_number_is_seen():
    kept = samplers("board-quick.json")["paper-2gram", "strided"]
    assert unlike(kept, kept) == []
    assert unlike(kept, kept[1:]) == [identity(kept[0])]
    assert unlike(kept, [kept[0] | {"value": kept[0]["value"] + 1e-9}, *kept[1:]]) == [identity(kept[0])]


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
    assert {"command", "code", "commit", "date", "machine"} <= made["origin"].keys()
    assert f"| b.json | {code()} |" in (tmp_path / "README.md").read_text()
