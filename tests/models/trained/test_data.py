"""Examples are a function of their number, held-out ones are never trained on, a fixed set is shuffled by epochs."""

from __future__ import annotations

import pytest
import torch

from unmask import UnmaskError, languages
from unmask.models.trained.recipe import training_size
from unmask.models.trained.validation import Examples, ahead

LANGUAGE = languages.load("paper-2gram")
LENGTH = 20  # so long that no two examples are equal by chance


def rows(tokens):
    return [tuple(row) for row in tokens.tolist()]


@pytest.mark.parametrize("samples", [None, 40])
def test_a_number_is_all_that_is_needed(samples):
    one, other = (Examples(LANGUAGE, LENGTH, 3, samples) for _ in range(2))
    whole = one.rows(0, 100)
    assert whole.dtype == torch.int64
    for first, count in ((90, 10), (37, 3), (0, 1), (38, 50)):  # in any order, across the ends of epochs
        assert other.rows(first, count).equal(whole[first : first + count])
    assert not Examples(LANGUAGE, LENGTH, 4, samples).rows(0, 100).equal(whole)


def test_fresh_examples_are_those_of_nobody_else():
    made = Examples(LANGUAGE, LENGTH, 3)
    seen = set(rows(made.rows(0, 200)))
    assert len(seen) == 200
    assert not seen & set(rows(made.held_out(200)))
    assert not seen & set(rows(LANGUAGE.sample(200, LENGTH, seed=3)))


def test_an_epoch_is_the_fixed_set_in_another_order():
    made = Examples(LANGUAGE, LENGTH, 3, 300)
    epochs = [rows(made.rows(297 * epoch, 297)) for epoch in range(3)]
    assert len(set(epochs[0])) == 297
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
    assert epochs[0] != epochs[1] != epochs[2]
    held_out = rows(made.held_out(100))
    assert len(held_out) == 3
    assert not set(held_out) & set(epochs[0])


def test_the_paper_trains_on_99_percent():
    assert training_size(1_000_000) == 990_000
    assert training_size(2) == 1


def test_a_set_of_one_cannot_be_divided():
    with pytest.raises(UnmaskError, match="at least 2"):
        Examples(LANGUAGE, LENGTH, 3, 1)


def test_ahead_is_in_order_and_hands_on_what_goes_wrong():
    assert list(ahead(lambda n: n * n, 2, 6)) == [4, 9, 16, 25]
    assert list(ahead(lambda n: n, 3, 3)) == []
    batches = ahead(lambda n: 1 // (2 - n), 0, 5)
    assert [next(batches), next(batches)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(batches)
