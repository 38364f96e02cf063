"""Whole boards at a tiny size: stops, failures, seeds, records."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib import invalidate_caches
from pathlib import Path

import pytest
import torch

from unmask import generate, languages
from unmask.core.errors import UnmaskError
from unmask.experiments import read_recipe
from unmask.experiments.board import Settings, board
from unmask.experiments.board.run import recipe, standard
from unmask.experiments.board.table import tables
from unmask.experiments.cell import cells_of
from unmask.samplers import SAMPLERS, Choice, Sampler

FIELDS = {"measure", "language", "length", "sampler", "knob", "budget", "value", "low", "high", "n", "level", "method"}
TINY = {"languages": ("paper-2gram", "interval-5"), "lengths": (20,), "rows": 30, "seeds": 2, "steps": (2, 5, 20, 80)}


@pytest.fixture
def strangers(monkeypatch):
    """Samplers of somebody else: one that breaks, one that breaks at some budgets, one that does nothing with N."""
    monkeypatch.setattr(SAMPLERS, "_makers", dict(SAMPLERS.makers))

    @SAMPLERS.register("broken")
    class Broken(Sampler):
        def choose(self, view):
            raise RuntimeError("tensor sizes do not match")

    @SAMPLERS.register("picky")
    class Picky(Sampler):
        def order(self, delta, hidden, rng):
            if len(delta) < 5:
                raise UnmaskError("needs 5 rounds")
            return torch.where(hidden, torch.arange(hidden.shape[1]) % len(delta) + 1, 0)

    @SAMPLERS.register("own-pace")
    @dataclass(frozen=True)
    class OwnPace(Sampler):
        pace = "free"
        at_once: int = 3

        def choose(self, view):
            return Choice(view.hidden & (view.hidden.cumsum(1) <= self.at_once))


def of(made, measure, sampler, language="interval-5"):
    return [r for r in made.records if (r["measure"], r["sampler"], r["language"]) == (measure, sampler, language)]


@pytest.fixture(scope="module")
def made():
    return board(Settings(samplers=("ancestral", "left-to-right", "low-confidence", "autoregressive"), **TINY))


@pytest.mark.long
def test_points_are_generations_of_every_seed(made):
    wrong, model_calls = [], 0.0
    for seed in (0, 1):
        language = languages.load(f"paper-2gram(seed={seed})")
        drawn = generate(language, sampler="ancestral", steps=5, length=20, rows=30, seed=seed)
        wrong.append(float((~language.supports(drawn.tokens)).sum()))
        model_calls += float(drawn.model_calls.sum())
    (found,) = (r for r in of(made, "ser", "ancestral", "paper-2gram") if r["budget"] == 5)
    assert (found["value"], found["n"]) == (pytest.approx(sum(wrong) / 60), 60)
    assert found["model_calls"] == pytest.approx(model_calls / 60)
    assert found["by_seed"] == pytest.approx([count / 30 for count in wrong])
    assert wrong[0] != wrong[1]


def test_a_curve_ends_where_it_costs_as_much_as_ar(made):
    assert [r["budget"] for r in of(made, "ser", "left-to-right")] == [2, 5, 20]
    assert [r["budget"] for r in of(made, "ser", "ancestral")] == [2, 5, 20, 80]
    assert [r["model_calls"] for r in of(made, "ser", "autoregressive")] == [20.0]


def test_a_knob_that_does_nothing_is_turned_once(strangers):
    """And a sampler that ignores N is swept over its own number, whatever the order of the costs."""
    made = board(Settings(samplers=("own-pace", "own-pace(at_once=[5, 2])", "own-pace(at_once=[4, 4])"), **TINY))
    assert len(of(made, "ser", "own-pace(at_once=[4, 4])")) == 1
    assert [r["model_calls"] for r in of(made, "ser", "own-pace(at_once=[5, 2])")] == [4.0, 10.0]
    assert [r["budget"] for r in of(made, "ser", "own-pace")] == [12, 6, 3, 1]


def test_one_that_fails_stops_no_one(strangers):
    made = board(Settings(samplers=("broken", "picky", "ancestral"), **TINY))
    assert {r["sampler"] for r in made.records} == {"picky", "ancestral"}
    broken = [failure for failure in made.failures if failure.sampler == "broken"]
    assert len(broken) == 2 * 4
    assert broken[0].message == "RuntimeError: tensor sizes do not match"
    assert [(f.value, f.message) for f in made.failures if f.sampler == "picky"] == [(2, "needs 5 rounds")] * 2
    assert [r["budget"] for r in of(made, "ser", "picky")] == [5, 20]
    with pytest.raises(UnmaskError, match="no sampler could be measured; broken: RuntimeError"):
        board(Settings(samplers=("broken",), **TINY))


def test_a_language_is_the_first_argument():
    found = board("interval-5", samplers=["ancestral"], rows=10, lengths=8, steps=[2, 4], seeds=1)
    assert found.settings.languages == ("interval-5",)


def test_the_records_are_plain_and_complete(made):
    text = json.dumps(made.records, allow_nan=False)
    assert json.loads(text) == made.records
    for r in made.records:
        assert r.keys() >= FIELDS
        assert r["value"] is not None or r["note"]
        if r["value"] is not None and r["low"] is not None and r["high"] is not None:
            assert r["low"] <= r["value"] <= r["high"]
    curves = {(r["measure"], r.get("target")) for r in of(made, "model_calls_for_ser", "ancestral")}
    assert curves == {("model_calls_for_ser", target) for target in (0.5, 0.1, 0.01)}


def test_ter_or_why_not(made):
    assert all(r["value"] >= 0.99 for r in of(made, "ter_upper_ratio", "ancestral"))
    (own,) = of(made, "ter_ratio", "autoregressive")
    assert (own["value"], own["method"]) == (1.0, "exact")
    adaptive = of(made, "ter_upper_ratio", "low-confidence")
    assert {r["value"] for r in adaptive} == {None}
    assert all(r["note"] for r in adaptive)
    assert of(made, "model_calls_for_ter", "low-confidence")[0]["value"] is None


def test_differences_are_of_the_same_rows(made):
    (own,) = of(made, "accuracy_difference", "ancestral")
    assert own["value"] == 0.0
    assert -own["low"] == pytest.approx(own["high"])  # so few rows may all have been equal by luck
    assert own["high"] > 0
    (theirs,), (ours,) = (of(made, "accuracy_under_parallelism", name) for name in ("ancestral", "left-to-right"))
    (difference,) = of(made, "accuracy_difference", "left-to-right")
    assert difference["value"] == pytest.approx(ours["value"] - theirs["value"])
    assert len(difference["by_seed"]) == 2


@pytest.mark.long
def test_the_same_seed_gives_the_same_board(made):
    again = board(made.settings)
    assert again.records == made.records
    other = board(Settings(samplers=("ancestral",), **TINY, seed=5))
    assert of(other, "ser", "ancestral") != of(made, "ser", "ancestral")


def test_a_sampler_alone_is_the_same_as_in_company(made):
    alone = board(Settings(samplers=("ancestral",), **TINY))
    assert of(alone, "ser", "ancestral") == of(made, "ser", "ancestral")


def test_accuracy_of_ar_is_zero(made):
    (found,) = of(made, "accuracy_under_parallelism", "autoregressive")
    assert found["value"] == 0.0


def test_tables(made):
    drawn = tables(made)
    assert [table.title for table in drawn] == ["paper-2gram, 20 tokens", "interval-5, 20 tokens"]
    for table in drawn:
        assert {name for name, _ in table.rows} == set(made.settings.samplers)
        assert all(len(cells) == len(table.head) - 1 for _, cells in table.rows)


def test_usual_settings():
    usual, brief = Settings(), Settings(quick=True)
    assert {name.partition("(")[0] for name in standard()} == set(SAMPLERS.makers) - {"llada", "dream"}
    assert standard()[-1] == "autoregressive"
    assert (brief.rows * brief.seeds, brief.seeds) == (200, 2)
    assert usual.seeds > 2
    assert set(brief.languages) < set(usual.languages)
    assert Settings(quick=True, rows=7).rows == 7
    (part,) = recipe(Settings(languages=("modular-sum",))).parts
    assert {"language": ("modular-sum",), "length": (125,)} in part.lists  # the nearest below 128


def test_the_recipe_of_ours_is_the_usual_board():
    """So that `unmask board` measures nothing more in its store."""
    kept = cells_of(read_recipe(Path(__file__).parents[3] / "recipes/board.yaml"))
    listed, expected = (
        {cell.spec["sampler"].partition("(")[0] for cell in cells} for cells in (kept, cells_of(recipe(Settings())))
    )
    assert not expected - listed, f"recipes/board.yaml has no line for the sampler {', '.join(expected - listed)}"
    assert not listed - expected, f"recipes/board.yaml lists {', '.join(listed - expected)}, which no board measures"
    assert [cell.key for cell in kept] == [cell.key for cell in cells_of(recipe(Settings()))]


def test_rounds_are_part_of_a_cell_and_not_of_a_name():
    cells = cells_of(recipe(Settings(samplers=("ancestral", "speculative"), **TINY)))
    assert {cell.spec["sampler"] for cell in cells} == {"ancestral(steps=[2, 5, 20, 80])", "speculative"}
    own = board(Settings(samplers=("ancestral(steps=[5])", "left-to-right"), **TINY))
    assert [r["budget"] for r in of(own, "ser", "ancestral")] == [5]


def test_a_stranger_whose_code_has_changed_is_another_cell(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    source = "from unmask.samplers.rules.fixed_orders import LeftToRight\nclass Mine(LeftToRight): mark = {}\n"
    keys = set()
    for number in (1, 2):
        (tmp_path / "stranger.py").write_text(source.format(number))
        monkeypatch.delitem(sys.modules, "stranger", raising=False)
        invalidate_caches()
        cells = cells_of(recipe(Settings(samplers=("stranger:Mine", "ancestral"), **TINY)))
        keys.add(tuple(cell.key for cell in cells if cell.spec["sampler"] != "ancestral(steps=[2, 5, 20, 80])"))
        assert {bool(cell.spec["code"]) for cell in cells} == {True, False}
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"samplers": ("nobody",)}, "unknown sampler"),
        ({"languages": ("paper-5gram",)}, "did you mean"),
        ({"lengths": (1,)}, "at least 2 tokens"),
        ({"languages": ("interval-5",), "model": "mdm"}, "--model has its own language"),
        ({"rows": 0}, "rows is 0"),
        ({"seeds": 0}, "seeds is 0"),
        ({"steps": (8, 0)}, "steps is 0; expected at least 1"),
        ({"samplers": ("ancestral", "ancestral(steps=[8])")}, "2 samplers are 'ancestral'"),
    ],
)
def test_mistakes_are_found_before_the_work(options, expected):
    with pytest.raises(UnmaskError, match=expected):
        recipe(Settings(**({"samplers": ("ancestral",)} | options)))
