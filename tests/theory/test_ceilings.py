"""Accuracies of samplers on parallel tasks: by enumeration of the twin, by the sampler itself, and as printed.

Samplers are tested at fixed seeds with a false-alarm rate of 1e-9 a run.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from math import factorial

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from unmask.core.errors import UnmaskError
from unmask.generation import generate
from unmask.languages import Arrangement, load
from unmask.languages.base import Language
from unmask.schedules import deltas
from unmask.tasks.latin import squares
from unmask.tasks.sudoku import ambiguity
from unmask.theory import ceilings
from unmask.theory.known import exact
from unmask.theory.listed import STATEMENTS, Case

ALARM = 1e-9
STEPS = [(1, 1, 1, 1), (2, 2), (3, 1), (1, 3), (4,)]


def reached(language: Language, steps, greedy=False) -> dict[tuple[int, ...], float]:
    """Each sequence with its probability, if the positions of each step are drawn independently, from the left."""
    hidden, after = language.vocabulary, {(language.vocabulary,) * sum(steps): 1.0}
    place = 0
    for step in steps:
        before, after = after, {}
        contexts = torch.tensor(list(before))
        marginals = language.posterior(contexts, torch.arange(place, place + step))
        if greedy:  # random ties
            best = (marginals > marginals.amax(-1, keepdim=True) - 1e-9).double()
            marginals = best / best.sum(-1, keepdim=True)
        alive = language.log_evidence(contexts) > -torch.inf
        for (context, mass), rows, lives in zip(before.items(), marginals.tolist(), alive.tolist(), strict=True):
            for tokens in product(range(hidden), repeat=step) if lives else ():
                chance = np.prod([row[token] for row, token in zip(rows, tokens, strict=True)])
                if chance > 0:
                    new = (*context[:place], *tokens, *context[place + step :])
                    after[new] = after.get(new, 0.0) + mass * chance
        place += step
    return after


@cache
def twin(task: str, size: int, orders: str = "other") -> Language:
    return load(f"twin(task={task!r}, size={size}, orders={orders})")


def accuracy(language: Language, right: Language, steps, greedy=False) -> float:
    """The probability of a right answer; both have the same symbols."""
    made = reached(language, steps, greedy)
    keep = right.supports(torch.tensor(list(made)))
    return sum(mass for mass, kept in zip(made.values(), keep.tolist(), strict=True) if kept)


@pytest.mark.parametrize("orders", ["all", "other"])
@pytest.mark.parametrize("steps", STEPS)
def test_shuffle_by_enumeration(steps, orders):
    for language in (Arrangement(4, orders), twin("shuffle", 4, orders)):
        shuffled = language if orders == "other" else Arrangement(4)
        if language.kind == "twin" and orders == "all":
            order = torch.tensor([language.names.index(name) for name in twin("copy", 4).names])
            assert order.tolist() == list(range(4))  # the given list is the identity
        assert accuracy(language, shuffled, steps) == pytest.approx(ceilings.shuffle(4, steps, orders), rel=1e-12)
    assert accuracy(Arrangement(4, orders), Arrangement(4), (4,), greedy=True) == pytest.approx(
        ceilings.greedy_shuffle(4, orders), rel=1e-12
    )


@pytest.mark.parametrize("steps", STEPS)
def test_replacement_by_enumeration(steps):
    language = twin("replace-random", 4)
    assert accuracy(language, language, steps) == pytest.approx(ceilings.replace_random(4, steps), rel=1e-12)
    greedy = ceilings.greedy_replace_random(4, steps)
    assert accuracy(language, language, steps, greedy=True) == pytest.approx(greedy, abs=1e-12)


@pytest.mark.parametrize("size", [3, 4])
def test_insertion_and_removal_by_enumeration(size):
    inserted, removed = twin("insert-random", size), twin("remove-random", size)
    assert accuracy(inserted, inserted, (size + 1,)) == pytest.approx(ceilings.insert_random(size), rel=1e-12)
    assert accuracy(removed, removed, (size - 1,)) == pytest.approx(ceilings.remove_random(size), rel=1e-12)
    assert accuracy(inserted, inserted, (size + 1,), greedy=True) == 0
    assert accuracy(removed, removed, (size - 1,), greedy=True) == pytest.approx(1)


@pytest.mark.parametrize("task", ["copy", "reverse", "sort", "insert-index", "remove-index", "replace-index"])
def test_one_answer_needs_one_step(task):
    language = twin(task, 5)
    made = generate(language, length=language.answers.shape[1], steps=1, rows=50)
    assert language.supports(made.tokens).all()


@pytest.mark.parametrize(
    ("spec", "steps", "value"),
    [
        ("arrangement(size=6)", 3, ceilings.shuffle(6, (2, 2, 2), "other")),
        ("arrangement(size=6)", 2, ceilings.shuffle(6, (3, 3), "other")),
        ("arrangement(size=6, orders=all)", 3, ceilings.shuffle(6, (2, 2, 2)) / (1 - 1 / factorial(6))),
        ("twin(task='replace-random', size=6)", 3, ceilings.replace_random(6, (2, 2, 2))),
        ("twin(task='replace-random', size=6)", 1, ceilings.replace_random(6)),
        ("twin(task='insert-random', size=5)", 1, ceilings.insert_random(5)),
        ("twin(task='remove-random', size=6)", 1, ceilings.remove_random(6)),
    ],
)
@pytest.mark.parametrize("sampler", ["fixed-size", "left-to-right"])
def test_the_samplers_reach_them(spec, steps, value, sampler):
    language = load(spec)
    (length,) = language.nearest_lengths(1)
    made = generate(language, sampler=sampler, length=length, steps=steps, rows=4000, seed=1)
    assert binomtest(int(language.supports(made.tokens).sum()), 4000, value).pvalue > ALARM


@pytest.mark.parametrize("orders", ["all", "other"])
@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_statement_is_the_exact_ser(orders, schedule):
    for steps in (1, 2, 5):
        delta = deltas(schedule, steps)
        (said,) = STATEMENTS.make("arrangement", Case(Arrangement(4, orders), 4, delta))
        assert said.value == pytest.approx(exact(Arrangement(4, orders), 4, delta).ser, abs=1e-12)
    made = generate(f"arrangement(size=9, orders={orders})", length=9, steps=40, rows=4000, schedule=schedule)
    (said,) = STATEMENTS.make("arrangement", Case(Arrangement(9, orders), 9, deltas(schedule, 40)))
    correct = int(Arrangement(9, orders).supports(made.tokens).sum())
    assert binomtest(correct, 4000, 1 - said.value).pvalue > ALARM
    with pytest.raises(UnmaskError, match="expected an arrangement"):
        STATEMENTS.make("arrangement", Case(load("interval-5"), 9, deltas("linear", 4)))


SIZES = (3, 4, 5, 6)
PRINTED = [
    (ceilings.shuffle, [0.1852, 0.0898, 0.0381, 0.0154], 4),
    (lambda n: ceilings.shuffle(n, orders="other"), [0.2240, 0.0919, 0.0381, 0.0154], 4),
    (lambda n: ceilings.greedy_shuffle(n, "other"), [0.250, 0.111, 0.043, 0.017], 3),
    (ceilings.replace_random, [0.444, 0.422, 0.410, 0.402], 3),
    (ceilings.insert_random, [0.1875, 0.1229, 0.0823, 0.0560], 4),
    (ceilings.remove_random, [0.8889, 0.7500, 0.6144, 0.4938], 4),
    (ceilings.greedy_shuffle, [0.1852, 0.0898, 0.0381, 0.0154], 4),
    (lambda n: ceilings.greedy_shuffle(n, ties="lowest"), [0, 0, 0, 0], 4),
]


@pytest.mark.parametrize(("ceiling", "values", "digits"), PRINTED)
def test_printed_values(ceiling, values, digits):
    assert [round(ceiling(size), digits) for size in SIZES] == values


def test_printed_values_by_step_size():
    steps = [[1] * 6, [2] * 3, [3] * 2, [4, 2], [5, 1], [6]]
    assert [round(ceilings.shuffle(6, sizes), 4) for sizes in steps] == [0.9986, 0.3121, 0.1233, 0.1387, 0.0925, 0.0154]
    replaced = [round(ceilings.replace_random(6, sizes), 3) for sizes in steps]
    assert replaced == [1, 0.734, 0.604, 0.627, 0.804, 0.402]
    with pytest.raises(UnmaskError, match="sizes have the sum 5; expected 6"):
        ceilings.shuffle(6, [2, 3])


def test_squares_and_sudokus():
    every = squares(4)
    cells = np.stack([(every == symbol).mean(0) for symbol in range(4)])
    assert (cells == 1 / 4).all()  # uniform marginals, so one step is right with probability 576 / 4^16
    assert ceilings.latin(4) == pytest.approx(len(every) / 4**16)
    assert ceilings.latin(4) == pytest.approx(1.34e-7, rel=2e-3)
    printed = {4: (0.9985, 0.997), 6: (0.978, 0.956), 8: (0.897, 0.799), 10: (0.691, 0.452)}
    for empty, (expected, unique) in printed.items():
        found = ambiguity(empty)
        assert (round(found[0], 4 if empty == 4 else 3), round(found[1], 3)) == (expected, unique)
