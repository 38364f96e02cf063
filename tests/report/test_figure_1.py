"""Figure 1 as a sweep: what is kept is not made again, what was stopped goes on, the page says what was measured."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.sparing import in_this_process, undrawn
from unmask import UnmaskError, generate, languages, metrics, score
from unmask.cli.main import main
from unmask.core.estimates import LEAST
from unmask.core.reading import read_json
from unmask.experiments import run
from unmask.experiments.jobs import training
from unmask.experiments.tables import status
from unmask.models.trained import Network, load, loop
from unmask.models.trained.checkpoints import ACCOUNT, WEIGHTS
from unmask.report.figures import drawn as figures_of
from unmask.report.publishing import STORE, Context, Selection, page_of, publish
from unmask.report.verdict import Shown

PAGE = page_of("figure-1")
SET = ("steps=[2,8]", "rows=60", "training_steps=6", "length=8", "layers=1")
SETTINGS = Selection("figure-1-quick", SET, ("paper-2gram",), "cpu")
COMMAND = (
    "report --recipe figure-1 --quick --languages paper-2gram --device cpu --set layers=1 steps=[2,8] rows=20 length=8"
)
COMMAND += " training_steps=2 --out"


def changed(*changes):
    return replace(SETTINGS, set=(*SET, *changes))


def measure(out, settings):
    """Of networks of one layer, without a page."""
    return publish(replace(PAGE, contents=lambda *_: {}), settings, out).shown.results


def directories(results):
    """Of the networks, by their kind."""
    return {name.rpartition(", ")[2].lower(): place for name, place in results.networks.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("figure")
    return out, measure(out, SETTINGS)


@pytest.fixture
def learned(monkeypatch):
    """The steps of all trainings of this process, one after another."""
    steps, learn = [], loop.Training._learn

    def noted(self, batch):
        steps.append(self.step)
        learn(self, batch)

    monkeypatch.setattr(loop.Training, "_learn", noted)
    return steps


def test_the_records_are_what_the_networks_do(made):
    _, results = made
    records = results.points
    language = languages.load("paper-2gram")
    places = directories(results)
    network = Network(load(places["mdm"], "cpu"), load(places["ar"], "cpu"))
    found = {(r["measure"], r["model"], r["steps"]): r for r in records}
    own = metrics.ter_autoregressive(language, 8).value
    for model, source in (("ideal", language), ("trained", network)):
        for steps in (2, 8, None):
            if (model, steps) == ("ideal", None):
                continue
            sampler = "autoregressive" if steps is None else "ancestral"
            drawn = generate(source, sampler=sampler, steps=steps, length=8, rows=60, seed=0)
            measured, expected = found["ser", model, steps], score(drawn, language)
            assert measured["value"] == expected.ser.value
            assert measured["model_calls"] == drawn.model_calls.double().mean()
            if expected.impossible_rows <= 60 - LEAST:
                ratio = found["generative_perplexity_ratio", model, steps]
                assert ratio["value"] == pytest.approx(expected.generative_perplexity.value / own)
    assert found["ser", "ideal", None]["value"] == 0
    assert found["generative_perplexity_ratio", "ideal", None]["value"] == 1
    (loss,) = (r for r in records if (r["measure"], r["kind"]) == ("excess_percent", "mdm"))
    account = read_json(places["mdm"] / ACCOUNT)
    assert account["journal"][-1]["step"] == 6
    assert loss["low"] < loss["value"] < loss["high"]
    assert loss["value"] > 5  # after six steps nothing is learned


def test_a_training_that_was_stopped_goes_on(made, tmp_path, monkeypatch, learned):
    _, results = made
    monkeypatch.setattr(training, "Conditions", partial(loop.Conditions, save_seconds=0.0))
    look = loop.Training._look

    def interrupted(self):
        if self.step == 4:
            raise KeyboardInterrupt
        look(self)

    monkeypatch.setattr(loop.Training, "_look", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(tmp_path, SETTINGS)
    monkeypatch.setattr(loop.Training, "_look", look)
    again = measure(tmp_path, SETTINGS)
    assert learned == [0, 1, 2, 3, 3, 4, 5, *range(6)]  # the MDM in two parts, and the AR model
    assert again.points == [point for point in results.points if point in again.points]
    for kind, place in directories(again).items():
        ours, theirs = load_file(place / WEIGHTS), load_file(directories(results)[kind] / WEIGHTS)
        assert all(tensor.equal(theirs[name]) for name, tensor in ours.items())
        steps = [entry["step"] for entry in read_json(place / ACCOUNT)["journal"]]
        assert steps == sorted(set(steps))


def test_what_failed_is_told(tmp_path, monkeypatch):
    def diverging(*arguments, **options):
        raise UnmaskError("training has diverged")

    train = loop.train
    monkeypatch.setattr(training, "train", diverging)
    said = rf"training .*paper-2gram.*: training has diverged; `unmask sweep retry {tmp_path / STORE}` tries again"
    with pytest.raises(UnmaskError, match=said):
        measure(tmp_path, SETTINGS)
    monkeypatch.setattr(training, "train", train)
    run.resume(tmp_path / STORE, again=True, engine="here")
    assert measure(tmp_path, SETTINGS)


@pytest.mark.long
def test_the_page_shows_both_models_and_their_networks(made):
    """One view: trained beside exact."""
    _, results = made
    with undrawn():
        about = Context({"command": ["unmask", "page"]}, Shown(results, PAGE.view))
        contents = PAGE.contents(None, about)
    text = contents["index.html"].decode()
    assert not re.search(r"(src|href)=.https?:", text)
    assert len(json.loads(contents["data.json"])["records"]) == len(results.points)
    assert [*figures_of(about.shown)][:2] == ["ser-by-network", "generative-perplexity-by-network"]
    (number, _), *_ = about.shown.view.cards(results, about.shown.state)
    found = {(p["model"], p["steps"]): p["value"] for p in results.of("ser") if p["kind"] == "mdm"}
    assert number == f"SER {100 * found['trained', 8]:.3g}% trained, {100 * found['ideal', 8]:.3g}% exact"


def test_the_command(tmp_path, capsys):
    out = tmp_path / "out"
    with in_this_process() as asked:
        assert main([*COMMAND.split(), str(out), "--json"]) == 0
    assert asked
    said = json.loads(capsys.readouterr().out)
    assert said["records"]
    assert Path(said["page"]) == (out / "index.html").resolve()
    assert load(said["networks"]["paper-2gram, MDM"], "cpu").shape.kind == "mdm"
    assert (status(out / STORE)["todo"], status(out / STORE)["failed"]) == (0, 0)
    with undrawn():
        assert main([*COMMAND.split(), str(out)]) == 0
    assert said["networks"]["paper-2gram, AR"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("training_steps=0", "steps is 0"),
        ("steps=[0]", "at least 1"),
        ("rows=0", "rows is 0"),
        ("steps=[]", "does not fit; expected a list of length >= 1"),
    ],
)
def test_mistakes_leave_nothing(tmp_path, change, said):
    with pytest.raises(UnmaskError, match=said):
        measure(tmp_path, changed(change))
    assert not list(tmp_path.iterdir())
