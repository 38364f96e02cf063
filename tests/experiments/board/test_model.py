"""A board of a trained network: its own samples and its own prices."""

from __future__ import annotations

import math

import pytest
import torch

from unmask import UnmaskError, generate, languages, score
from unmask.experiments.board import Settings, board
from unmask.models import trained
from unmask.models.trained import Network, Shape, Trunk

LANGUAGE, LENGTH = languages.load("paper-2gram"), 10
SAMPLERS = ("ancestral", "first-hitting", "autoregressive", "speculative", "examples/samplers/best_order.py:BestOrder")


def saved(directory, kind, seed=3):
    torch.manual_seed(seed)
    trunk = Trunk(Shape(kind, 8, LENGTH, hidden=8, layers=1, heads=1))
    torch.nn.init.normal_(trunk.head.weight, std=0.3)
    about = {"language": LANGUAGE.to_dict(), "label": "my language"}
    trained.save(trunk, directory / kind, account={"origin": {"configuration": about}})
    return str(directory / kind)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models")
    return {kind: saved(directory, kind) for kind in ("mdm", "ar")}


def settings(models, **changes):
    given = {"samplers": SAMPLERS, "lengths": (LENGTH,), "rows": 40, "seeds": 2, "steps": (3,), "ter_share": 1.0}
    return Settings(**(given | {"model": models["mdm"], "causal_model": models["ar"]} | changes))


def test_it_measures_the_network_on_the_language_it_was_trained_on(models):
    made = board(settings(models))
    assert {record["language"] for record in made.records} == {"my language"}
    network = Network(trained.load(models["mdm"]), trained.load(models["ar"]))
    (ser,) = (r for r in made.of("ser") if r["sampler"] == "ancestral")
    wrong = [
        score(generate(network, steps=3, length=LENGTH, rows=40, seed=seed), LANGUAGE).impossible_rows
        for seed in (0, 1)
    ]
    assert ser["value"] == sum(wrong) / 80
    assert {failure.sampler.partition("(")[0] for failure in made.failures} == {SAMPLERS[-1]}


def test_the_price_of_ar_is_that_of_its_own_law(models):
    """KL(q || p) of the AR network on the rows that the board draws."""
    made = board(settings(models, samplers=("autoregressive", "speculative")))
    found = {r["sampler"].partition("(")[0]: r for r in made.of("ter_ratio")}
    ar, truth = trained.load(models["ar"]), torch.cat([LANGUAGE.sample(40, LENGTH, seed=seed) for seed in (0, 1)])
    read = torch.cat([torch.full((80, 1), 8), truth[:, :-1]], 1)
    with torch.no_grad():
        log_p = ar(read).double().log_softmax(-1).gather(2, truth.unsqueeze(2)).sum((1, 2))
    nats = float((LANGUAGE.log_prob(truth) - log_p).mean())
    for name in ("autoregressive", "speculative"):
        assert found[name]["value"] == pytest.approx(math.exp(nats / LENGTH), rel=1e-4)


def test_a_network_that_has_changed_is_measured_again(tmp_path):
    """In the same process and the same store."""
    here = {"mdm": saved(tmp_path, "mdm"), "ar": None}
    few = settings(here, samplers=("ancestral",), rows=20)
    first = board(few, store=tmp_path / "s")
    saved(tmp_path, "mdm", seed=4)
    second = board(few, store=tmp_path / "s")
    assert second.records != first.records
    saved(tmp_path, "mdm", seed=3)
    assert board(few, store=tmp_path / "s").records == first.records


def test_what_it_cannot_be_asked(models):
    with pytest.raises(UnmaskError, match="at most 10 tokens, not for 11"):
        board(settings(models, lengths=(11,)))
    with pytest.raises(UnmaskError, match="is unknown"):
        board(settings(models, model="nowhere"))
