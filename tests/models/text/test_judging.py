"""The n-gram is a distribution, by enumeration, and prefers the text; words that the text does not have are counted."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import UnmaskError
from unmask.models.text import Lexicon, NGramJudge
from unmask.models.text.ngrams import END, OTHER

DOCUMENTS = ("abab", "abba", "b")


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_it_is_a_law_of_windows(order):
    """Of all windows of four characters, of an alphabet that has the end and all others as one."""
    judge = NGramJudge(DOCUMENTS, order)
    assert judge.symbols == {"a", "b", END, OTHER}
    total = 0.0
    for window in itertools.product("ab\0" + END, repeat=4):
        nats, size = judge.nats("".join(window).split(END))
        assert size == 4
        total += math.exp(-nats)
    assert total == pytest.approx(1, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(documents=st.lists(st.text("abc", min_size=1), min_size=1), context=st.text("abcd"), order=st.integers(1, 6))
def test_each_context_has_a_law(documents, context, order):
    judge = NGramJudge(documents, order)
    chances = [judge.probability(symbol, context) for symbol in judge.symbols]
    assert sum(chances) == pytest.approx(1, abs=1e-12)
    assert min(chances) > 0


def test_it_is_witten_and_bell_by_hand():
    """ "abab", "abba", "b" with their ends: 12 characters, a four times, b five times, the end three times."""
    judge = NGramJudge(DOCUMENTS, 2)
    single = (4 + 3 / 4) / (12 + 3)
    assert judge.probability("a", "") == pytest.approx(single)
    assert judge.probability(OTHER, "") == pytest.approx((0 + 3 / 4) / (12 + 3))
    # a is followed by b three times and by the end once
    assert judge.probability("a", "a") == pytest.approx((0 + 2 * single) / (4 + 2))
    assert judge.probability("a", "xa") == judge.probability("a", "a")  # order 2 sees no further
    assert judge.probability("a", "\0") == pytest.approx(single)  # a context that was never seen says nothing


def test_it_prefers_the_text():
    text = "the cat sat on the mat and the rat sat on the cat "
    judge = NGramJudge([text * 3], 4)
    own, other = (judge.nats([part])[0] for part in ("the rat sat on the mat", "tac eht no tas tar eht"))
    assert own < 0.5 * other


def test_an_empty_row_has_nothing_to_say():
    assert NGramJudge(DOCUMENTS).nats([""]) == (0.0, 0)
    assert NGramJudge(DOCUMENTS).nats(["", ""])[1] == 1  # an end


def test_bad_orders():
    with pytest.raises(UnmaskError, match="order is 0"):
        NGramJudge(DOCUMENTS, 0)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (["x the cat sat y"], (0, 3)),
        (["x the dog sat y"], (1, 3)),
        (["x THE Cat's y"], (1, 2)),  # capitals are nothing, and cat's is no cat
        (["the cat sat"], (0, 1)),  # its ends may have cut words
        (["x", "dog", "y"], (1, 1)),  # but not ends of documents
        (["x 123 c4t y"], (2, 2)),
        (["x ca\ufffdt y"], (1, 1)),
        ([""], (0, 0)),
    ],
)
def test_words_that_the_text_does_not_have(row, expected):
    lexicon = Lexicon(["The cat sat on", "the mat."])
    assert lexicon.words == {"the", "cat", "sat", "on", "mat"}
    assert lexicon.unknown(row) == expected
