"""The sweep of a demo: the cells that its figures need, those of recipes/demo.yaml, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unmask import generate, languages, metrics, score
from unmask.core.errors import UnmaskError
from unmask.experiments.board import board, quick
from unmask.experiments.jobs import read_recipe, sweep
from unmask.experiments.jobs.cells import cells_of, check
from unmask.report.demo import Settings, recipe
from unmask.report.results import read

OPEN = "pruned=False"  # the setting of languages without impossible strings

DEMO = Path(__file__).parents[2] / "recipes" / "demo.yaml"
TINY = Settings(
    rows=20,
    small_rows=6,
    seed=4,
    language_seed=4,
    steps=(2, 64),
    length=20,
    languages=("paper-2gram", "paper-3gram", "interval-5"),
    panel_lengths=(10, 20),
    profile_rows=5,
    perplexity_rows=5,
    generative_perplexity=True,
    samplers=("ancestral", "left-to-right"),
    sampler_languages=("interval-5",),
    sampler_length=20,
    sampler_rows=8,
)


def cells(settings):
    return cells_of(recipe(settings))


def of(settings, metric):
    return [cell.spec for cell in cells(settings) if cell.metric == metric]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    found = sweep(recipe(TINY), store=tmp_path_factory.mktemp("demo") / "sweep", engine="here")
    return read([found.directory]).points


def test_the_file_and_the_command_mean_the_same_cells():
    assert {cell.key for cell in cells_of(read_recipe(DEMO))} == {cell.key for cell in cells(Settings())}


def test_it_has_what_the_figures_need():
    points = {(spec["language"], spec["steps"]): spec["rows"] for spec in of(Settings(), "samples")}
    few = {"paper-3gram", "paper-4gram"}
    shown = {"paper-2gram", "sparse-hmm", "interval-5"} | few
    assert points == {(name, 2**k): 500 if name in few else 2000 for name in shown for k in range(3, 12)}
    assert {spec["length"] for spec in of(Settings(), "samples")} == {512}
    more = replace(Settings(), generative_perplexity=True, lengths=("sparse-hmm",))
    assert {spec["rows"] for spec in of(more, "samples") if not spec["pruned"]} == {200}
    assert {(spec["language"], spec["length"]) for spec in of(more, "steps_for_ter")} == {
        (name, 2**k) for name in ("paper-2gram", "interval-5", "sparse-hmm") for k in range(7, 12)
    }
    assert {spec["language"] for spec in of(more, "prediction")} == {"paper-2gram", "interval-5"}
    assert {spec["seed"] for spec in of(replace(more, seed=3), "samples")} == {3}
    assert {spec["seed"] for spec in of(replace(more, seed=3), "curve")} == {3, 4}


def test_ser_is_generate_and_score(made):
    language = languages.load("paper-3gram(seed=4)")
    expected = score(generate(language, steps=64, length=20, rows=6, seed=4), language).ser
    wanted = ("ser", "paper-3gram", 64, "pruned=True")
    (found,) = (p for p in made if (p["measure"], p["of"], p["steps"], p["setting"]) == wanted)
    assert {name: found[name] for name in expected.to_dict()} == expected.to_dict()
    assert found["length"] == 20


def test_generative_perplexity_is_of_the_unpruned_language(made):
    language = languages.load("paper-2gram(seed=4, pruned=False)")
    drawn = generate(language, steps=2, length=20, rows=5, seed=4)
    value, own = score(drawn, language).generative_perplexity.value, metrics.ter_autoregressive(language, 20).value
    found = {(p["measure"], p["steps"]): p["value"] for p in made if (p["of"], p["setting"]) == ("paper-2gram", OPEN)}
    assert found["generative_perplexity_ratio", 2] == pytest.approx(value / own)
    assert found["generative_perplexity_ratio", None] == 1.0
    assert found["ser", 2] == 0.0


def test_samplers_are_a_small_board(made):
    settings = quick(
        samplers=TINY.samplers, languages=("interval-5",), lengths=(20,), rows=4, seed=4, language_seed=4, ter_share=0
    )
    drawn = {(r["sampler"], r["budget"], r["measure"]): r["value"] for r in board(settings).records if r["budget"]}
    found = {(p["sampler"], p["steps"], p["measure"]): p["value"] for p in made if p["metric"] == "curve"}
    for sampler in TINY.samplers:
        budgets = {steps for name, steps, measure in found if (name, measure) == (sampler, "diversity")}
        assert len(budgets) > 1
        for steps in budgets:
            assert found[sampler, steps, "ser"] == drawn[sampler, steps, "ser"]


def test_mistakes_are_found_before_the_work(tmp_path):
    with pytest.raises(UnmaskError, match="rows is 0"):
        Settings(rows=0)
    with pytest.raises(UnmaskError, match="did you mean"):
        recipe(replace(TINY, lengths=("paper-2grm",)))
    with pytest.raises(UnmaskError, match="nearest it has"):
        check(cells(replace(TINY, lengths=("brackets",), panel_lengths=(15, 16))))
    endless = tmp_path / "brackets.json"
    endless.write_text('{"kind": "brackets", "stop": 0.2}')
    with pytest.raises(UnmaskError, match="vary in length"):
        recipe(replace(TINY, lengths=(str(endless),)))
