"""Generated tasks: every listed answer is right and no other, on sizes where all answers can be tried."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise, permutations, product
from statistics import median_low

import pytest
import torch

from unmask import languages
from unmask.core.errors import UnmaskError
from unmask.tasks import TASKS, Item
from unmask.tasks.carries import Row as Sum
from unmask.tasks.lines import Line
from unmask.tasks.paths import Row as Route
from unmask.tasks.sums import Row as Chain
from unmask.tasks.twin import twin
from unmask.tasks.zebra import solve

MADE = (
    "carries",
    "carries(digits=1, chain=0)",
    "paths",
    "star(arms=4, depth=2)",
    "zebra",
    "zebra(houses=4, attributes=3)",
    *(
        f"{task}steps={steps})"
        for task in ("listops(", "parity(", "sums(terms=3, ")
        for steps in ("before", "after", "none")
    ),
    "needles",
    "infill",
    "infill(language=modular-sum, size=11, span=5)",
    "infill(language='list-operation(operation=sort)', size=9)",
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
    assert not {repr(item.row) for item in items} & {repr(row) for row in task.examples()} or name in (
        "carries(digits=1, chain=0)",
        "parity",
    )
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
        assert not right or name.startswith(("parity", "listops", "sums", "carries(digits=1"))
        assert values["strict"] == 0
        assert all(0 <= value <= len(text) + 1 for value in values.values())


# Carries


@pytest.mark.parametrize(("digits", "chain"), [(1, 0), (3, 0), (3, 2), (8, 4), (32, 20)])
def test_one_carry_passes_through_the_chain_and_through_no_other_pair(digits, chain):
    _, items = few(f"carries(digits={digits}, chain={chain})", 200)
    starts = Counter()
    for item in items:
        first, second, start = item.row
        assert len(str(first)) == len(str(second)) == digits
        pairs = [(int(a), int(b)) for a, b in zip(str(first)[::-1], str(second)[::-1], strict=True)]
        nines = [at for at, pair in enumerate(pairs) if sum(pair) == 9]
        assert nines == list(range(start + 1, start + 1 + chain))
        assert sum(pairs[start]) > 9
        starts[start] += 1
    assert set(starts) == set(range(digits - chain)) or digits == 32


def test_the_first_wrong_digit_is_counted_from_the_right():
    task = TASKS.make("carries(digits=4, chain=2)")
    item = Item("0", Sum(1368, 2635, 0))  # 8 + 5 carries through 6 + 3 and 3 + 6
    cases = {
        "4003": (None, None),
        "4,003": (None, None),
        "3993": (2, 1),
        "3003": (4, 1),
        "4004": (1, 0),
        "14003": (5, 0),
    }
    for text, (wrong, chain) in cases.items():
        right, values = graded(task, item, f"It is {text}.")
        assert right == (wrong is None)
        assert (values.get("first_wrong"), values.get("in_chain")) == (wrong, chain)
    assert graded(task, item, "003")[1]["first_wrong"] == 4


# Paths and stars


@pytest.mark.parametrize("name", ["paths(nodes=6, edges=8)", "paths(nodes=5, edges=4)", "star(arms=2, depth=3)"])
def test_the_shortest_paths_are_those_among_all_sequences_of_nodes(name):
    task, items = few(name, 12)
    for item in items:
        joined = {frozenset(edge) for edge in item.row.edges}
        assert len(joined) == len(item.row.edges)
        nodes = {node for edge in joined for node in edge}
        paths = [
            path
            for size in range(1, len(nodes) + 1)
            for path in permutations(nodes, size)
            if path[0] == item.row.start
            and path[-1] == item.row.goal
            and all({a, b} in joined for a, b in pairwise(path))
        ]
        least = min(map(len, paths))
        texts = {path: "-".join(map(str, path)) for path in paths}
        assert sorted(texts[path] for path in paths if len(path) == least) == sorted(task.solutions(item))
        for path in paths:
            right, values = graded(task, item, texts[path])
            assert right == (len(path) == least)
            assert values["valid"] == 1
            assert graded(task, item, texts[path] + f"-{item.row.goal}")[1]["valid"] == 0
        assert len(item.row.edges) == {"p": task.edges if name[0] == "p" else 0, "s": 6}[name[0]]


def test_a_path_is_walked_again():
    task = TASKS.make("paths")
    item = Item("0", Route(((10, 11), (12, 11), (10, 13), (13, 12), (13, 14), (14, 12)), 10, 12))
    assert task.solutions(item) == ["10-11-12", "10-13-12"]
    for text, right, valid, first in (
        ("10, 11, 12", 1, 1, 1),
        ("10 -> 13 -> 12", 1, 1, 1),
        ("10-13-14-12", 0, 1, 1),
        ("10-12", 0, 0, 0),
        ("10-11", 0, 0, 1),
        ("12-11-10", 0, 0, 0),
        ("010-11-12", 0, 0, 0),
    ):
        verdict, values = graded(task, item, text)
        assert (verdict, values["valid"], values["first_edge"]) == (right, valid, first)


def test_a_star_has_its_arms():
    task, items = few("star(arms=5, depth=2)")
    for item in items:
        count = Counter(node for edge in item.row.edges for node in edge)
        assert count[item.row.start] == 5
        assert count[item.row.goal] == 1
        assert sorted(count.values()) == [1] * 5 + [2] * 5 + [5]
        assert len(task.solutions(item)[0].split("-")) == 3


# Zebra puzzles


def true(clue, where):
    first, second = where[clue.first], where[clue.second]
    return {
        "at": first == second,
        "same": first == second,
        "next": abs(first - second) == 1,
        "left": first + 1 == second,
    }[clue.kind]


@pytest.mark.parametrize("name", ["zebra", "zebra(houses=4, attributes=2)", "zebra(houses=3, attributes=3)"])
def test_clues_have_one_solution_and_none_can_be_left_out(name):
    """All assignments are tried, without propagation."""
    task, items = few(name, 6)
    for item in items:
        numbers = {f"house {at + 1}": at for at in range(task.houses)}
        orders = [list(permutations(words)) for words in item.row.attributes]
        worlds = [
            {word: at for order in orders for at, word in enumerate(order)} | numbers for orders in product(*orders)
        ]
        tables = [[true(clue, where) for where in worlds] for clue in item.row.clues]
        (only,) = [where for at, where in enumerate(worlds) if all(table[at] for table in tables)]
        assert item.row.houses == tuple(
            tuple(next(word for word in words if only[word] == at) for words in item.row.attributes)
            for at in range(task.houses)
        )
        for missing in range(len(tables)):
            rest = [table for at, table in enumerate(tables) if at != missing]
            left = [where for at, where in enumerate(worlds) if all(table[at] for table in rest)]
            assert len(left) > 1
            clues = [clue for at, clue in enumerate(item.row.clues) if at != missing]
            propagated = [where | numbers for where in solve(clues, item.row.attributes)]
            assert sorted(map(repr, map(sorted, map(dict.items, propagated)))) == sorted(
                map(repr, map(sorted, map(dict.items, left)))
            )


def test_words_count_in_their_house():
    task, items = few("zebra(houses=2, attributes=2)", 1)
    (a, b), (c, d) = items[0].row.houses
    for text, right, cells in (
        (f"1: {a} {b}; 2: {c} {d}", 1, 1),
        (f"House 1: {b}, {a}.\nHouse 2: {d.upper()} and {c}", 1, 1),
        (f"1: {a} {d}; 2: {c} {b}", 0, 0.5),
        (f"1: {c} {d}; 2: {a} {b}", 0, 0),
        (f"1: {a} {b}", 0, 0.5),
        (f"1: {a} {c} {b}; 2: {c} {d}", 1, 1),  # the first word of each attribute
    ):
        verdict, values = graded(task, items[0], text)
        assert (verdict, values["cells"]) == (right, cells)
    assert task.answer(items[0], f"{a} {b}") is None


# Answers with steps


def evaluated(text):
    """The results of all brackets of an expression, innermost first, by rewriting."""
    ways = {"MIN": min, "MAX": max, "MED": median_low, "SUM": lambda numbers: sum(numbers) % 10}
    results = []
    while match := re.search(r"([A-Z]{3})\(([^()]*)\)", text):
        numbers = [int(part) for part in match[2].split(", ")]
        results.append(ways[match[1]](numbers))
        text = f"{text[: match.start()]}{results[-1]}{text[match.end() :]}"
    return results


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_listops_are_evaluated_at_their_closing_brackets(depth):
    """The first bracket without an inner one is the first that closes."""
    task, items = few(f"listops(depth={depth}, fanout=3)")
    for item in items:
        expression = task.question(item.row).removesuffix(" =")
        assert task.results(item.row) == evaluated(expression)
        opened = [expression[:at].count("(") - expression[:at].count(")") for at in range(len(expression))]
        assert max(opened) == depth
        assert all(task.right(item, str(digit)) == (digit == task.results(item.row)[-1]) for digit in range(10))


def test_parities_are_running_sums():
    task, items = few("parity(bits=9, positions=5)")
    for item in items:
        sums = [sum(item.row.bits[at - 1] for at in item.row.positions[: end + 1]) % 2 for end in range(5)]
        assert task.results(item.row) == sums
    assert Counter(task.results(item.row)[-1] for item in task.__class__(many=1000).items(None))[1] > 400


@pytest.mark.parametrize(
    ("steps", "text", "right", "share", "strict"),
    [
        ("before", "1, 1, 0 so 0", 1, 1, 1),
        ("before", "1, 1, 0 so 0.", 1, 1, 0),
        ("before", "1, 0, 0 so 0", 1, 2 / 3, 1),
        ("before", "1, 1, 0 so 1", 0, 1, 0),
        ("before", "0 so 0", 1, 0, 0),
        ("before", "0", 1, 0, 0),
        ("before", "1 1 0 => 0\n1", 1, 1, 0),
        ("after", "0 because 1, 1, 0", 1, 1, 1),
        ("after", "1 because 1, 1, 0", 0, 1, 0),
        ("after", "0", 1, 0, 0),
        ("after", "\n0: 1 1 0 1 1 1", 1, 1, 0),
        ("none", "0", 1, None, 1),
        ("none", "the xor is 0", 1, None, 0),
        ("none", "1", 0, None, 0),
    ],
)
def test_steps_are_read_in_their_order_and_the_answer_decides(steps, text, right, share, strict):
    task = TASKS.make(f"parity(bits=3, positions=3, steps={steps})")
    row = task.items(None)[0].row._replace(bits=(1, 0, 1), positions=(1, 2, 3))
    verdict, values = graded(task, Item("0", row), text)
    assert (verdict, values.get("steps_right"), values["strict"]) == (right, share, strict)


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


# Needles


def test_both_directions_are_asked_for_in_equal_shares_and_words_share_prefixes():
    task, items = few("needles(pairs=12)", 100)
    assert [item.row.side for item in items] == ["value", "key"] * 50
    for item in items:
        words = [word for pair in item.row.pairs for word in pair]
        assert len(set(words)) == 24
        assert len({word[:4] for word in words}) <= 4
        given = item.row.pairs[item.row.at][item.row.side == "key"]
        right = [word for word in words if task.right(item, word)]
        assert right == [item.row.pairs[item.row.at][item.row.side == "value"]]
        assert graded(task, item, f"The other side of {given} is {right[0]}, not {words[0]}.")[0]
        values = graded(task, item, given)[1]
        assert values == {"strict": 0, "depth": item.row.at / 11, f"right_{item.row.side}": 0}
    assert {item.row.side for item in TASKS.make("needles(ask=key)").items(None)} == {"key"}


# Infilling


@pytest.mark.parametrize(
    ("language", "size", "span"),
    [
        ("brackets(kinds=2, depth=3)", 8, 4),
        ("modular-sum(modulus=3)", 11, 4),
        ("list-operation(operation=shuffle, size=3, letters=3)", 7, 5),
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
        ("carries(digits=0)", "digits is 0"),
        ("carries(digits=4, chain=4)", "chain is 4; expected 0 to 3, fewer than digits"),
        ("star(arms=1)", "arms is 1"),
        ("star(arms=4, depth=23)", "depth is 23; expected 1 to 22 for 4 arms"),
        ("paths(nodes=5, edges=3)", "edges is 3; expected 4 to 9 for 5 nodes"),
        ("zebra(houses=6)", "houses is 6; expected 2 to 5"),
        ("listops(fanout=1)", "fanout is 1; expected 2 to 8"),
        ("listops(steps=first)", "unknown steps 'first'"),
        ("parity(bits=4, positions=5)", "positions is 5; expected 1 to 4"),
        ("needles(ask=both_of)", "unknown ask"),
        ("infill(language='paper-2gram')", "no sign for each token"),
        ("infill(language='brackets(stop=0.1)')", "has sequences of several lengths"),
        ("infill(size=13)", "13"),
        ("infill(span=13)", "span is 13; expected 1 to 12, the size at most"),
    ],
)
def test_options_that_do_not_fit_are_refused(specification, message):
    with pytest.raises(UnmaskError, match=re.escape(message)):
        TASKS.make(specification)


def test_the_twin_of_a_gap_is_the_language_given_the_shown_signs():
    """All balanced strings are equally likely, and so are the right answers of a twin."""
    task, items = few("infill(size=10, span=5)", 4)
    for item in items:
        sequence, start = item.row
        twins = twin(task.solutions(item), list)
        shown = task.exact.encode([sequence])
        shown[:, start : start + 5] = task.exact.vocabulary
        posterior = task.exact.posterior(shown)[0]
        alone = twins.posterior(twins.blank(1, 10))[0]
        for symbol, name in enumerate(twins.names):
            assert torch.allclose(alone[:, symbol], posterior[:, task.exact.names.index(name.strip())], atol=1e-12)
