"""Figure 1 in stages: what is kept is not made again, what was stopped goes on, and the page says what was measured."""

from __future__ import annotations

import json
import re

import pytest

from unmask import UnmaskError, generate, languages, score
from unmask.networks import Network, load
from unmask.report import figure_1, figure_1_page
from unmask.report.figure_1 import Settings, measure, quick, sampled, trained

SETTINGS = quick(languages=("paper-2gram",), steps=(2, 8), rows=60, training_steps=6, length=8)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("figure")
    return out, measure(out, SETTINGS, "cpu")


def test_what_is_kept_is_not_made_again(made, monkeypatch):
    out, records = made
    for name in ("train", "generate"):
        monkeypatch.setattr(figure_1, name, lambda *a, **k: pytest.fail("made again"))
    assert measure(out, SETTINGS, "cpu") == records


def test_the_records_are_what_the_networks_do(made):
    out, records = made
    language = languages.preset("paper-2gram")
    network = Network(*(load(figure_1.directory(out, "paper-2gram", kind), "cpu") for kind in ("mdm", "ar")))
    found = {(r["measure"], r["model"], r["steps"]): r for r in records if r["measure"] == "ser"}
    how = {"length": 8, "rows": 60, "seed": 0}
    for model, source in (("exact", language), ("trained", network)):
        for steps in SETTINGS.steps:
            assert (
                found["ser", model, steps]["value"] == score(generate(source, steps=steps, **how), language).ser.value
            )
    autoregressive = generate(network, sampler="autoregressive", **how)
    assert found["ser", "trained", None]["value"] == score(autoregressive, language).ser.value
    assert found["ser", "exact", None]["value"] == 0
    (loss,) = (r for r in records if (r["measure"], r["kind"]) == ("excess_percent", "mdm"))
    assert loss["training_steps"] == 6
    assert loss["low"] < loss["value"] < loss["high"]
    assert loss["value"] > 5  # after six steps nothing is learned


def test_what_was_stopped_goes_on(tmp_path, monkeypatch):
    shorter, real = quick(**(vars(SETTINGS) | {"training_steps": 4})), figure_1.train

    def stopped(*arguments, **options):
        real(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(figure_1, "train", stopped)
    with pytest.raises(KeyboardInterrupt):
        measure(tmp_path, shorter, "cpu")
    monkeypatch.setattr(figure_1, "train", real)
    records = measure(tmp_path, shorter, "cpu")
    assert len([r for r in records if r["measure"] == "excess_percent"]) == 2


def test_other_settings_ask_for_another_directory(made):
    out, _ = made
    other = quick(**(vars(SETTINGS) | {"training_steps": 7}))
    with pytest.raises(UnmaskError, match="other settings; name another directory"):
        measure(out, other, "cpu")


def test_more_rows_keep_the_networks(made, monkeypatch):
    out, _ = made
    monkeypatch.setattr(figure_1, "train", lambda *a, **k: pytest.fail("trained again"))
    more = quick(**(vars(SETTINGS) | {"rows": 70}))
    assert {r["n"] for r in sampled(out, more, "paper-2gram", "cpu") if r["measure"] == "ser"} == {70, 0}
    assert trained(out, more, "paper-2gram", "ar", "cpu")


def test_the_page(made):
    _, records = made
    contents = figure_1_page.render(records, SETTINGS, {"command": ["unmask", "figure-1", "--quick"]}, 1.0)
    page = contents["index.html"].decode()
    assert not re.search(r"(src|href)=.https?:", page)
    assert json.loads(contents["data.json"])["records"] == json.loads(json.dumps(records))
    first, last = figure_1_page.tables(records, SETTINGS)
    assert [heading for heading, _ in first.rows] == ["2", "8", "AR"]
    assert first.rows[-1][1][0] == ("0.0%", "exact")
    assert len(last.rows) == 2
    assert len(figure_1_page.sentences(records, SETTINGS)) == 3


def test_bad_settings():
    with pytest.raises(UnmaskError, match="at least one language"):
        Settings(languages=())
    with pytest.raises(UnmaskError, match="at least 1"):
        quick(steps=(0,))
    with pytest.raises(UnmaskError, match="rows is 0"):
        quick(rows=0)


def test_the_paper_takes_ten_layers_for_its_4_gram():
    settings = Settings()
    assert settings.shape("paper-4gram", "mdm").layers == 10
    assert settings.shape("paper-3gram", "ar").layers == 8
    assert (settings.size, settings.recipe("mdm").samples) == (512, 1_000_000)
