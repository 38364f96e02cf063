"""docs/samplers.md says what results/ holds of boards."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from unmask.experiments.board.table import need_text
from unmask.experiments.cell import Record

ROOT = Path(__file__).parents[3]
LANGUAGES = ("paper-2gram", "sparse-hmm", "interval-5")


@pytest.fixture(scope="module")
def kept():
    return json.loads((ROOT / "results/board-quick.json").read_text())


def record(kept, measure: str, sampler: str, language: str, **where: object) -> Record:
    where |= {"measure": measure, "sampler": sampler, "language": language}
    (found,) = [r for r in kept["records"] if all(r.get(name) == value for name, value in where.items())]
    return found


def test_the_command_is_kept(kept):
    assert kept["origin"]["command"][:4] == ["unmask", "board", "run", "--quick"]
    assert kept["failures"] == []


def test_the_table_is_what_was_measured(kept):
    text = (ROOT / "docs/samplers.md").read_text().partition("\n## Orders that escape")[0]
    lines = re.findall(r"(?m)^\| `([^`]+)` \| (.* \| \d\.\d{3}[^|]*) \|$", text)
    assert len(lines) >= 10
    for sampler, cells in lines:
        said = cells.split(" | ")
        for i, language in enumerate(LANGUAGES):
            if said[2 * i] == "n/a":
                assert not [r for r in kept["records"] if (r["sampler"], r["language"]) == (sampler, language)]
                continue
            need = record(kept, "model_calls_for_ser", sampler, language, target=0.5)
            accuracy = record(kept, "accuracy_under_parallelism", sampler, language)
            assert said[2 * i] == need_text(need)[0]
            most = f" ({accuracy['most']:.2f})" if accuracy["most"] > accuracy["value"] else ""
            assert said[2 * i + 1] == f"{accuracy['value']:.3f}{most}"


def test_the_pairs_are_what_was_measured():
    pairs = json.loads((ROOT / "results/compare-quick.json").read_text())["pairs"]
    table = (ROOT / "docs/samplers.md").read_text().partition("| against `threshold` |")[2].partition("\n\n")[0]
    lines = re.findall(r"(?m)^\| `([^`]+)` \| (.*) \|$", table)
    assert sorted(name for name, _ in lines) == sorted(pairs)

    def points(mean: dict[str, float]) -> str:
        return "{value:+.1f} [{low:+.1f}, {high:+.1f}]".format(
            **{end: 100 * mean[end] for end in ("value", "low", "high")}
        )

    for name, cells in lines:
        told = {one["language"]: one["difference"] for one in pairs[name]}
        *each, whole = cells.split(" | ")
        assert whole == f"{told['all languages']['verdict']}: {points(told['all languages']['mean'])}"
        assert each == [points(told[language]["mean"]) for language in LANGUAGES]


@pytest.fixture(scope="module")
def networks():
    return json.loads((ROOT / "results/board-networks.json").read_text())["records"]


def test_the_table_of_networks_is_what_was_measured(networks):
    text = (ROOT / "docs/samplers.md").read_text()
    table = text.partition("| sampler | 2-gram, ideal |")[2].partition("\n\n")[0]
    lines = re.findall(r"(?m)^\| `([^`]+)` \| (.*) \|$", table)
    assert len(lines) >= 10
    boards = [("ideal", "paper-2gram"), ("on-2gram", "paper-2gram"), ("ideal", "sparse-hmm"), ("on-hmm", "sparse-hmm")]
    for sampler, cells in lines:
        places = [{"board": board, "language": language, "sampler": sampler} for board, language in boards]
        found = [record({"records": networks}, "accuracy_under_parallelism", **place)["value"] for place in places]
        assert cells.split(" | ") == [f"{value:.3f}" for value in found]


@pytest.fixture(scope="module")
def whole():
    return json.loads((ROOT / "results/board.json").read_text())


def test_all_languages_are_what_was_measured(whole):
    page = (ROOT / "docs/samplers.md").read_text()
    table = page.partition("| sampler | 2-gram | sparse HMM |")[2].partition("\n\n")[0]
    lines = re.findall(r"(?m)^\| `([^`]+)` \| (.*) \|$", table)
    assert len(lines) >= 10
    assert whole["failures"] == []
    for sampler, cells in lines:
        languages = (*LANGUAGES, "paper-3gram", "modular-sum", "brackets")
        found = [record(whole, "accuracy_under_parallelism", sampler, language) for language in languages]
        assert cells.split(" | ") == [f"{r['value']:.3f}" for r in found]
        assert all(max(r["high"] - r["value"], r["value"] - r["low"]) < 0.04 for r in found)
