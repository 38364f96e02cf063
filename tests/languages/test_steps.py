"""What sums say step by step, against a reader of texts: of all texts of a small language, of spoilt ones of others."""

from __future__ import annotations

import re
from itertools import pairwise, product

import pytest
import torch

from unmask import score
from unmask.core.errors import UnmaskError
from unmask.languages import ModularSum, load


def read(text: str, modulus: int, terms: int, chained: bool) -> tuple[list[bool], bool]:
    """(which steps follow, whether the answer is right) of a text of whole equations, moduli being below 10."""
    size = terms * (terms + 1)
    lines = [(text + ";")[i : i + size] for i in range(0, len(text), size)]
    follows, asked, right, last = [], 0, True, None
    for number, line in enumerate(lines):
        pieces, rest = [], line
        for count in range(terms, 0, -1):
            pieces, rest = [*pieces, rest[: 2 * count]], rest[2 * count :]
        goes_on = chained and number > 0
        for i, (before, now) in enumerate(pairwise(pieces)):
            good = bool(re.fullmatch(r"(\d.)+", before))
            if good:
                first, second, *others = (int(digit) for digit in before[::2])
                wanted = "+".join(str(digit) for digit in ((first + second) % modulus, *others))
                good = now == wanted + (";" if i == terms - 2 else "=")
            if i == 0:
                good = good and bool(re.fullmatch(r"\d(\+\d)*=", before)) and (not goes_on or before[0] == last)
            follows.append(good)
        last, question = line[-2], "0" + pieces[0][1:] if goes_on else pieces[0]
        if not re.fullmatch(r"\d(\+\d)*=", question):
            right = False
        else:
            asked = sum(int(digit) for digit in question[::2]) + asked * chained
            right = right and ((chained and line is not lines[-1]) or last == str(asked % modulus))
    return follows, right


def check(language: ModularSum, tokens: torch.Tensor) -> tuple[int, int]:
    """How many answers are right, and how many of these by wrong steps."""
    steps, possible = language.steps(tokens), language.supports(tokens)
    for row, (text, wrong, count, answer) in enumerate(
        zip(tokens, steps.wrong.tolist(), steps.count.tolist(), steps.answer.tolist(), strict=True)
    ):
        said = language.render(text)
        wanted = read(said, language.modulus, language.terms, language.chained)
        assert ([not w for w in wrong[:count]], answer) == wanted, said
        assert not any(wrong[count:])
        assert possible[row] == (not any(wrong)) <= answer, said
        assert steps.wrong_share[row] == sum(wrong) / count
    return int(steps.answer.sum()), int((steps.answer & ~possible).sum())


def test_every_text_of_one_equation():
    """Of 5^5 texts a+b=c four are right, and with chains of one equation nothing can make up for a wrong one."""
    texts = torch.tensor(list(product(range(5), repeat=5)))
    for chained in (True, False):
        assert check(ModularSum(2, chained=chained), texts) == (4, 0)


@pytest.mark.parametrize(
    ("modulus", "terms", "chained", "length"), [(2, 2, True, 11), (3, 2, False, 17), (2, 3, True, 23), (4, 4, True, 19)]
)
def test_spoilt_texts(modulus, terms, chained, length):
    """Some tokens replaced, by digits for the most part, so that errors often cancel."""
    language = ModularSum(modulus, terms, chained)
    drawn = language.sample(600, length, seed=1)
    rng = torch.Generator().manual_seed(2)
    spoilt = torch.rand(drawn.shape, generator=rng) < torch.tensor([0, 1, 2, 4, 8])[torch.arange(600) % 5, None] / 20
    most = torch.where(torch.rand(drawn.shape, generator=rng) < 0.1, language.vocabulary, modulus)
    others = (torch.rand(drawn.shape, generator=rng) * most).long()
    right, lucky = check(language, torch.where(spoilt & ((drawn < modulus) | (most > modulus)), others, drawn))
    assert 100 < right < 500
    assert lucky > (10 if chained else 0)


@pytest.mark.parametrize(
    ("text", "wrong", "answer"),
    [
        ("1+2+3=3+3=6", (False, False), True),
        ("1+2+3=4+3=6", (True, True), True),  # two errors that cancel
        ("1+2+3=4+3=7", (True, False), False),
        ("1+2+3=3+3=7", (False, True), False),
        ("1+2+3=1+5=6", (True, False), True),  # another way to the same end
        ("1+2+3=+=;=6", (True, True), True),  # no steps at all
        ("1+2=3=3+3=6", (True, False), False),  # which asks for something else
        ("1+2+3=3+3==", (False, True), False),
        ("1+;+3=3+3=6", (True, False), False),
    ],
)
def test_answers_are_one_thing_and_steps_another(text, wrong, answer):
    language = ModularSum(terms=3)
    tokens = language.encode([text])
    steps = language.steps(tokens)
    assert (tuple(steps.wrong[0].tolist()), steps.answer.item()) == (wrong, answer)
    said = score(tokens.expand(20, -1), language)
    assert said.ser.value == any(wrong)
    assert said.metrics["answer_error"].value == 1 - answer
    assert said.metrics["right_by_wrong_steps"].value == (answer and any(wrong))
    assert said.metrics["wrong_steps"].value == sum(wrong) / 2


@pytest.mark.parametrize(
    ("text", "chained", "wrong", "answer"),
    [
        ("4+9=3;3+5=8", True, (False, False), True),
        ("4+9=4;3+5=8", True, (True, True), True),  # the second does not begin with what the first has come to
        ("4+9=4;4+5=8", True, (True, True), True),
        ("4+9=4;4+5=9", True, (True, False), False),
        ("4+9=3;2+5=7", True, (False, True), False),
        ("4+9=3;2+5=7", False, (False, False), True),
        ("4+9=4;4+5=9", False, (True, False), False),  # each is asked
        ("4+9=3+3+5=8", True, (True, False), True),
    ],
)
def test_chains(text, chained, wrong, answer):
    language = ModularSum(chained=chained)
    steps = language.steps(language.encode([text]))
    assert (tuple(steps.wrong[0].tolist()), steps.answer.item()) == (wrong, answer)


def test_rows_of_their_own_lengths():
    """With `stop` each row has its own; what stands behind an end is nobody's, and without one there is no text."""
    language, same = ModularSum(3, stop=0.4), ModularSum(3)
    drawn = language.sample(200, 30, seed=3)
    steps = language.steps(drawn)
    assert steps.answer.all()
    assert not steps.wrong.any()
    assert len(steps.count.unique()) > 3
    drawn[:, 4] = (drawn[:, 4] + 1) % 3  # the first result
    spoilt = language.steps(drawn)
    for row, size in enumerate((language.sizes(drawn) - 1).tolist()):
        alone = same.steps(drawn[row : row + 1, :size])
        assert spoilt.count[row] == alone.count[0] == (size + 1) // 6
        assert spoilt.wrong[row, : alone.wrong.shape[1]].equal(alone.wrong[0])
        assert spoilt.answer[row] == alone.answer[0]
    unread = language.steps(["0+1=1+0=1", "0+1=1;$~~", "$~~~~~~~~"])
    assert (unread.wrong_share == 1).all()
    assert not unread.answer.any()
    assert unread.count.tolist() == [1, 1, 1]


def test_who_has_no_steps_says_nothing_of_them():
    language = load("paper-2gram")
    drawn = language.sample(20, 8)
    assert language.steps(drawn) is None
    assert score(drawn, language).metrics.keys().isdisjoint(("answer_error", "right_by_wrong_steps", "wrong_steps"))
    with pytest.raises(UnmaskError, match="never revealed"):
        ModularSum().steps([[0, 10, 13, 11, 0]])
