"""The exact denoiser, and networks of its language, as models of tasks."""

from __future__ import annotations

import random
import re

import pytest
import torch
from scipy.stats import binomtest

from unmask.core.errors import UnmaskError
from unmask.languages import load
from unmask.networks import Trunk, save
from unmask.networks.model.shape import Shape
from unmask.tasks import TASKS
from unmask.tasks.exact import PATTERNS, Ideal
from unmask.tasks.fillers import filler, is_ideal
from unmask.tasks.filling import CanvasWriter
from unmask.tasks.letters import UNKNOWN, Letters
from unmask.tasks.lists import REQUESTS, listed
from unmask.tasks.writing import How
from unmask.theory import ceilings

ALARM = 1e-9  # of a run
SMALL = [f"lists(operation={operation!r}, low=3, high=4)" for operation in REQUESTS]
SMALL += ["latin", "sudoku(empty=10, unique=False)"]


def right_answers(model, task, rows, seed=0, **how):
    target = TASKS.make(task)
    items = target.items(None)[:8]
    asked = [items[row % len(items)] for row in range(rows)]
    samples = CanvasWriter(filler(model), target, How(**how), {})(asked, [0] * rows, 0, seed)
    answers = [target.answer(item, sample.text) for item, sample in zip(asked, samples, strict=True)]
    verdicts = [answer is not None and target.right(item, answer) for item, answer in zip(asked, answers, strict=True)]
    return verdicts, samples


@pytest.mark.rotates(4)
@pytest.mark.parametrize("task", SMALL)
@pytest.mark.parametrize("tokens", PATTERNS)
def test_one_token_per_step_is_always_right(task, tokens):
    verdicts, samples = right_answers(f"ideal(tokens={tokens!r})", task, 8, sampler="fixed-size", length=96, steps=96)
    assert all(verdicts)
    assert {sample.model_calls["denoiser"] for sample in samples} == {96}


@pytest.mark.parametrize("task", SMALL)
@pytest.mark.parametrize("tokens", PATTERNS)
def test_tokens_are_the_text_again(task, tokens):
    ideal, target = Ideal(tokens), TASKS.make(task)
    for item in target.items(None)[:3]:
        for solution in target.solutions(item)[:20]:
            assert ideal.join(ideal.cut(solution)) == solution


@pytest.mark.rotates(4)
@pytest.mark.parametrize(
    ("operation", "ceiling"),
    [
        ("shuffle", lambda n: ceilings.shuffle(n, orders="other")),
        ("replace-random", ceilings.replace_random),
        ("insert-random", ceilings.insert_random),
        ("remove-random", ceilings.remove_random),
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
        filler(model)


def test_which_models_fill_canvases():
    assert is_ideal("ideal")
    assert is_ideal("ideal(tokens=names)")
    assert not is_ideal("idealist")
    assert filler("smollm2-135m") is None


@pytest.mark.parametrize(
    ("task", "length", "words"),
    [
        ("lists(operation=shuffle, low=9, high=9)", 64, "not listed"),
        ("lists(operation=copy)", 4, "at most 4"),
        ("gsm8k", 64, "not listed"),
    ],
)
def test_tasks_without_listed_answers_or_room(task, length, words, gsm8k_item):
    target = TASKS.make(task)
    item = gsm8k_item if task == "gsm8k" else target.items(None)[0]
    with pytest.raises(UnmaskError, match=words):
        Ideal().canvas(target, item, length)


@pytest.fixture
def gsm8k_item():
    from unmask.tasks import Item

    return Item("0", None)


def network(directory, operation, size=3, letters=5):
    language = load(f"list-operation(operation={operation!r}, size={size}, letters={letters}, distinct=True)")
    answer = size + {"insert": 1, "remove": -1}.get(language.edit, 0)
    question = size + (language.how == "index") + language.inserts + 1
    torch.manual_seed(0)
    save(Trunk(Shape("mdm", language.vocabulary, question + answer, 16, 1, 2)), directory, account=about(language))
    return Letters(str(directory))


def about(language):
    return {"origin": {"configuration": {"language": language.to_dict(), "label": "lists"}}}


@pytest.mark.parametrize("operation", REQUESTS)
def test_the_exact_denoiser_of_a_networks_language_answers_its_questions(operation, tmp_path):
    """Question and answer are a sequence of the language, and the answer is right: letters keep the order of names."""
    known = network(tmp_path, operation)
    target = TASKS.make(known.task)
    items = target.items(None)[:6]
    exact = Letters(str(tmp_path), exact=True)
    how = How(sampler="left-to-right", length=known.length, steps=known.length)
    samples = CanvasWriter(exact, target, how, {})(items, [0] * 6, 0, 0)
    for item, sample in zip(items, samples, strict=True):
        names = re.findall(r'"([^"]+)"', sample.text)
        assert UNKNOWN not in names
        if operation != "shuffle" or tuple(names) != item.row.names:  # the language shuffles to all orders
            assert target.right(item, target.answer(item, sample.text))
    random_answers = CanvasWriter(known, target, how, {})(items, [0] * 6, 0, 0)
    assert {len(re.findall(r'"([^"]+)"', sample.text)) for sample in random_answers} == {known.length}


def test_a_network_refuses_other_tasks_and_lengths(tmp_path):
    known = network(tmp_path, "shuffle")
    (item, *_), task = TASKS.make(known.task).items(None), TASKS.make(known.task)
    other = TASKS.make("lists(operation=copy, low=3, high=3)")
    with pytest.raises(UnmaskError, match="has not learned this task"):
        known.canvas(other, other.items(None)[0], 3)
    with pytest.raises(UnmaskError, match="has 3 tokens"):
        known.canvas(task, item, 4)
    assert known.canvas(task, item, 3).text([0, 1, 7])[-5:] == f', "{UNKNOWN}"]'[-5:]


def test_a_network_of_another_language_is_refused(tmp_path):
    language = load("paper-2gram")
    torch.manual_seed(0)
    save(Trunk(Shape("mdm", language.vocabulary, 8, 16, 1, 2)), tmp_path, account=about(language))
    with pytest.raises(UnmaskError, match="expected a list-operation"):
        _ = Letters(str(tmp_path)).task


def test_lists_of_random_texts_are_cut_without_loss():
    rng = random.Random(0)
    for _ in range(200):
        text = listed(["".join(chr(rng.randrange(32, 0x250)) for _ in range(rng.randrange(6))) for _ in range(3)])
        assert all("".join(Ideal(tokens).cut(text)) == text for tokens in PATTERNS)
