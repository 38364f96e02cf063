"""Training reaches the language, and whatever stops it leaves a state from which it ends as if nothing had been."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import msgspec
import pytest
import torch
from safetensors.torch import load_file

from tests.models.trained.small import trunk
from tests.models.trained.test_objectives import nelbo_of_orders
from unmask import UnmaskError, languages
from unmask.core.errors import UnmaskError as Error
from unmask.languages import random_ngram
from unmask.models import trained
from unmask.models.trained import Shape, checkpoints, loop
from unmask.models.trained.loop import Conditions, resume, train
from unmask.models.trained.objectives import Objective
from unmask.models.trained.recipe import Learner, Recipe, recipe
from unmask.models.trained.validation import Judge

LANGUAGE = random_ngram(2, 4, temperature=2.0, seed=1)
TINY = {"hidden": 16, "layers": 1, "heads": 2}
BRIEF = Recipe(steps=20, batch=8, rate=3e-3, average=0.9, seed=4)
OFTEN = Conditions(save_seconds=0.0)


def shape(kind="mdm", length=8, **changes):
    return Shape(kind, 4, length, **(TINY | changes))


def everything(directory):
    """All that training has made, but for the clock."""
    facts, tensors = checkpoints.read_state(directory)[1:]
    journal = [entry | {"seconds": 0.0} for entry in facts.journal]
    facts = msgspec.structs.asdict(msgspec.structs.replace(facts, seconds=0.0, journal=journal))
    used = load_file(directory / checkpoints.WEIGHTS)
    return tensors | {f"used/{name}": tensor for name, tensor in used.items()}, facts


def assert_same(one, other):
    (tensors, facts), (others, their_facts) = everything(one), everything(other)
    assert facts == their_facts
    assert tensors.keys() == others.keys()
    assert all(tensor.equal(others[name]) for name, tensor in tensors.items())


@pytest.mark.long
@pytest.mark.parametrize(("kind", "steps", "percent"), [("mdm", 400, 2.5), ("ar", 100, 0.5)])
def test_it_reaches_the_language(tmp_path, kind, steps, percent):
    """A step to the next symbol with probability 0.6: 1.1 nats a token, 25% below what an untrained network has."""
    step = [[0.1, 0.6, 0.2, 0.1][(to - now) % 4] for now in range(4) for to in range(4)]
    language = languages.NGram(2, [0.25] * 4, [step[4 * now : 4 * now + 4] for now in range(4)])
    made = Recipe(steps=steps, batch=64, rate=1e-2, warm_up=0.2, average=0.97)
    found = train(language, shape(kind, length=6, hidden=32, layers=2, heads=4), made, tmp_path / "out")
    assert found.validation.excess_percent.high < percent
    assert found.validation.entropy == pytest.approx(language.entropy(6).value / 6)
    assert found.validation.loss.low > found.validation.entropy - 1e-6
    first = json.loads((tmp_path / "out" / "training.json").read_text())["journal"][0]
    assert first["excess_percent"] > 2 * percent


CASES = {
    "mdm": (shape(), BRIEF),
    "ar": (shape("ar"), BRIEF),
    "told the time": (shape(time_free=False), BRIEF),
    "one of them is for validation": (shape(), replace(BRIEF, samples=50)),
    "muon": (shape(), replace(BRIEF, optimiser="muon", weight_decay=0.1)),
    "posterior, muon": (shape(time_free=False), replace(BRIEF, targets="posterior", optimiser="muon", spread=0.8)),
    "posterior, ar": (shape("ar"), replace(BRIEF, targets="posterior")),
    "uniform noise": (shape(time_free=False, noise="uniform"), replace(BRIEF, targets="posterior", optimiser="muon")),
    "memory": (shape(neighbours=2), replace(BRIEF, targets="posterior", optimiser="muon")),
    "memory, ar": (shape("ar", neighbours=2), BRIEF),
    "chain": (shape(neighbours=2, states=2), replace(BRIEF, targets="posterior", optimiser="muon")),
    "chain, uniform noise": (shape(time_free=False, noise="uniform", neighbours=1, states=2), BRIEF),
    "memory, uniform noise": (shape(time_free=False, noise="uniform", neighbours=1), BRIEF),
    "no average": (shape(), replace(BRIEF, average=0.0, weight_decay=0.1)),
}


LONG = ("told the time", "one of them is for validation", "posterior, ar", "no average")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.long if case in LONG else ()) for case in CASES])
def test_interrupted_and_resumed_is_undisturbed(tmp_path, capsys, case):
    size, made = CASES[case]
    train(LANGUAGE, size, made, tmp_path / "undisturbed")

    def interrupt(line):
        if line.startswith("step 12,"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(LANGUAGE, size, made, tmp_path / "out", conditions=replace(OFTEN, say=interrupt))
    said = capsys.readouterr().err
    assert "the checkpoint of step 11 is in" in said
    assert f"--resume --out {tmp_path / 'out'}" in said
    found = resume(tmp_path / "out")
    assert found.steps == 20
    assert_same(tmp_path / "undisturbed", tmp_path / "out")


@pytest.mark.long
def test_killed_at_any_moment(tmp_path):
    """kill -9 while checkpoints are written one after another."""
    made = replace(BRIEF, steps=300)
    train(LANGUAGE, shape(), made, tmp_path / "undisturbed")
    program = f"""
import torch; torch.set_num_threads(1)
from unmask.models.trained import Shape
from unmask.models.trained.recipe import Recipe
from unmask.models.trained.loop import Conditions
from unmask.models.trained.loop import train
from unmask.languages import random_ngram
train(random_ngram(2, 4, temperature=2.0, seed=1), {shape()!r}, {made!r}, {str(tmp_path / "out")!r},
      conditions=Conditions(save_seconds=0.0))
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.DEVNULL)
    state, until = tmp_path / "out" / checkpoints.STATE, time.monotonic() + 300
    while not (state.exists() and checkpoints.facts(state.parent).step >= 5):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 5 <= checkpoints.facts(state.parent).step < 300
    resume(tmp_path / "out")
    assert_same(tmp_path / "undisturbed", tmp_path / "out")


def test_resuming_what_is_complete_changes_nothing(tmp_path):
    found = train(LANGUAGE, shape(), BRIEF, tmp_path)
    before = everything(tmp_path)
    again = resume(tmp_path)
    assert again.validation == found.validation
    assert everything(tmp_path)[1] == before[1]


def test_resuming_what_was_killed_after_its_last_state_writes_the_network(tmp_path):
    train(LANGUAGE, shape(), BRIEF, tmp_path)
    kept = (tmp_path / checkpoints.WEIGHTS).read_bytes()
    (tmp_path / checkpoints.WEIGHTS).write_bytes(b"of an earlier step")
    resume(tmp_path)
    assert (tmp_path / checkpoints.WEIGHTS).read_bytes() == kept


def nonsense(at, what):
    """`Training._nats`, spoilt from a call on."""
    calls = []

    def nats(*arguments):
        calls.append(1)
        found = masked(*arguments)
        return found * what if len(calls) > at else found

    masked = loop.Training._nats
    return nats


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", [math.nan, math.inf, 1e3])
def test_divergence_keeps_the_last_good_checkpoint(tmp_path, monkeypatch, what):
    monkeypatch.setattr(loop.Training, "_nats", nonsense(7, what))
    with pytest.raises(UnmaskError, match=r"diverged: at step 8 .* checkpoint of step 7\. .* rate below 0.003"):
        train(LANGUAGE, shape(), BRIEF, tmp_path / "out", conditions=OFTEN)
    monkeypatch.undo()
    with pytest.raises(KeyboardInterrupt):
        train(LANGUAGE, shape(), replace(BRIEF), tmp_path / "good", conditions=replace(OFTEN, say=stop_at(8)))
    assert_same_weights(tmp_path / "out", tmp_path / "good")
    assert bool(trained.load(tmp_path / "out", "cpu").head.weight.isfinite().all())


def stop_at(step):
    def say(line):
        if line.startswith(f"step {step},"):
            raise KeyboardInterrupt

    return say


def assert_same_weights(one, other):
    ours, theirs = everything(one)[0], everything(other)[0]
    assert all(tensor.equal(theirs[name]) for name, tensor in ours.items())


def test_a_gradient_that_is_not_finite_is_not_saved(tmp_path, monkeypatch):
    """The loss of its step is good; the weights after it are not."""

    def update(self, step):
        return torch.tensor(math.nan) if step == 7 else clean(self, step)

    clean = Learner.update
    monkeypatch.setattr(Learner, "update", update)
    with pytest.raises(UnmaskError, match="holds the checkpoint of step 7"):
        train(LANGUAGE, shape(), BRIEF, tmp_path, conditions=OFTEN)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["mdm", "ar"])
def test_parts_of_a_batch_add_up(tmp_path, kind):
    for parts in (1, 3, 8):
        train(LANGUAGE, shape(kind), BRIEF, tmp_path / str(parts), conditions=Conditions(accumulate=parts))
    whole = everything(tmp_path / "1")[0]
    for parts in (3, 8):
        for name, tensor in everything(tmp_path / str(parts))[0].items():
            torch.testing.assert_close(tensor, whole[name], atol=1e-5, rtol=1e-4)


def test_half_precision_learns_nearly_the_same(tmp_path):
    """Weights stay in float32; what is computed with them is rounded."""
    found = {}
    for precision in ("float32", "bfloat16"):
        conditions = Conditions(device="cpu", precision=precision)
        train(LANGUAGE, shape(), BRIEF, tmp_path / precision, conditions=conditions)
        found[precision] = everything(tmp_path / precision)
    (exact, facts), (rounded, others) = found.values()
    assert all(tensor.dtype == torch.float32 for tensor in rounded.values())
    assert not rounded["weights/head.weight"].equal(exact["weights/head.weight"])
    assert others["loss"] == pytest.approx(facts["loss"], rel=0.02)


def test_what_is_kept_says_where_it_came_from(tmp_path):
    recipe = replace(BRIEF, samples=90, spread=0.5, run=2)
    train(LANGUAGE, shape(), recipe, tmp_path, label="my language")
    account = json.loads((tmp_path / "training.json").read_text())
    assert account["step"] == 20
    assert len(account["journal"]) == 10
    assert account["entropy"] == pytest.approx(LANGUAGE.entropy(8).value / 8)
    origin = account["origin"]["configuration"]
    assert languages.from_dict(origin["language"]).to_dict() == LANGUAGE.to_dict()
    assert (Recipe.from_dict(origin["recipe"]), Shape.from_dict(origin["shape"])) == (recipe, shape())
    assert origin["label"] == "my language"
    with (tmp_path / "losses.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{name: float(value) for name, value in row.items()} for row in rows] == account["journal"]


def test_mistakes_are_told(tmp_path):
    with pytest.raises(Error, match="for 5 symbols, not for 4"):
        train(LANGUAGE, Shape("mdm", 5, 8, **TINY), BRIEF, tmp_path)
    with pytest.raises(Error, match="accumulate is 9; expected 1 to 8"):
        train(LANGUAGE, shape(), BRIEF, tmp_path, conditions=Conditions(accumulate=9))
    with pytest.raises(Error, match=r"unknown precision .*did you mean bfloat16 or float32"):
        train(LANGUAGE, shape(), BRIEF, tmp_path, conditions=Conditions(precision="float16"))
    with pytest.raises(Error, match="nothing to resume"):
        resume(tmp_path)


def test_recipes_of_presets():
    assert recipe("quick", "mdm", steps=7).steps == 7
    paper = recipe("paper", "mdm")
    assert paper.steps * paper.batch == pytest.approx(20 * 990_000, rel=1e-4)
    assert recipe("paper", "ar", batch=256).steps == pytest.approx(2 * paper.steps, abs=1)
    with pytest.raises(Error, match="did you mean quick"):
        recipe("quik", "mdm")
    with pytest.raises(Error, match="unknown entry of a recipe 'stepz'"):
        Recipe.from_dict({"stepz": 3})


def test_the_rate_rises_and_falls():
    made = Recipe(steps=100, batch=1, rate=2.0)
    rates = [made.rate_at(step) for step in range(100)]
    assert rates[:10] == pytest.approx([0.2 * (step + 1) for step in range(10)])
    assert rates[9] == max(rates) == 2.0
    assert rates[54] == pytest.approx(1.0, abs=0.03)
    assert 0 < rates[-1] < 0.001
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_the_average_is_one():
    """w_avg <- d w_avg + (1 - d) w, by hand; d grows, so that the untrained weights are soon forgotten."""
    made = replace(BRIEF, average=0.3)
    learner = Learner(shape(), made, torch.device("cpu"))
    by_hand = learner.average.embed.weight.double()
    for step in range(5):
        for weight in learner.weights.values():
            weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(step))
        learner.update(step)
        keep = min(0.3, (1 + step) / (10 + step))
        by_hand = keep * by_hand + (1 - keep) * learner.trunk.embed.weight.detach().double()
    torch.testing.assert_close(learner.average.embed.weight.double(), by_hand, atol=1e-6, rtol=0)


def test_validation_is_the_exact_nelbo():
    """Of a network that has learned nothing, by enumeration over x and all orders; |z| < 5.1."""
    language, made = random_ngram(2, 3, temperature=2.0, seed=2), trunk(spread=0.2)
    judge = Judge(language, language.sample(4000, 4, seed=9), 3, Objective(made.shape))
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    q = language.log_prob(every).exp()
    exact = float(q @ torch.from_numpy(nelbo_of_orders(made))) / 4
    found = judge(made).loss
    assert abs(found.value - exact) < 5.1 * found.standard_error
    ideal = judge._ideal / 4
    assert abs(float(ideal.mean()) - judge.entropy) < 5.1 * float(ideal.std()) / 4000**0.5


def test_validation_of_a_variable_length():
    """Nats of the whole canvas over the tokens up to and including the first end."""
    language = languages.from_dict({"kind": "brackets", "stop": 0.2})
    tokens = language.sample(3000, 12, seed=9)
    judge = Judge(language, tokens, 3, Objective(Shape("ar", language.vocabulary, 12)))
    size = float(language.sizes(tokens).double().mean())
    assert judge.padding == pytest.approx(12 / size)
    assert judge.entropy == pytest.approx(language.entropy(12).value / size)
    uniform = trained.Trunk(Shape("ar", language.vocabulary, 12, **TINY))
    found = judge(uniform).loss
    assert abs(found.value - 12 * math.log(language.vocabulary) / size) < 5.1 * found.standard_error
