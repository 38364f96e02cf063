"""Reasoning as a sweep: records are what networks and the ideal denoiser write, and the page says what was measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.sparing import in_this_process, undrawn
from unmask import UnmaskError, generate, languages, score
from unmask.cli.main import main
from unmask.experiments.jobs import read_recipe, sweep
from unmask.experiments.jobs.cells import cells_of
from unmask.experiments.jobs.status import status
from unmask.experiments.measures.sources import prompts_of
from unmask.networks import Network, load
from unmask.report.explorer.fragment import Explorer
from unmask.report.publishing import STORE, Made
from unmask.report.reasoning import ORDERS, TASKS, VIEW, Settings, page, quick, recipe
from unmask.report.results import read

SETTINGS = Settings(steps=(1, 4), rows=24, training_steps=3, batch=2)
SMALL = {
    "questions": TASKS["questions"] | {"language": "modular-sum(terms=3, modulus=3)", "length": 11},
    "chains": TASKS["chains"] | {"language": "modular-sum(modulus=2)", "length": 11},
}
LARGE = dict(TASKS)
WORDS = "reasoning --quick --training-steps 2 --rows 4 --steps 1 2 --batch 2 --device cpu --out"


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patch:
        for task, said in SMALL.items():
            patch.setitem(TASKS, task, said)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The results, without a page."""
    out = tmp_path_factory.mktemp("reasoning")
    sweep(page("cpu").recipe(SETTINGS), store=out / STORE, engine="here")
    return out, read([out])


@pytest.mark.parametrize("task", SMALL)
def test_the_points_are_what_is_written(made, task):
    _, results = made
    language, length, name = languages.load(SMALL[task]["language"]), 11, SMALL[task]["language"]
    found = {(p["model"], p["sampler"], p["steps"], p["measure"]): p for p in results.points if p["of"] == name}
    places = {t.kind: t.place for t in results.trainings if t.of == name}
    given, _ = prompts_of(language, length, SMALL[task]["prompt_length"], rows=24, seed=0)
    trained = Network(*(load(places[kind], "cpu") for kind in ("mdm", "ar")))
    writers = [("trained", trained, order, n) for order in ORDERS for n in (1, 4)]
    writers.append(("trained", trained, "autoregressive", None))
    exact = [("ancestral", 1)] if task == "questions" else [(order, n) for order in ORDERS for n in (1, 4)]
    writers += [("ideal", language, *which) for which in exact]
    for model, source, order, n in writers:
        drawn = generate(source, sampler=order, steps=n or 64, length=length, rows=24, seed=0, given=given)
        wanted = score(drawn, language)
        values = {name: wanted.yardsticks[name].value for name in ("answer_error", "lucky_answers", "wrong_steps")}
        for measure, value in (values | {"ser": wanted.ser.value}).items():
            point = found[model, order, n, measure]
            assert point["value"] == pytest.approx(value), (model, order, n, measure)
            assert point["evaluations"] == pytest.approx(float(drawn.evaluations.double().mean()))
        if model == "trained":
            each = next(p for p in results.of("milliseconds") if (p["of"], p["kind"]) == (name, point["kind"]))
            assert point["seconds"] == pytest.approx(each["value"] / 1000 / 2 * point["evaluations"])
    if task == "questions":  # all of it follows, at once
        assert [found["ideal", "ancestral", 1, m]["value"] for m in ("answer_error", "ser", "wrong_steps")] == [0, 0, 0]
    errors = [found["trained", "ancestral", 4, name]["value"] for name in ("answer_error", "lucky_answers", "ser")]
    assert errors[0] + errors[1] == pytest.approx(errors[2])


def test_the_page_is_a_view(made):
    """Answers, steps and both at once, by sampler; three messages; the networks."""
    out, results = made
    explorer = Explorer(results, VIEW)
    with undrawn():
        contents = page("cpu").contents(None, SETTINGS, Made({"command": ["unmask", "page"]}, 1.0, explorer, out))
    text = contents["index.html"].decode()
    assert not re.search(r"(src|href)=.https?:", text)
    names = [figure.name for figure in explorer.figures]
    assert names[:3] == ["answer-error-by-sampler", "ser-by-sampler", "lucky-answers-by-sampler"]
    assert "training" in names
    assert len(explorer.cards) == 3
    assert explorer.state["metric"] == "answer_error"
    assert sum(f'{training.place.name}/README.md">' in text for training in results.trainings) == 4


def test_the_recipe_is_that_of_the_command(monkeypatch):
    path = Path(__file__).parents[2] / "recipes" / "reasoning.yaml"
    for task in SMALL:
        monkeypatch.setitem(TASKS, task, LARGE[task])
    ours, theirs = ({cell.key for cell in cells_of(each)} for each in (recipe(Settings()), read_recipe(path)))
    assert ours == theirs
    assert {cell.key for cell in cells_of(recipe(quick(rows=1000)))} < ours


def test_the_command(tmp_path, capsys):
    out = tmp_path / "out"
    name = SMALL["questions"]["language"]
    with in_this_process() as asked, undrawn():
        assert main([*WORDS.split(), str(out), "--json"]) == 0
        said = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert main([*WORDS.split(), str(out)]) == 0
    assert asked
    assert Path(said["page"]) == (out / "index.html").resolve()
    assert load(said["networks"][f"{name}, MDM"], "cpu").shape.kind == "mdm"
    assert (status(out / STORE)["todo"], status(out / STORE)["failed"]) == (0, 0)
    assert said["networks"][f"{name}, AR"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tasks": ()}, "there are no tasks"),
        ({"tasks": ("sums",)}, "sums"),
        ({"steps": ()}, "there are no steps"),
        ({"steps": (0,)}, "at least 1"),
        ({"rows": 0}, "rows is 0"),
    ],
)
def test_bad_settings(changes, said):
    with pytest.raises(UnmaskError, match=said):
        Settings(**changes)
