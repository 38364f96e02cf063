"""Generated tasks: every listed answer is right and no other, on sizes where all answers can be tried."""

from __future__ import annotations

import re
from itertools import product

import pytest

from unmask import languages
from unmask.core.errors import UnmaskError
from unmask.tasks import TASKS, Item
from unmask.tasks.contract import Line

MADE = (
    "sums(terms=3)",
    "infill",
    "infill(language=modular-sum, size=11, span=5)",
)
ITEMS = 10


def few(name, count=ITEMS):
    """The task with few items, and these items."""
    task = TASKS.make(f"{name[:-1]}, many={count})" if name.endswith(")") else f"{name}(many={count})")
    return task, task.items(None)


def graded(task, item, text):
    """The verdict on a text."""
    answer = task.answer(item, text)
    return answer is not None and task.right(item, answer)


@pytest.mark.parametrize("name", MADE)
def test_every_listed_answer_is_right_and_in_the_requested_format(name):
    task, items = few(name)
    assert [item.row for item in items] == [item.row for item in few(name)[1]]
    assert len({repr(item.row) for item in items}) > ITEMS // 2
    assert not {repr(item.row) for item in items} & {repr(row) for row in task.examples()}
    for item in items:
        solutions = task.solutions(item)
        assert len(set(solutions)) == len(solutions) > 0
        for text in solutions:
            assert graded(task, item, f" {text}\n")
        assert graded(task, item, f"\n{solutions[-1]} .")
        for other in items:  # its answers are wrong here, unless they are listed
            for text in task.solutions(other)[:1]:
                if isinstance(task, Line):
                    assert graded(task, item, text) == (text in solutions)


HOSTILE = (
    "",
    " \n ",
    "٣ ² ½",
    "1" * 5000,
    "-" * 5000,
    "9 because",
    "so",
    " so 1",
    "0x1",
    "((((",
    "_" * 12,
    "1;" * 2000,
)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("name", MADE)
def test_no_text_breaks_the_check(name):
    task, (item, *_) = few(name, 1)
    for text in (*HOSTILE, *(sign * 10**5 for sign in ("1+", "1-", "1, ", "red ", "bado-12 ", "(", "a\n", "1,"))):
        assert not graded(task, item, text) or name.startswith("sums")
        assert task.values(item, task.answer(item, text), text).get("every_step", 0) == 0


# Infilling


@pytest.mark.parametrize(
    ("language", "size", "span"),
    [
        ("brackets(kinds=2, depth=3)", 8, 4),
        ("modular-sum(modulus=3)", 11, 4),
    ],
)
def test_gaps_are_filled_by_all_possible_sequences(language, size, span):
    """All fillings are tried one by one."""
    task, items = few(f"infill(language='{language}', size={size}, span={span})", 4)
    source = languages.load(language)
    for item in items:
        sequence, start = item.row
        texts = [
            sequence[:start] + "".join(filling) + sequence[start + span :]
            for filling in product(source.names, repeat=span)
        ]
        possible = source.supports(source.encode(texts)).tolist()
        assert sorted(task.solutions(item)) == sorted(text for text, can in zip(texts, possible, strict=True) if can)
        for text, can in list(zip(texts, possible, strict=True))[::7]:
            assert task.right(item, text) == can
        assert task.solutions(item)[0] == sequence
        assert graded(task, item, " ".join(sequence))


def test_the_shown_signs_must_stay():
    task, (item,) = few("infill(size=4, span=2)", 1)
    item = Item("0", item.row._replace(sequence="()()", start=1))
    assert task.solutions(item) == ["()()", "(())", "([])"]
    assert graded(task, item, "Full: ( [ ] )!")
    assert not graded(task, item, "[][]")
    assert not graded(task, item, "()()()")
    assert (
        TASKS.make("infill(size=40, span=40)").solutions(
            item._replace(row=item.row._replace(sequence="()" * 20, start=0))
        )
        is None
    )


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ("infill(language='paper-2gram')", "no sign for each token"),
        ("infill(language='brackets(stop=0.1)')", "has sequences of several lengths"),
        ("infill(size=13)", "13"),
        ("infill(span=13)", "span is 13; expected 1 to 12, the size at most"),
    ],
)
def test_options_that_do_not_fit_are_refused(specification, message):
    with pytest.raises(UnmaskError, match=re.escape(message)):
        TASKS.make(specification)
