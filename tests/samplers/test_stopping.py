"""Rows that end before all of them is decided: what that saves, what is said of them, and that nothing else changes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from tests.brute import ALARM, distribution, p_value, sequences
from tests.doubles import LANGUAGE, Asked, Choosing, Everywhere, Ordering, Watching
from unmask import UnmaskError, generate
from unmask.languages import random_ngram
from unmask.samplers import AtToken, Budget, Choice, Either, Until

L, END = 16, 3


class Countdown(Everywhere):
    """0 everywhere, but END from a quarter of the canvas on."""

    vocabulary = 4

    def marginals(self, tokens):
        said = torch.where(torch.arange(L) >= L // 4 - 1, END, 0)
        return torch.nn.functional.one_hot(said, 4).double().expand(len(tokens), -1, -1)


@pytest.mark.parametrize(
    ("sampler", "steps"),
    [
        ("left-to-right", 4),
        ("blocks(block_length=4)", 4),
        ("blocks(block_length=4, inner=margin)", 4),
        ("autoregressive", 4),
        ("llada(block_length=4)", 4),
        ("blocks(block_length=2, inner=threshold)", 2),
    ],
)
def test_an_end_at_a_quarter_costs_a_quarter(sampler, steps):
    options = {"sampler": sampler, "steps": L, "length": L, "rows": 5}
    whole, made = generate(Countdown(), **options), generate(Countdown(), stop=END, **options)
    assert whole.model_calls.tolist() == [4 * steps] * 5
    assert made.model_calls.tolist() == [steps] * 5
    assert made.spent.forwards == steps
    assert made.lengths.tolist() == [L // 4] * 5
    assert made.reasons == ("stopped",) * 5
    assert whole.reasons == ("filled",) * 5
    assert torch.equal(made.tokens, whole.tokens)
    assert bool((made.order > 0).all())
    assert bool((made.probability == 1).all())


def test_what_was_given_does_not_end_a_row():
    given = torch.full((3, L), 4)
    given[0, 0] = END
    given[1, 2] = END
    given[2, :4] = END
    made = generate(Countdown(), sampler="left-to-right", steps=L, given=given, stop=AtToken([2, END]))
    assert made.lengths.tolist() == [4, 4, 5]
    assert made.tokens[:, 5:].tolist() == [[2] * 11] * 3
    filled = generate(Countdown(), sampler="left-to-right", steps=L, given=given, stop=AtToken(END, filler=1))
    assert filled.tokens[0, 4:].tolist() == [1] * 12


def test_an_end_waits_for_what_is_hidden_before_it():
    """Right to left the end is not certain before all is decided."""

    backwards = Ordering(lambda delta, hidden, rng: torch.where(hidden, L - torch.arange(L), 0))
    made = generate(Countdown(), sampler=backwards, steps=L, length=L, rows=2, stop=END)
    assert made.model_calls.tolist() == [L, L]
    assert made.lengths.tolist() == [4, 4]


def test_a_string_ends_a_row_where_it_is_complete():
    decode = lambda tokens: "".join("abcd"[t] for t in tokens)  # noqa: E731
    given = torch.full((2, L), 4)
    given[1, :2] = torch.tensor([0, END])
    made = generate(
        Countdown(), sampler="left-to-right", steps=8, given=given, stop=Until(["ad", "cb"], decode, fill=1)
    )
    assert made.lengths.tolist() == [4, 4]
    assert made.model_calls.tolist() == [2, 1]  # two tokens a round
    assert made.tokens[0].tolist() == [0, 0, 0, END, *[1] * 12]


def test_a_budget_ends_a_row_whatever_is_hidden():
    made = generate(LANGUAGE, sampler="low-confidence", steps=8, length=L, rows=6, seed=1, stop=Budget(3, fill=2))
    whole = generate(LANGUAGE, sampler="low-confidence", steps=8, length=L, rows=6, seed=1)
    assert made.model_calls.tolist() == [3] * 6
    early = whole.order <= 3
    assert torch.equal(made.tokens[early], whole.tokens[early])
    assert bool((made.tokens[~early] == 2).all())
    assert made.lengths.tolist() == [L] * 6
    assert made.reasons == ("stopped",) * 6


def halfway(view):
    """Left to right, and rows of even numbers are done after three steps."""
    place = torch.where(view.hidden, view.hidden.cumsum(1), 99)
    even = view.canvas.rng.row_ids % 2 == 0
    return Choice(place <= view.count.unsqueeze(1), done=even & (view.step == 3))


def test_a_sampler_may_say_that_a_row_is_done():
    denoiser = Asked()
    made = generate(
        denoiser, sampler=Choosing(halfway), steps=8, length=L, rows=4, seed=1, stop=AtToken(99 % 4, filler=2)
    )
    whole = generate(Asked(), sampler="left-to-right", steps=8, length=L, rows=4, seed=1)
    stopped = torch.tensor([row for row, reason in enumerate(made.reasons) if reason == "stopped"], dtype=torch.int64)
    done = torch.tensor([row for row, reason in enumerate(made.reasons) if reason == "done"], dtype=torch.int64)
    assert bool((done % 2 == 0).all())
    assert len(done)
    assert set(made.reasons[1::2]) <= {"filled", "stopped"}
    assert made.model_calls[done].tolist() == [3] * len(done)
    assert torch.equal(made.tokens[done, :6], whole.tokens[done, :6])
    assert bool((made.tokens[done, 6:] == 2).all())
    for row in stopped.tolist():
        size = int(made.lengths[row])
        assert torch.equal(made.tokens[row, :size], whole.tokens[row, :size])
        assert made.tokens[row, size - 1] == 99 % 4
    assert made.spent.rows == int(made.model_calls.sum())
    with pytest.raises(UnmaskError, match="no fill token is known"):
        generate(LANGUAGE, sampler=Choosing(halfway), steps=8, length=L, rows=4)


def kept(tokens, lengths):
    return Counter(tuple(row[:size]) for row, size in zip(tokens.tolist(), lengths.tolist(), strict=True))


@pytest.mark.parametrize("sampler", ["left-to-right", "autoregressive", "speculative(draft_length=2)", "margin"])
def test_what_is_kept_follows_the_law_of_what_would_have_been(sampler):
    """By enumeration: x ~ q cut behind its first 2. A row that ends is the unstopped row, cut."""
    language, length, rows = random_ngram(2, 3, seed=4), 4, 20_000
    options = {"sampler": sampler, "steps": length, "length": length, "rows": rows, "seed": 3}
    made = generate(language, stop=2, **options)
    q, every = distribution(language, length), sequences(3, length)
    cut = Counter()
    for x, mass in zip(every.tolist(), q, strict=True):
        size = x.index(2) + 1 if 2 in x else length
        cut[tuple(x[:size] + [2] * (length - size))] += mass
    names = np.array(list(cut))
    behind = torch.arange(length) >= made.lengths.unsqueeze(1)
    found = torch.where(behind, 2, made.tokens).numpy()
    assert p_value(found, names, np.array(list(cut.values()))) > ALARM
    if sampler in ("left-to-right", "autoregressive"):
        whole = generate(language, **options)
        first = (whole.tokens == 2).int()
        sizes = torch.where(first.any(1), first.argmax(1) + 1, length)
        assert torch.equal(made.lengths, sizes)
        assert kept(made.tokens, sizes) == kept(whole.tokens, sizes)
        assert int(made.model_calls.sum()) == int(sizes.sum())
    assert p_value(found, names, np.array(list(cut.values()))[::-1]) < ALARM


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        (4, "stop is 4; expected 0 to 3, a token"),
        (Budget(2, fill=-1), "fill of the stop rule is -1; expected 0 to 3, a token"),
    ],
)
def test_what_cannot_stop(stop, message):
    with pytest.raises(UnmaskError, match=message):
        generate(LANGUAGE, length=4, rows=2, stop=stop)


def test_either_rule_ends_a_row_and_somebody_may_watch():
    """The earlier end counts, what is filled is the first rule's; who watches changes nothing."""
    seen = []
    late, early = Budget(3, 0), AtToken(END, filler=1)
    options = {"sampler": "left-to-right", "steps": L, "length": L, "rows": 2}
    made = generate(Countdown(), stop=Either([early, late]), **options)
    assert made.lengths.tolist() == [L] * 2
    assert made.model_calls.tolist() == [3] * 2
    assert made.tokens[:, 3:].eq(1).all()
    assert generate(Countdown(), stop=Either([early, Budget(9, 0)]), **options).lengths.tolist() == [L // 4] * 2
    watched = generate(
        Countdown(), stop=Watching(lambda progress: seen.append(progress.hidden.sum()), early), **options
    )
    assert torch.equal(watched.tokens, generate(Countdown(), stop=early, **options).tokens)
    assert [int(count) for count in seen[:4]] == [2 * (L - 1 - n) for n in range(4)]
    with pytest.raises(UnmaskError, match="rules of Either"):
        Either([])
