"""n-grams: the machine behind them, and what is counted from a text."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from tests import brute
from unmask.core.errors import UnmaskError
from unmask.languages import NGram, random_ngram
from unmask.languages.ngram import check_size


def visited(language: NGram) -> list[int]:
    """Codes of the contexts in any string of up to 2 V^m tokens: a search over tuples."""
    v, memory = language.vocabulary, language.order - 1
    contexts = list(product(range(v), repeat=memory))
    row = dict(zip(contexts, language.transition.tolist(), strict=True))
    seen = {context for context, mass in zip(contexts, language.initial, strict=True) if mass > 0}
    queue = list(seen)
    while queue:
        context = queue.pop()
        following = {(*context[1:], token) for token in range(v) if row[context][token] > 0} - seen
        seen |= following
        queue += following
    return [i for i, context in enumerate(contexts) if context in seen]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("order", "vocabulary", "length"), [(2, 3, 5), (3, 2, 7), (3, 3, 5), (4, 2, 8)])
def test_machine_has_the_law_and_the_reachable_contexts(order, vocabulary, length, seed):
    """All lengths, those shorter than the memory too; contexts that nothing reaches carry no state."""
    language = random_ngram(order, vocabulary, threshold=0.25, seed=seed)
    assert language.reachable.tolist() == visited(language)
    beginnings = sum((language.initial.reshape(vocabulary**size, -1).sum(1) > 0).sum() for size in range(1, order - 1))
    assert language.machine.states == len(language.reachable) + beginnings
    assert language.machine.unambiguous
    for n in range(1, length + 1):
        strings = torch.from_numpy(brute.sequences(vocabulary, n))
        law = brute.distribution(language, n)
        np.testing.assert_allclose(language.log_prob(strings).exp(), law, rtol=0, atol=1e-12)
        assert language.impossible(strings).tolist() == (law == 0).tolist()


def test_an_unreachable_context_has_no_say():
    """From 00 only 0 and 1 follow in turn; the rows of 11 and of all else behind it are never read."""
    transition = [[0, 1], [1, 0], [0, 1], [0.3, 0.7]]
    language = NGram(3, [1, 0, 0, 0], transition)
    assert language.reachable.tolist() == [0, 1, 2]
    assert language.log_prob(torch.tensor([[0, 0, 1, 0, 1, 0], [0, 0, 1, 1, 1, 1]])).tolist() == [0, -np.inf]


def test_counts_by_hand():
    """a a b a b and round to the first a: five pairs."""
    language = NGram.fit("aabab", 2)
    assert language.names == ("a", "b")
    np.testing.assert_allclose(language.initial, [3 / 5, 2 / 5])
    np.testing.assert_allclose(language.transition, [[1 / 3, 2 / 3], [1, 0]])
    assert language.log_prob(torch.tensor([[0, 1, 0]])).exp().item() == pytest.approx(3 / 5 * 2 / 3)
    assert language.supports(torch.tensor([[0, 0, 1], [0, 1, 1]])).tolist() == [True, False]


def test_smoothing_adds_to_every_count():
    language = NGram.fit("aabab", 2, smoothing=1.0)
    np.testing.assert_allclose(language.initial, [4 / 7, 3 / 7])
    np.testing.assert_allclose(language.transition, [[2 / 5, 3 / 5], [3 / 4, 1 / 4]])
    assert language.supports(torch.from_numpy(brute.sequences(2, 6))).all()


def test_a_text_is_a_circle_and_what_it_never_shows_cannot_follow():
    """aa -> b, ab -> a twice, ba -> b, and ba -> a across the join; bb is never seen: single tokens, out of reach."""
    language = NGram.fit("aabab", 3)
    np.testing.assert_allclose(language.initial, [1 / 5, 2 / 5, 2 / 5, 0])
    np.testing.assert_allclose(language.transition, [[0, 1], [1, 0], [1 / 2, 1 / 2], [3 / 5, 2 / 5]])
    assert language.reachable.tolist() == [0, 1, 2]
    np.testing.assert_allclose(NGram.fit("aab", 2).transition, [[1 / 2, 1 / 2], [1, 0]])


def test_whitespace_tokens_and_a_small_vocabulary():
    language = NGram.fit("the cat the dog\n the  owl saw the cat", 2, tokens="whitespace", max_vocabulary=3)
    assert language.names == ("cat ", "the ", "<unk> ")
    np.testing.assert_allclose(language.initial * 9, [2, 4, 3])
    np.testing.assert_allclose(language.transition * 6, [[0, 6, 0], [3, 0, 3], [0, 4, 2]])
    assert language.render(torch.tensor([1, 2, 3])) == "the <unk> _"


@pytest.mark.parametrize(
    ("order", "options", "message"),
    [
        (2, {"tokens": "words"}, "unknown tokens 'words'; known: characters, whitespace"),
        (2, {"smoothing": -0.5}, "smoothing is -0.5"),
        (2, {"smoothing": float("nan")}, "smoothing is nan"),
        (2, {"max_vocabulary": 1}, "max_vocabulary is 1"),
        (7, {}, "the text has 6 tokens; order 7"),
        (1, {}, "order is 1"),
        (0, {}, "order is 0"),
        (-2, {}, "order is -2"),
    ],
)
def test_what_cannot_be_counted(order, options, message):
    with pytest.raises(UnmaskError, match=message):
        NGram.fit("abcabc", order, **options)


def test_too_large_a_table_is_refused_with_its_size():
    """The limit is 2^24 transitions, which 4096 tokens of order 2 just have."""
    check_size(2, 4096)
    with pytest.raises(UnmaskError, match=r"4097 tokens has 16,785,409 transitions; expected at most 16,777,216"):
        check_size(2, 4097)
    with pytest.raises(UnmaskError, match="order 4 over 65 tokens has 17,850,625 transitions"):
        NGram.fit("".join(map(chr, range(65, 130))), 4)
    with pytest.raises(UnmaskError, match="order 9 over 8 tokens has 134,217,728 transitions"):
        random_ngram(9)


@pytest.mark.parametrize("order", [100, 2000, 20000])
def test_an_absurd_order_is_refused_too(order):
    """Sizes beyond any float, and beyond the digits that Python prints."""
    with pytest.raises(UnmaskError, match=f"order is {order}"):
        NGram.fit("ab" * order, order)


def test_positions_that_no_memory_holds_have_no_tables():
    language = random_ngram(2, 4, seed=0)
    assert language.local_form(10**30) is None
    assert language.local_form(64) is not None


def test_rows_that_sum_to_one_nearly_are_made_to():
    """Off by less than 1e-9 a row, which at 10^5 tokens would be 9e-5 of blank evidence."""
    language = NGram(2, [0.5, 0.5], [[0.3, 0.7 - 9e-10], [0.6, 0.4]])
    assert abs(float(language.log_evidence(torch.full((1, 100_000), 2)))) < 1e-9
    again = NGram(2, language.initial, language.transition)
    assert (again.transition == language.transition).all()
