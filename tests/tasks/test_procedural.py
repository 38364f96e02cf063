"""Generated tasks: every listed answer is right and no other, on sizes where all answers can be tried."""

from __future__ import annotations

import re
from itertools import product

import pytest

from unmask import languages
from unmask.core.errors import UnmaskError
from unmask.tasks import TASKS, Item
from unmask.tasks.contract import Line
from unmask.tasks.sums import Row as Chain

MADE = (
    *(f"sums(terms=3, steps={steps})" for steps in ("before", "after", "none")),
    "infill",
    "infill(language=modular-sum, size=11, span=5)",
)
ITEMS = 10


def few(name, count=ITEMS):
    """The task with few items, and these items."""
    task = TASKS.make(f"{name[:-1]}, many={count})" if name.endswith(")") else f"{name}(many={count})")
    return task, task.items(None)


def graded(task, item, text):
    """The verdict on a text, and its values."""
    answer = task.answer(item, text)
    return answer is not None and task.right(item, answer), task.values(item, answer, text)


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
            right, values = graded(task, item, f" {text}\n")
            assert right
            assert values["strict"] == 1
            assert task.written(task.answer(item, text)) == text
        right, values = graded(task, item, f"\n{solutions[-1]} .")
        assert right
        assert values["strict"] == 0
        for other in items:  # its answers are wrong here, unless they are listed
            for text in task.solutions(other)[:1]:
                if isinstance(task, Line) and getattr(task, "steps", None) is None:
                    assert graded(task, item, text)[0] == (text in solutions)


@pytest.mark.parametrize("name", MADE)
def test_prompts_have_five_wordings_and_end_where_the_answer_begins(name):
    prompts = set()
    for template in range(5):
        options = f"template={template}, many=1"
        task = TASKS.make(f"{name[:-1]}, {options})" if name.endswith(")") else f"{name}({options})")
        (item,) = task.items(None)
        prompts.add(task.prompt(item))
        shots = [f"{solution}\n" for row in task.examples() for solution in task.solutions(Item("", row))[:1]]
        assert all(shot in task.prompt(item) for shot in shots)
        assert "{" not in task.prompt(item) or "infill" in name
        assert not task.prompt(item).endswith((" ", "\n"))
    assert len(prompts) == 5
    with pytest.raises(UnmaskError, match="template is 5; expected 0 to 4"):
        TASKS.make(f"{name.partition('(')[0]}(template=5)")


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
        right, values = graded(task, item, text)
        assert not right or name.startswith("sums")
        assert values["strict"] == 0
        assert all(0 <= value <= len(text) + 1 for value in values.values())


# Answers with steps


@pytest.mark.parametrize(
    ("steps", "text", "right", "every", "strict"),
    [
        ("after", "6 because 3+3=6", 1, 1, 1),
        ("after", "6 because 4+3=6", 1, 0, 1),
        ("after", "7 because 3+3=6", 0, 1, 0),
        ("after", "6", 1, 0, 0),
        ("after", "6 because", 1, 0, 0),
        ("after", "٣ because ٣", 0, 0, 0),
        ("before", "3+3=٣", 0, 0, 0),
        ("none", "6", 1, None, 1),
        ("none", "3+3=6", 1, None, 1),
    ],
)
def test_the_result_of_sums_can_come_first(steps, text, right, every, strict):
    verdict, values = graded(TASKS.make(f"sums(terms=3, steps={steps})"), Item("0", Chain("1+2+3", "3+3=6")), text)
    assert (verdict, values.get("every_step"), values["strict"]) == (right, every, strict)


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
        assert graded(task, item, " ".join(sequence))[0]


def test_the_shown_signs_must_stay():
    task, (item,) = few("infill(size=4, span=2)", 1)
    item = Item("0", item.row._replace(sequence="()()", start=1))
    assert task.solutions(item) == ["()()", "(())", "([])"]
    assert graded(task, item, "Full: ( [ ] )!")[0]
    assert not graded(task, item, "[][]")[0]
    assert not graded(task, item, "()()()")[0]
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
