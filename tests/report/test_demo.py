"""The sweep of the demo: the cells that its figures need, and numbers that are those of `generate` and `score`."""

from __future__ import annotations

import pytest

from tests.report.tiny import demo
from unmask import generate, languages, score
from unmask.core.errors import UnmaskError
from unmask.experiments import sweep
from unmask.experiments.cell import cells_of
from unmask.report.publishing import Selection, page_of
from unmask.report.results import read
from unmask.report.verdict import usable

LARGE = {"sparse-hmm", "paper-3gram"}


def of(job, *changes, languages=()):
    recipe = page_of("demo").recipe(Selection("demo", changes, languages))
    return [cell.spec for cell in cells_of(recipe) if cell.job == job]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("demo")
    found = sweep(page_of("demo").recipe(demo(place)), store=place / "sweep", engine="here")
    return read([found.directory]).points


def test_it_has_what_the_figures_need():
    plain = [spec for spec in of("samples") if (spec["sampler"], spec["draw"]) == ("ancestral", "product")]
    points = {(spec["language"], spec["steps"]): spec["rows"] for spec in plain}
    shown = {"paper-2gram", "interval-5"} | LARGE
    assert points == {(name, 2**k): 250 if name in LARGE else 2000 for name in shown for k in range(3, 12)}
    assert {spec["length"] for spec in of("samples")} == {512}  # so all settings of the page can be compared
    assert {spec["draw"] for spec in of("samples")} == {"product", "fitted"}
    panel = {(spec["language"], spec["length"]) for spec in of("steps_for_ter")}
    assert panel == {(name, 2**k) for name in ("paper-2gram", "interval-5") for k in range(7, 12)}
    assert {spec["language"] for spec in of("prediction")} == {"paper-2gram", "interval-5"}


def test_changes_and_languages_choose_cells():
    assert {spec["seed"] for spec in of("samples", "seeds=[3]")} == {3}
    assert {spec["rows"] for spec in of("samples", "rows=9")} == {9}
    few = ("interval-5", "paper-3gram")
    assert {spec["language"] for spec in of("samples", languages=few)} == {*few}
    assert {spec["language"] for spec in of("prediction", languages=few)} == {"interval-5"}
    assert of("prediction", languages=["paper-3gram"]) == []  # a part without cells is left out
    with pytest.raises(UnmaskError, match="unknown language of demo 'paper-2grm'; did you mean paper-2gram"):
        of("samples", languages=["paper-2grm"])


def test_ser_is_generate_and_score(made):
    language = languages.load("paper-3gram")
    expected = score(generate(language, steps=64, length=20, rows=6, seed=0), language).ser
    wanted = ("ser", "paper-3gram", 64, 20)
    (found,) = (p for p in made if (p["measure"], p["of"], p["steps"], p["length"]) == wanted)
    assert {name: found[name] for name in expected.to_dict()} == expected.to_dict()


def test_a_joint_draw_is_a_sampler_of_its_own(made):
    """It has no impossible sequence, and is no setting that a real model can use: it knows the allowed strings."""
    own = {(p["sampler"], p["steps"]): p["value"] for p in made if (p["measure"], p["of"]) == ("ser", "paper-2gram")}
    assert own["ancestral + fitted", 2] == own["ancestral + fitted", 8] == 0 < own["ancestral", 2]
    assert not usable("ancestral + fitted(sweeps=3)")
    assert usable("ancestral + fitted(constraint=schema(file='a.json'))")
