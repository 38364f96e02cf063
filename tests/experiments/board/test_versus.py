"""Two samplers at the board's fixed budgets: the sweep, the verdicts and the sentences."""

from __future__ import annotations

import pytest
import torch

from unmask import UnmaskError
from unmask.experiments import sweep
from unmask.experiments.board import Settings, board, cells
from unmask.experiments.board.grid import recipe
from unmask.experiments.board.versus import ALL, versus

FEW = {"languages": ("paper-2gram", "interval-5"), "lengths": (20,), "rows": 30, "seeds": 2}
SETTINGS = Settings((), **FEW)
FULL = Settings(("ancestral", "strided", "autoregressive"), **FEW)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A board that has both samplers."""
    place = tmp_path_factory.mktemp("versus") / "sweep"
    sweep(recipe(FULL), store=place, engine="here", fresh=True)
    return place


def test_a_board_and_a_comparison_agree(store, monkeypatch):
    """One number, one interval and one verdict; and what a board has measured is not measured again."""
    monkeypatch.setattr(cells, "measure", pytest.fail)
    made = board(FULL, store=store)
    found = versus("strided", "ancestral", SETTINGS, store=store, engine="here")
    assert [one.language for one in found] == ["paper-2gram", "interval-5", ALL]
    for one in found[:2]:
        (record,) = (
            r for r in made.of("accuracy_difference") if (r["language"], r["sampler"]) == (one.language, "strided")
        )
        mean = one.difference.mean
        assert [record[name] for name in ("value", "low", "high", "level")] == [
            mean.value,
            mean.low,
            mean.high,
            mean.level,
        ]
        assert record["verdict"] == one.difference.verdict == "better"
        accuracy = {
            r["sampler"]: r["value"] for r in made.of("accuracy_under_parallelism") if r["language"] == one.language
        }
        assert mean.value == pytest.approx(accuracy["strided"] - accuracy["ancestral"])
    values = torch.tensor([one.difference.mean.value for one in found])
    assert values[2] == pytest.approx(values[:2].mean())


def test_a_sampler_is_as_good_as_itself(store):
    for found in versus("ancestral", "ancestral", SETTINGS, store=store, engine="here"):
        assert (found.difference.verdict, found.difference.mean.value) == ("not conclusive", 0.0)
        assert -found.difference.mean.low == pytest.approx(found.difference.mean.high)


def test_steps_of_the_settings_decide_nothing(store):
    """Nor do those of a quick board."""
    usual, other = (
        versus("strided", "ancestral", Settings((), **FEW, **more), store=store, engine="here")
        for more in ({}, {"steps": (2, 20), "quick": True})
    )
    assert usual == other


def test_the_sentence_has_verdict_and_number(store):
    one, _, together = versus("strided", "ancestral", SETTINGS, store=store, engine="here")
    sentence = one.sentence("A", "B")
    assert sentence.startswith(
        "paper-2gram: A is better than B. Fraction correct, mean over log2 of model calls from 1"
    )
    assert f"{one.difference.mean.points}, 60 sequences." in sentence
    assert together.sentence("A", "B").startswith(f"{ALL}: A is better than B. ")
    assert (
        versus("strided", "strided", SETTINGS, store=store, engine="here")[0]
        .sentence("A", "B")
        .startswith("paper-2gram: not conclusive: the interval includes 0. ")
    )


def test_costs_without_overlap_are_refused(store):
    with pytest.raises(UnmaskError, match=r"take 20 and 1 to .* model calls. Two curves need costs in common"):
        versus("autoregressive", "ancestral", SETTINGS, store=store, engine="here")
