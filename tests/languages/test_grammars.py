"""Sums and brackets: their texts, their lengths, and what ends them."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from tests import brute
from unmask.core.errors import UnmaskError
from unmask.languages import Brackets, ModularSum
from unmask.languages.grammars import Grammar


def tokens(language: Grammar, text: str) -> torch.Tensor:
    assert language.names is not None
    return torch.tensor([[language.names.index(character) for character in text]])


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("4+9=3", True),
        ("4+9=3;3+5=8", True),
        ("4+9=4", False),
        ("4+9=3;2+5=7", False),
        ("4+9=3;3+5=7", False),
        ("4+9=3+", False),
        ("4+9=3;", False),
        ("+4+9=", False),
    ],
)
def test_sums(text, valid):
    language = ModularSum()
    if language.possible_lengths(len(text))[-1]:
        assert language.supports(tokens(language, text)).item() == valid
        assert language.render(tokens(language, text)[0]) == text
    else:
        assert not valid


@pytest.mark.parametrize(
    ("text", "valid"), [("1+2+3=3+3=6", True), ("9+9+9=8+9=7", True), ("1+2+3=1+5=6", False), ("1+2+3=3+3=7", False)]
)
def test_sums_of_three_terms(text, valid):
    language = ModularSum(terms=3)
    assert language.supports(tokens(language, text)).item() == valid


def test_unchained_equations_start_anew():
    text = "4+9=3;2+5=7"
    assert ModularSum(chained=False).supports(tokens(ModularSum(), text))
    chained, free = ModularSum(), ModularSum(chained=False)
    assert chained.entropy(11).value == pytest.approx(3 * np.log(10))
    assert free.entropy(11).value == pytest.approx(4 * np.log(10))


@pytest.mark.parametrize("terms", [2, 3, 4])
def test_lengths_of_sums(terms):
    """k^2 + k - 1, and k^2 + k more for each further equation; with `stop` everything longer than the first."""
    first, more = terms**2 + terms - 1, terms**2 + terms
    lengths = np.flatnonzero(ModularSum(2, terms).possible_lengths(100))
    assert lengths.tolist() == list(range(first, 101, more))
    ended = np.flatnonzero(ModularSum(2, terms, stop=0.5).possible_lengths(100))
    assert ended.tolist() == list(range(first + 1, 101))


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("([])", True),
        ("()[]", True),
        ("[[]]", True),
        ("([)]", False),
        ("(()(", False),
        (")(()", False),
        ("[[[]]]", False),
    ],
)
def test_brackets(text, valid):
    language = Brackets(2, 2)
    assert language.supports(tokens(language, text)).item() == valid


def test_number_of_brackets():
    """Catalan numbers times kinds^pairs where the depth is no limit, 2^(pairs-1) to depth 2."""
    for pairs, catalan in enumerate((1, 2, 5, 14, 42, 132), start=1):
        for kinds in (1, 3):
            entropy = Brackets(kinds, 6).entropy(2 * pairs).value
            assert entropy == pytest.approx(np.log(catalan * kinds**pairs), abs=1e-12)
        assert Brackets(1, 2).entropy(2 * pairs).value == pytest.approx((pairs - 1) * np.log(2), abs=1e-12)


@pytest.mark.parametrize(("kinds", "depth"), [(1, 1), (2, 4), (4, 6), (1, 300)])
def test_rows_of_the_bracket_machine_sum_to_one(kinds, depth):
    machine = Brackets(kinds, depth).machine
    sums = np.bincount(machine.edge_source, machine.edge_weight, minlength=machine.states)
    np.testing.assert_allclose(sums, 1, rtol=0, atol=1e-9)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("stop", [0.01, 0.5, 0.95])
@pytest.mark.parametrize(("kinds", "depth", "length"), [(1, 3, 9), (2, 2, 7), (1, 1, 7)])
def test_stopped_brackets_are_even_at_each_length(kinds, depth, length, stop):
    """Proper rows, one likelihood for all strings of a length, and the chance to stop at every empty stack."""
    language = Brackets(kinds, depth, stop)
    machine, end = language.machine, language.end
    np.testing.assert_allclose(np.bincount(machine.edge_source, machine.edge_weight), 1, rtol=0, atol=1e-9)
    assert set(machine.edge_weight[machine.symbols[machine.edge_target] == end]) == {stop}
    strings = torch.from_numpy(brute.support(language, length)[0])
    sizes, likelihood = language.sizes(strings), language.log_prob(strings)
    for size in sizes.unique():
        torch.testing.assert_close(
            likelihood[sizes == size], likelihood[sizes == size][:1].expand((sizes == size).sum())
        )


def test_what_stops_is_followed_by_padding():
    """Samples of many lengths: one end, after it padding alone, and before it a complete text."""
    for language in (Brackets(2, 3, stop=0.2), ModularSum(3, stop=0.2)):
        drawn = language.sample(300, 40, seed=1)
        sizes, end = language.sizes(drawn), language.end
        assert (drawn.gather(1, sizes.unsqueeze(1) - 1) == end).all()
        assert ((drawn == end).sum(1) == 1).all()
        assert torch.equal(drawn == end + 1, torch.arange(40) >= sizes.unsqueeze(1))
        assert len(sizes.unique()) > 4
        for row, size in zip(drawn.tolist(), sizes.tolist(), strict=True):
            assert brute.text_mass(language, row[: size - 1]) > 0
        assert language.render(drawn[0]).endswith("$")


def test_stop_is_the_chance_to_end_at_each_complete_place():
    """P(first bracket pair is all), on a canvas long enough that the cut does not show."""
    for stop in (0.2, 0.7):
        language = Brackets(1, 1, stop=stop)
        for pairs in (1, 2, 3):
            text = torch.full((1, 200), language.end + 1)
            text[0, : 2 * pairs] = torch.tensor([0, 1] * pairs)
            text[0, 2 * pairs] = language.end
            wanted = np.log(stop * (1 - stop) ** (pairs - 1))
            assert language.log_prob(text).item() == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Brackets(0), "kinds is 0; expected 1 to 4"),
        (lambda: Brackets(5), "kinds is 5; expected 1 to 4"),
        (lambda: Brackets(2, 0), "depth is 0"),
        (lambda: Brackets(4, 8), "4 kinds to depth 8 have too many stacks"),
        (lambda: Brackets(stop=0.0), "stop is 0.0; expected a probability"),
        (lambda: Brackets(stop=1e-30), "stop is 1e-30"),
        (lambda: Brackets(stop=1.0), "stop is 1.0"),
        (lambda: ModularSum(stop=-1.0), "stop is -1.0"),
        (lambda: ModularSum(1), "modulus is 1"),
        (lambda: ModularSum(10, 1), "terms is 1"),
        (lambda: ModularSum(10, 5), "modulus 10 with 5 terms needs about 200,000 transitions"),
    ],
)
def test_what_cannot_be_a_grammar(make, message):
    with pytest.raises(UnmaskError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("language", "length", "near"),
    [
        (Brackets(), 7, "6 and 8"),
        (Brackets(), 1, "2"),
        (ModularSum(), 8, "5 and 11"),
        (ModularSum(), 3, "5"),
        (ModularSum(2, terms=6), 1, "41"),
        (ModularSum(stop=0.5), 5, "6"),
    ],
)
def test_impossible_lengths_name_the_nearest(language, length, near):
    for ask in (lambda: language.sample(1, length), lambda: language.entropy(length)):
        with pytest.raises(UnmaskError, match=f"no sequence of length {length}; the nearest lengths: {near}$"):
            ask()
