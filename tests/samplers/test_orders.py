"""Orders: which step reveals each position, by properties over all canvases and by brute force."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.brute import ALARM, p_value, sequences
from unmask.core.chance import Randomness, Stream
from unmask.core.errors import UnmaskError
from unmask.denoisers import Ideal
from unmask.languages import random_ngram
from unmask.samplers import SAMPLERS, Session, fill, orders
from unmask.samplers.rules.blocks import Blocks
from unmask.samplers.schedules import coarsen, deltas, sizes

MAKERS = {name: SAMPLERS.make(name).order for name in ("ancestral", "fixed-size", "left-to-right", "strided", "dyadic")}
uneven = (
    st.lists(st.just(0.0) | st.floats(0.01, 1), min_size=1, max_size=9)
    .filter(any)
    .map(lambda shares: torch.tensor(shares, dtype=torch.float64) / math.fsum(shares))
)


@st.composite
def canvases(draw, rows=4, length=12):
    """Bool (B, L): any positions hidden, in some rows perhaps all or none."""
    width = draw(st.integers(1, length))
    row = st.just([True] * width) | st.lists(st.booleans(), min_size=width, max_size=width)
    return torch.tensor(draw(st.lists(row, min_size=1, max_size=rows)))


@st.composite
def labels(draw):
    """Rounds (B, L), 0 where given; far apart, so that most steps are empty."""
    width = draw(st.integers(1, 8))
    row = st.lists(st.sampled_from([0, 1, 2, 3, 7, 1000, 10**6]), min_size=width, max_size=width)
    return torch.tensor(draw(st.lists(row, min_size=1, max_size=4)))


def rng(rows, seed=0, first=0):
    return Randomness(seed, torch.arange(first, first + rows))


@pytest.mark.parametrize("name", MAKERS)
@given(uneven, canvases(), st.integers(0, 2**63 - 1))
def test_every_hidden_position_has_a_round_and_no_given_one(name, delta, hidden, seed):
    order = MAKERS[name](delta, hidden, rng(len(hidden), seed))
    assert order.dtype == torch.int64
    assert bool((order[hidden] >= 1).all())
    assert bool((order[hidden] <= len(delta)).all())
    assert bool((order[~hidden] == 0).all())


@pytest.mark.parametrize("name", MAKERS)
@given(uneven, canvases())
def test_rows_do_not_depend_on_their_neighbours(name, delta, hidden):
    together = MAKERS[name](delta, hidden, rng(len(hidden)))
    alone = [MAKERS[name](delta, row.unsqueeze(0), rng(1, first=b))[0] for b, row in enumerate(hidden)]
    assert torch.equal(together, torch.stack(alone))


@pytest.mark.parametrize("name", ["ancestral", "fixed-size", "left-to-right"])
@given(uneven, canvases())
def test_a_round_of_delta_zero_is_empty(name, delta, hidden):
    order = MAKERS[name](delta, hidden, rng(len(hidden)))
    assert bool((delta[order[hidden] - 1] > 0).all())


@given(uneven, canvases(), st.randoms(use_true_random=False))
def test_ranks_are_cut_into_the_sizes_of_each_row(delta, hidden, random):
    """Whatever the priorities, equal ones too: each row has its own number of hidden positions, and its own sizes."""
    priority = torch.tensor([[random.randrange(4) for _ in row] for row in hidden], dtype=torch.float64)
    order = orders.by_rank(hidden, priority, lambda count: sizes(delta, count))
    for now, seen, wish in zip(order, hidden, priority, strict=True):
        counts = torch.bincount(now[seen] - 1, minlength=len(delta))
        assert torch.equal(counts, sizes(delta, int(seen.sum())))
        ranked = sorted(range(len(now)), key=lambda j: (wish[j], j))
        steps = [int(now[j]) for j in ranked if seen[j]]
        assert steps == sorted(steps)


def law_passes(delta, order):
    """Chi-square of whole rows of labels against the product of delta, false-alarm rate 1e-6; 0 where delta is 0."""
    places = sequences(len(delta), order.shape[1])
    return p_value(order.numpy() - 1, places, delta.numpy()[places].prod(1)) > ALARM


UNEVEN = [[0.2, 0.8], [0.5, 0.0, 0.3, 0.2, 0.0], [0.0, 0.0, 1.0], [0.0, 0.01, 0.9, 0.09], [1.0]]


@pytest.mark.parametrize("shares", UNEVEN)
def test_independent_labels_follow_delta(shares):
    delta, hidden = deltas(shares), torch.ones(100_000, 3, dtype=torch.bool)
    assert law_passes(delta, MAKERS["ancestral"](delta, hidden, rng(len(hidden), seed=1)))


def test_the_largest_uniform_falls_into_a_round_that_reveals():
    """Ten tenths add up to less than 1 - 2^-53; what lies above them must not fall into an empty step."""
    delta = deltas([0.1] * 10 + [0.0])
    largest = SimpleNamespace(grid=lambda stream, length: torch.full((1, length), 1 - 2**-53, dtype=torch.float64))
    assert MAKERS["ancestral"](delta, torch.ones(1, 2, dtype=torch.bool), largest).tolist() == [[10, 10]]


def test_a_wrong_rate_is_caught():
    """Mutant: each step reveals with probability delta_k, not delta_k / (1 - p_k), and the last one the rest."""
    delta, lucky = deltas([0.2, 0.3, 0.5]), rng(100_000)
    chances = torch.stack([lucky.grid(Stream.ORDER, 3, k) for k in range(3)], -1)
    revealed = chances < delta
    revealed[..., -1] = True
    assert not law_passes(delta, revealed.int().argmax(-1) + 1)


@pytest.mark.parametrize("counts", [(3,), (1, 2), (2, 0, 1, 1)])
def test_shuffled_rounds_are_uniform_over_all_equal_size_assignments(counts):
    length = sum(counts)
    delta, hidden = deltas([count / length for count in counts]), torch.ones(60_000, length, dtype=torch.bool)
    base = [k for k, count in enumerate(counts) for _ in range(count)]
    places = np.array(sorted(set(itertools.permutations(base))))
    order = MAKERS["fixed-size"](delta, hidden, rng(len(hidden), seed=2))
    assert p_value(order.numpy() - 1, places, np.full(len(places), 1 / len(places))) > ALARM


@given(st.integers(1, 70), canvases(length=40))
def test_dyadic_rounds_are_separated_by_earlier_ones(steps, hidden):
    """Between two positions of a step after the first one is revealed already: what makes it exact on chains.

    Those of the first step are 2^(N-1) apart.
    """
    order = MAKERS["dyadic"](torch.ones(steps), hidden, rng(len(hidden)))
    for row in order.tolist():
        for first, second in itertools.combinations([j for j, now in enumerate(row) if now], 2):
            if row[first] == row[second] > 1:
                assert min(row[first:second]) < row[first]
            elif row[first] == row[second]:
                assert (second - first) % 2 ** (steps - 1) == 0


@given(canvases(), st.integers(0, 2**63 - 1))
def test_one_by_one_is_the_limit_of_independent_rounds(hidden, seed):
    """With 10^12 steps positions meet in the order of their hitting times."""
    lucky = rng(len(hidden), seed)
    order = SAMPLERS.make("first-hitting").order(deltas("linear", 1), hidden, lucky)
    u = lucky.grid(Stream.ORDER, hidden.shape[1])
    for now, seen, when in zip(order, hidden, u, strict=True):
        assert sorted(now[seen].tolist()) == list(range(1, int(seen.sum()) + 1))
        assert bool((now[seen].argsort() == when[seen].argsort()).all())


@given(st.integers(1, 20), canvases())
def test_strided_reveals_every_nth_position(steps, hidden):
    expected = [[j % steps + 1 if now else 0 for j, now in enumerate(row)] for row in hidden.tolist()]
    assert MAKERS["strided"](torch.ones(steps), hidden, rng(len(hidden))).tolist() == expected


@given(uneven, canvases(rows=1), st.integers(1, 12))
def test_blocks_follow_each_other_with_equal_shares(delta, hidden, block_length):
    count, steps = int(hidden.sum()), len(delta)
    number = max(1, math.ceil(count / block_length))
    tokens = torch.where(hidden, 2, 0)
    session = Session(Ideal(random_ngram(2, 2, seed=1)), tokens, rng(1), delta)
    if steps < number:
        with pytest.raises(UnmaskError, match=f"for {number} blocks of {block_length} positions; expected at least"):
            fill(Blocks(block_length), session)
        return
    fill(Blocks(block_length), session)
    revealed = session.order[hidden].tolist()
    begun = 0
    for block in range(number):
        share = steps // number + (block < steps % number)
        inside = revealed[block * block_length : (block + 1) * block_length]
        counts = [inside.count(begun + k + 1) for k in range(share)]
        assert counts == sizes(coarsen(delta, share), len(inside)).tolist()
        begun += share


@given(uneven, st.integers(1, 20))
def test_a_coarsened_schedule_sums_to_one(delta, steps):
    coarse = coarsen(delta, steps)
    assert coarse.shape == (steps,)
    assert float(coarse.min()) >= -1e-15
    assert float(coarse.sum()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("schedule", ["linear", "cosine", "cosine-squared", "polynomial", "polynomial(power=0.7)"])
@given(st.integers(1, 12), st.integers(1, 12))
def test_coarsening_by_a_whole_factor_is_the_same_schedule(schedule, steps, factor):
    coarse = coarsen(deltas(schedule, steps * factor), steps)
    assert coarse.tolist() == pytest.approx(deltas(schedule, steps).tolist(), abs=1e-12)


def turns(order):
    """The same as `steps` by brute force: of each row the first non-empty step, then of each row the second, ..."""
    rows = [sorted(set(row) - {0}) for row in order.tolist()]
    return [
        [
            (b, j)
            for b, row in enumerate(order.tolist())
            for j, now in enumerate(row)
            if turn < len(rows[b]) and now == rows[b][turn]
        ]
        for turn in range(max(map(len, rows)))
    ]


@given(labels())
def test_rounds_visit_each_place_once_and_no_empty_round(order):
    found = [list(zip(*(t.tolist() for t in places), strict=True)) for places in orders.steps(order)]
    assert found == turns(order)


def test_a_million_rounds_take_at_most_one_turn_a_position():
    hidden = torch.ones(50, 12, dtype=torch.bool)
    order = MAKERS["ancestral"](deltas("linear", 10**6), hidden, rng(50))
    assert int(order.max()) > 9 * 10**5
    assert len(list(orders.steps(order))) == 12


def test_nothing_hidden_takes_no_turn():
    assert not list(orders.steps(torch.zeros(3, 4, dtype=torch.int64)))
