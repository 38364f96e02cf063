"""unmask eval, task and advise from the command line, with small random models of every family."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.cli.test_families import EVERY, FAMILIES
from tests.tasks import asked as asked  # registers its tasks
from tests.tasks.evaluation.models import causal, kept, masked

EVAL = ("eval", "--engine", "here", "--json", "--model", "m", "--card", "m.json", "--length", 6)
QUICK = (
    "sudoku(shots=0)",
    *(f"lists(operation={o}, shots=0)" for o in ("copy", "shuffle")),
    "sums",
)


@pytest.fixture
def model(run):
    masked(Path("m"))
    return run


@pytest.mark.sampled(4)
@pytest.mark.parametrize("family", EVERY)
def test_every_family_writes_answers(run, family):
    place = Path("m")
    place.mkdir()
    card = FAMILIES[family](place)
    kept(place, msgspec.structs.replace(card, template=None))
    Path("p.jsonl").write_text(
        "\n".join(json.dumps({"question": text, "answer": "#### 1"}) for text in ("ab", "", "c" * 99))
    )
    options = ("--task", "asked", "--data", "p.jsonl", "--batch", 2, "--steps", 3)
    ran = run(*EVAL, *options)
    if family in ("mdlm", "bd3lm"):  # with so small a context that no prompt fits
        assert ran.code == 2
        assert "3 of the first 3 prompts too long for the context" in ran.err
        return
    assert ran.code == 0, ran.err
    (found,) = ran.result["settings"]
    assert found["samples"] == 3
    assert found["settings"]["model"] == card.name
    assert found["not_measured"].startswith("1 of 3 prompts too long for the context (")
    assert "prompt too long" not in found["wrong_because"]
    assert (found["items"], found["accuracy"]["n"]) == (2, 2)
    shown = run("eval", "show", "eval")
    assert "1 of 3 prompts too long for the context" in " ".join(shown.out.split())
    assert "not in the accuracy" in shown.out


@pytest.mark.sampled(4)
@pytest.mark.parametrize("task", QUICK)
def test_every_task_that_is_made(model, task):
    ran = model(*EVAL, "--task", task, "--limit", 3, "--steps", 2, "--chat" if "copy" in task else "--no-until")
    assert ran.code == 0, ran.err
    assert ran.result["settings"][0]["accuracy"]["n"] == 3


def test_sums_with_an_ar_model_beside_it_and_what_is_said_of_both(model):
    causal(Path("a"))
    lines = ({"question": f"What is {n}+1?", "answer": f"#### {n + 1}"} for n in range(6))
    Path("p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    options = ("--causal-model", "a", "--causal-card", "a.json", "--task", "asked", "--data", "p.jsonl")
    ran = model(*EVAL, *options, "--steps", 2, 6, "--out", "o")
    assert ran.code == 0, ran.err
    named = [found["label"] for found in ran.result["settings"]]
    assert named[0].endswith("steps=2")
    assert named[2] == "small-reader, autoregressive"
    assert ran.result["settings"][0]["against_ar"]["verdict"] == "not distinguishable"
    ran = model("eval", "show", "o", "--wrong")
    assert "asked" in ran.out
    assert "no answer in the text: 6" in ran.out
    ran = model("eval", "compare", "o", "o", "--first-is", "steps=2", "--second-is", "model=small-reader")
    assert "are not distinguishable in 6 items" in ran.out
    ran = model("eval", "compare", "o", "o", "--first-is", "steps=3")
    assert "expected one of: small-llada, llada(block_length=6), steps=2" in ran.err
    ran = model("plan", "--results", "o", "--target", "70%")
    assert "more items would decide" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "unmask eval run needs --task TASK"),
        (("--task", "gsm9k"), "unknown task 'gsm9k'"),
        (("--task", "lists(operation=turn)"), "unknown operation 'turn'"),
        (("--task", "sudoku", "--eos", "never", "gone"), "unknown eos 'gone'"),
        (("--task", "sudoku", "--limit", 0), "limit is 0"),
        (("--task", "sudoku", "--data", "p.jsonl"), "generates its items and reads no file"),
        (("--task", "asked", "--data", "none.jsonl"), "cannot read"),
        (("--task", "sudoku", "--system", "x"), "--system needs a conversation. Add --chat"),
        (("--task", "sudoku", "--sampler", "ladda"), "unknown sampler 'ladda'"),
    ],
)
def test_what_is_refused_before_anything_is_written(model, words, said):
    ran = model(*EVAL, *words)
    assert ran.code == 2
    assert said in ran.err
    assert not Path("eval").exists() or not list(Path("eval").rglob("*.jsonl"))


def test_tasks_are_listed_and_shown(run):
    ran = run("show", "task", "--json")
    assert ran.result.keys() - {"asked", "blank"} == {"latin", "lists", "sudoku", "sums"}
    ran = run("show", "task", "sudoku(shots=1)")
    assert "Fill the 4x4 sudoku" in ran.out
