"""The sweep of the demo: the cells that its figures need, and numbers that are those of `generate` and `score`."""

from __future__ import annotations

import pytest

from tests.report.tiny import demo
from unmask import generate, languages, score
from unmask.core.errors import UnmaskError
from unmask.experiments import sweep
from unmask.experiments.board import Settings, board
from unmask.experiments.cell import cells_of
from unmask.report.publishing import Selection, page_of
from unmask.report.results import read

LARGE = {"sparse-hmm", "paper-3gram", "paper-4gram"}


def of(job, *changes, languages=()):
    recipe = page_of("demo").recipe(Selection("demo", changes, languages))
    return [cell.spec for cell in cells_of(recipe) if cell.job == job]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("demo")
    found = sweep(page_of("demo").recipe(demo(place)), store=place / "sweep", engine="here")
    return read([found.directory]).points


def test_it_has_what_the_figures_need():
    points = {(spec["language"], spec["steps"]): spec["rows"] for spec in of("samples")}
    shown = {"paper-2gram", "interval-5"} | LARGE
    assert points == {(name, 2**k): 250 if name in LARGE else 2000 for name in shown for k in range(3, 12)}
    assert {spec["length"] for spec in of("samples")} == {512}
    panel = {(spec["language"], spec["length"]) for spec in of("steps_for_ter")}
    assert panel == {(name, 2**k) for name in ("paper-2gram", "interval-5") for k in range(7, 12)}
    assert {spec["language"] for spec in of("prediction")} == {"paper-2gram", "interval-5"}


def test_changes_and_languages_choose_cells():
    assert {spec["seed"] for job in ("samples", "curve") for spec in of(job, "seeds=[3]")} == {3}
    assert {spec["rows"] for job in ("samples", "curve") for spec in of(job, "rows=9")} == {9}
    few = ("interval-5", "paper-3gram")
    assert {spec["language"] for spec in of("samples", languages=few)} == {*few}
    assert {spec["language"] for spec in of("curve", languages=few)} == {"interval-5"}
    assert of("curve", languages=["paper-3gram"]) == []  # a part without cells is left out
    with pytest.raises(UnmaskError, match="unknown language of demo 'paper-2grm'; did you mean paper-2gram"):
        of("samples", languages=["paper-2grm"])


def test_ser_is_generate_and_score(made):
    language = languages.load("paper-3gram")
    expected = score(generate(language, steps=64, length=20, rows=6, seed=0), language).ser
    wanted = ("ser", "paper-3gram", 64, 20)
    (found,) = (p for p in made if (p["measure"], p["of"], p["steps"], p["length"]) == wanted)
    assert {name: found[name] for name in expected.to_dict()} == expected.to_dict()


def test_samplers_are_a_small_board(made):
    samplers = ("ancestral", "low-confidence")
    where = {"languages": ("interval-5",), "lengths": (20,)}
    settings = Settings(quick=True, samplers=samplers, **where, rows=4, ter_share=0)
    drawn = {(r["sampler"], r["budget"], r["measure"]): r["value"] for r in board(settings).records if r["budget"]}
    own = [p for p in made if (p["job"], p["of"]) == ("curve", "interval-5")]
    found = {(p["sampler"], p["steps"], p["measure"]): p["value"] for p in own}
    for sampler in samplers:
        budgets = {steps for name, steps, measure in found if (name, measure) == (sampler, "diversity")}
        assert len(budgets) > 1
        for steps in budgets:
            assert found[sampler, steps, "ser"] == drawn[sampler, steps, "ser"]
