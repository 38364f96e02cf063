"""The exact denoiser as a model of tasks."""

from __future__ import annotations

import random
from math import comb, factorial

import pytest
from scipy.stats import binomtest

from tests.tasks import asked as asked  # registers its tasks
from unmask.core.errors import UnmaskError
from unmask.tasks import TASKS
from unmask.tasks.exact import PATTERNS, CanvasWriter, Ideal, ideal, is_ideal, solved
from unmask.tasks.lists import REQUESTS, listed
from unmask.tasks.writing import How

ALARM = 1e-9  # of a run
SMALL = [f"lists(operation={operation!r}, low=3, high=4)" for operation in REQUESTS]
SMALL += ["latin", "sudoku(empty=10, unique=False)"]


def right_answers(model, task, rows, seed=0, **how):
    target = TASKS.make(task)
    items = target.items(None)[:8]
    asked = [items[row % len(items)] for row in range(rows)]
    samples = CanvasWriter(ideal(model), target, How(**how), {})(asked, [0] * rows, 0, seed)
    answers = [target.answer(item, sample.text) for item, sample in zip(asked, samples, strict=True)]
    verdicts = [answer is not None and target.right(item, answer) for item, answer in zip(asked, answers, strict=True)]
    return verdicts, samples


@pytest.mark.sampled(29)
@pytest.mark.parametrize("task", SMALL)
@pytest.mark.parametrize("tokens", PATTERNS)
def test_one_token_per_step_is_always_right(task, tokens):
    verdicts, samples = right_answers(f"ideal(tokens={tokens!r})", task, 8, sampler="fixed-size", length=96, steps=96)
    assert all(verdicts)
    assert {sample.model_calls["denoiser"] for sample in samples} == {96}


@pytest.mark.parametrize("task", SMALL)
@pytest.mark.parametrize("tokens", PATTERNS)
def test_tokens_are_the_text_again(task, tokens):
    exact, target = Ideal(tokens), TASKS.make(task)
    for item in target.items(None)[:3]:
        for solution in target.solutions(item)[:20]:
            assert exact.join(exact.cut(solution)) == solution


def shuffled(n):
    """P(another order than the given one, in one step): each position keeps its name with a, has another one with c.

    Of n positions f keep their names, and the others take these of each other in one of D derangements.
    """
    a, c = (factorial(n - 1) - 1) / (factorial(n) - 1), factorial(n - 1) / (factorial(n) - 1)
    displaced = [sum((-1) ** i * factorial(m) // factorial(i) for i in range(m + 1)) for m in range(n + 1)]
    return sum(comb(n, f) * displaced[n - f] * a**f * c ** (n - f) for f in range(n))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("operation", "ceiling"),
    [
        ("shuffle", shuffled),
        ("replace-random", lambda n: (1 - 1 / n) ** (n - 1)),
        ("insert-random", lambda n: factorial(n) * 2**n / (n + 1) ** (n + 1)),
        ("remove-random", lambda n: factorial(n - 1) * 2 ** (n - 1) / n ** (n - 1)),
        ("copy", lambda n: 1.0),
    ],
)
def test_one_model_call_reaches_the_ceiling_in_closed_form(operation, ceiling):
    """A quoted name is one token, so the canvas has no other uncertain ones."""
    task = f"lists(operation={operation!r}, low=4, high=4)"
    verdicts, _ = right_answers("ideal(tokens=names)", task, 4000, sampler="fixed-size", length=16, steps=1)
    if operation == "copy":
        assert all(verdicts)
    else:
        assert binomtest(sum(verdicts), len(verdicts), ceiling(4)).pvalue > ALARM / 4


def test_how_names_are_cut_decides_what_two_tokens_per_step_cost():
    """From the left, a step has one word and one sign; by confidence, it often has the first words of two names."""
    task, how = "lists(operation=shuffle, low=5, high=5)", {"length": 32, "steps": 16}
    left, _ = right_answers("ideal", task, 200, sampler="left-to-right", **how)
    sure, _ = right_answers("ideal", task, 200, sampler="low-confidence", **how)
    names, _ = right_answers("ideal(tokens=names)", task, 200, sampler="low-confidence", **how)
    assert all(left)
    assert sum(sure) < 120
    assert sum(names) < 200


@pytest.mark.long
@pytest.mark.parametrize(
    ("task", "low", "high"),
    [("lists(operation=shuffle, many=64)", 0.0, 0.1), ("lists(many=64)", 1.0, 1.0)],
)
def test_a_task_separates_samplers_where_several_answers_are_right(task, low, high):
    """Accuracy in one step, with one token per character; one token per step is always right."""
    at_once, _ = right_answers("ideal(tokens=characters)", task, 64, sampler="fixed-size", length=200, steps=1)
    one_each, _ = right_answers("ideal(tokens=characters)", task, 8, sampler="fixed-size", length=200, steps=200)
    assert low <= sum(at_once) / 64 <= high
    assert all(one_each)


def test_a_sample_depends_only_on_its_row():
    task, how = "lists(operation=shuffle)", {"sampler": "fixed-size", "length": 32, "steps": 8}
    target = TASKS.make(task)
    items = target.items(None)[:12]
    whole = CanvasWriter(Ideal(), target, How(**how), {})(items, [0] * 12, 0, 3)
    part = CanvasWriter(Ideal(), target, How(**how), {})(items[5:9], [0] * 4, 5, 3)
    assert [sample.text for sample in part] == [sample.text for sample in whole[5:9]]


def test_a_wrong_context_is_never_read_as_right():
    verdicts, samples = right_answers("ideal", "latin", 64, sampler="fixed-size", length=64, steps=1)
    assert sum(verdicts) == 0
    assert all(sample.text for sample in samples)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("ideal(tokens=words, of='x')", "wrong options"),
        ("ideal(words=3)", "wrong options"),
        ("ideal(tokens=3)", "tokens is 3"),
    ],
)
def test_wrong_names(model, words):
    with pytest.raises(UnmaskError, match=words):
        ideal(model)


def test_which_models_are_exact():
    assert is_ideal("ideal")
    assert is_ideal("ideal(tokens=names)")
    assert not is_ideal("idealist")
    assert ideal("smollm2-135m") is None


@pytest.mark.parametrize(
    ("task", "length", "words"),
    [
        ("lists(operation=shuffle, low=9, high=9)", 64, "not listed"),
        ("lists(operation=copy)", 4, "at most 4"),
        ("blank", 64, "not listed"),
    ],
)
def test_tasks_without_listed_answers_or_room(task, length, words):
    target = TASKS.make(task)
    item = target.items(None)[0]
    with pytest.raises(UnmaskError, match=words):
        solved(Ideal(), target, item, length)


def test_lists_of_random_texts_are_cut_without_loss():
    rng = random.Random(0)
    for _ in range(200):
        text = listed(["".join(chr(rng.randrange(32, 0x250)) for _ in range(rng.randrange(6))) for _ in range(3)])
        assert all("".join(Ideal(tokens).cut(text)) == text for tokens in PATTERNS)
