"""Reasoning as a sweep: records are what networks and the ideal denoiser write, and the page says what was measured."""

from __future__ import annotations

import re

import pytest

from tests.sparing import undrawn
from unmask import generate, languages, score
from unmask.experiments import sweep
from unmask.experiments.jobs.sources import Amount
from unmask.experiments.recipe import packaged
from unmask.models.trained import Network, load
from unmask.report.figures import drawn as figures_of
from unmask.report.publishing import STORE, Context, Selection, page_of
from unmask.report.results import read
from unmask.report.verdict import Shown

PAGE = page_of("reasoning")
ORDERS = ("ancestral", "low-confidence", "left-to-right")
SET = ("steps=[1,4]", "rows=24", "training_steps=3", "batch=2")
SMALL = {"questions": ("modular-sum(terms=3, modulus=3)", 8), "chains": ("modular-sum(modulus=2)", 0)}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """The recipe with smaller languages."""
    path = tmp_path_factory.mktemp("recipes") / "reasoning.yaml"
    text = packaged()["reasoning"].read_text().replace("length: [19, 65]", "length: [11, 11]")
    text = text.replace("length: 19", "length: 11").replace("length: 65", "length: 11")
    text = text.replace(
        "modular-sum(terms=4), modular-sum]", '"modular-sum(terms=3, modulus=3)", modular-sum(modulus=2)]'
    )
    text = text.replace("language: modular-sum(terms=4)", 'language: "modular-sum(terms=3, modulus=3)"')
    path.write_text(text.replace("language: modular-sum,", "language: modular-sum(modulus=2),"))
    return Selection(str(path), SET, device="cpu")


@pytest.fixture(scope="module")
def made(asked, tmp_path_factory):
    """The results, without a page."""
    out = tmp_path_factory.mktemp("reasoning")
    sweep(PAGE.recipe(asked), store=out / STORE, engine="here")
    return out, read([out])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("task", SMALL)
def test_the_points_are_what_is_written(made, task):
    _, results = made
    (name, given_tokens), length = SMALL[task], 11
    language = languages.load(name)
    found = {(p["model"], p["sampler"], p["steps"], p["measure"]): p for p in results.points if p["of"] == name}
    places = {kind: results.networks[f"{name}, {kind.upper()}"] for kind in ("mdm", "ar")}
    given, _ = Amount(24, 0, given_tokens).prompts(language, length)
    trained = Network(*(load(places[kind], "cpu") for kind in ("mdm", "ar")))
    writers = [("trained", trained, order, n) for order in ORDERS for n in (1, 4)]
    writers.append(("trained", trained, "autoregressive", None))
    exact = [("ancestral", 1)] if task == "questions" else [(order, n) for order in ORDERS for n in (1, 4)]
    writers += [("ideal", language, *which) for which in exact]
    for model, source, order, n in writers:
        drawn = generate(source, sampler=order, steps=n or 64, length=length, rows=24, seed=0, given=given)
        wanted = score(drawn, language)
        values = {name: wanted.metrics[name].value for name in ("answer_error", "right_by_wrong_steps", "wrong_steps")}
        for measure, value in (values | {"ser": wanted.ser.value}).items():
            point = found[model, order, n, measure]
            assert point["value"] == pytest.approx(value), (model, order, n, measure)
            assert point["model_calls"] == pytest.approx(float(drawn.model_calls.double().mean()))
        if model == "trained":
            each = next(p for p in results.of("milliseconds") if (p["of"], p["kind"]) == (name, point["kind"]))
            assert point["seconds"] == pytest.approx(each["value"] / 1000 / 2 * point["model_calls"])
    if task == "questions":  # all of it follows, at once
        assert [found["ideal", "ancestral", 1, m]["value"] for m in ("answer_error", "ser", "wrong_steps")] == [0, 0, 0]
    errors = [
        found["trained", "ancestral", 4, name]["value"] for name in ("answer_error", "right_by_wrong_steps", "ser")
    ]
    assert errors[0] + errors[1] == pytest.approx(errors[2])


@pytest.mark.long
def test_the_page_is_a_view(made):
    """Answers, steps and both at once, by sampler; three messages."""
    _, results = made
    shown = Shown(results, PAGE.view)
    with undrawn():
        contents = PAGE.contents(None, Context({"command": ["unmask", "page"]}, shown))
    text = contents["index.html"].decode()
    assert not re.search(r"(src|href)=.https?:", text)
    names = [*figures_of(shown)]
    assert names[:3] == ["answer-error-by-sampler", "ser-by-sampler", "right-by-wrong-steps-by-sampler"]
    assert len(shown.view.cards(results, shown.state)) == 3
    assert shown.metric.name == "answer_error"
