"""Reasoning as a sweep: records are what networks and the ideal denoiser write, and the page says what was measured."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import altair as alt
import pytest

from tests.report.told import about
from tests.sparing import in_this_process, undrawn
from unmask import UnmaskError, generate, languages, score
from unmask.cli.main import main
from unmask.experiments.jobs import read_recipe, sweep
from unmask.experiments.jobs.cells import cells_of
from unmask.experiments.jobs.status import status
from unmask.experiments.measures.sources import prompts_of
from unmask.networks import Network, load
from unmask.report import reasoning_page
from unmask.report.publishing import STORE
from unmask.report.reasoning import ORDERS, TASKS, Settings, quick, recipe
from unmask.report.rounds import AR_PLACE

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
    """The records, without a page."""
    out, asked = tmp_path_factory.mktemp("reasoning"), reasoning_page.page("cpu")
    return out, asked.measured(sweep(asked.recipe(SETTINGS), store=out / STORE, engine="here"), SETTINGS)


def places(out, records):
    return {(r["task"], r["kind"]): out / r["network"] for r in records if r["measure"] == "excess_percent"}


@pytest.mark.parametrize("task", SMALL)
def test_the_records_are_what_is_written(made, task):
    out, records = made
    found = {(r["model"], r["sampler"], r["steps"], r["measure"]): r for r in records if r["task"] == task}
    language, length = languages.load(SMALL[task]["language"]), 11
    given, _ = prompts_of(language, length, SMALL[task]["prompt_length"], rows=24, seed=0)
    trained = Network(*(load(places(out, records)[task, kind], "cpu") for kind in ("mdm", "ar")))
    writers = [("trained", trained, order, n) for order in ORDERS for n in (1, 4)]
    writers.append(("trained", trained, "autoregressive", None))
    exact = [("ancestral", 1)] if task == "questions" else [(order, n) for order in ORDERS for n in (1, 4)]
    writers += [("exact", language, *which) for which in exact]
    for model, source, order, n in writers:
        drawn = generate(source, sampler=order, steps=n or 64, length=length, rows=24, seed=0, given=given)
        said = score(drawn, language)
        for measure, wanted in (
            ("answer", 1 - said.yardsticks["answer_error"].value),
            ("steps", 1 - said.ser.value),
            ("lucky_answers", said.yardsticks["lucky_answers"].value),
            ("wrong_steps", said.yardsticks["wrong_steps"].value),
        ):
            record = found[model, order, n, measure]
            assert record["value"] == pytest.approx(wanted), (model, order, n, measure)
            assert record["low"] is None or record["low"] <= record["value"] <= record["high"]
            assert record["evaluations"] == pytest.approx(float(drawn.evaluations.double().mean()))
    if task == "questions":  # all of it follows, at once
        assert [found["exact", "ancestral", 1, m]["value"] for m in ("answer", "steps", "wrong_steps")] == [1, 1, 0]
    shares = [found["trained", "ancestral", 4, name] for name in ("answer", "steps", "lucky_answers")]
    assert shares[0]["value"] == pytest.approx(shares[1]["value"] + shares[2]["value"])


def test_tables_and_sentences(made):
    _, records = made
    *shown, learned = reasoning_page.tables(records, SETTINGS)
    assert len(shown) == 6
    assert all(len(cells) == len(table.head) - 1 for table in (*shown, learned) for _, cells in table.rows)
    assert [heading for heading, _ in shown[0].rows] == ["1", "4", "AR"]
    assert [len(table.head) for table in shown] == [4, 4, 4, 7, 7, 7]  # the ideal denoiser stands beside chains
    assert len(reasoning_page.sentences(records, SETTINGS)) == 4
    assert {name.partition(",")[0] for name in reasoning_page.networks(records)} == set(SMALL)


def test_the_page(made):
    """Of one task: charts take long to define."""
    out, every = made
    settings = replace(SETTINGS, tasks=("chains",))
    records = [record for record in every if record["task"] == "chains"]
    with undrawn():
        contents = reasoning_page.contents(records, settings, about(out))
    page = contents["index.html"].decode()
    assert not re.search(r"(src|href)=.https?:", page)
    assert json.loads(contents["data.json"])["records"] == json.loads(json.dumps(records))
    assert all(f'<a href="{place}/README.md">' in page for place in reasoning_page.networks(records).values())
    times = {r["kind"]: r["value"] for r in records if r["measure"] == "milliseconds"}
    assert times.keys() == {"mdm", "ar"}
    drawn = json.loads(contents["reasoning.svg"])
    data = [row for rows in drawn["datasets"].values() for row in rows if row["measure"] == "steps"]
    assert {row["place"] for row in data} == {1, 4, 4 * AR_PLACE}
    for row in data:
        assert row["milliseconds"] == pytest.approx(times[row["kind"]] * row["evaluations"] / 2)


def test_the_recipe_is_that_of_the_command(monkeypatch):
    path = Path(__file__).parents[2] / "recipes" / "reasoning.yaml"
    for task in SMALL:
        monkeypatch.setitem(TASKS, task, LARGE[task])
    ours, theirs = ({cell.key for cell in cells_of(each)} for each in (recipe(Settings()), read_recipe(path)))
    assert ours == theirs
    assert {cell.key for cell in cells_of(recipe(quick(rows=1000)))} < ours


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reasoning_page, "chart", lambda *_: alt.Chart().mark_point())
    out = tmp_path / "out"
    with in_this_process() as asked:
        assert main([*WORDS.split(), str(out), "--json"]) == 0
        said = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert main([*WORDS.split(), str(out)]) == 0
    assert asked
    assert Path(said["page"]) == (out / "index.html").resolve()
    assert load(said["networks"]["questions, MDM"], "cpu").shape.kind == "mdm"
    assert (status(out / STORE)["todo"], status(out / STORE)["failed"]) == (0, 0)
    assert said["networks"]["questions, AR"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tasks": ()}, "at least one task"),
        ({"tasks": ("sums",)}, "sums"),
        ({"steps": ()}, "numbers of sampling steps"),
        ({"steps": (0,)}, "at least 1"),
        ({"rows": 0}, "rows is 0"),
    ],
)
def test_bad_settings(changes, said):
    with pytest.raises(UnmaskError, match=said):
        Settings(**changes)
