"""What is said of places: a table against plain numpy, and logits that stay where they are against the table of them.

Draws are compared with those of the exact table for the same uniforms; chi-square has an alarm of 1e-6 and fixed seeds.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from unmask import UnmaskError
from unmask.core.chance import Stream, uniform
from unmask.denoisers import Logits, Table
from unmask.denoisers.marginals import as_marginals, joined

ALARM = 1e-6
SIZES = [5, 255, 256, 257, 1000, 5000]
KINDS = ["float32", "bfloat16", "head"]
EXAMPLES = settings(max_examples=60)
SHARP = [(0.0, 1.0, None), (0.5, 1.0, None), (2.0, 1.0, None), (1.0, 0.83, None), (1.0, 1.0, 3), (0.7, 0.77, 4)]
SHARP += [(1.0, 1e-9, None), (1.0, 1.0, 1), (1.3, 0.9, None), (1.0, 1.0, 10**6)]


def a_third(*factors):
    """Every combination. Two thirds are long: the rest has every value of each factor, and of three factors each pair
    of the first and the last."""
    return [
        pytest.param(*(value for _, value in cell), marks=pytest.mark.long if sum(at for at, _ in cell) % 3 else ())
        for cell in itertools.product(*map(enumerate, factors))
    ]


# ------------------------------------------------------------------------------------------------ a table, by itself


def sharp(p, temperature, top_p, top_k):
    """By hand: heat, the fewest likeliest that hold top_p, of them the first top_k; of equals the lower symbol."""
    if temperature == 0:
        best = max(p)
        return [float(v == p.index(best)) for v in range(len(p))]
    p = [x ** (1 / temperature) for x in p]
    p = [x / sum(p) for x in p]
    kept, mass = [], 0.0
    for v in sorted(range(len(p)), key=lambda v: (-round(p[v] * 1e9), v)):
        if (not kept or mass < top_p - 1e-9) and len(kept) < (top_k or len(p)):
            kept.append(v)
        mass += p[v]
    return [x / sum(p[v] for v in kept) if v in kept else 0.0 for v, x in enumerate(p)]


def masses(symbols):
    """Rows of small whole numbers: equal ones and zeros are the norm."""
    return st.lists(st.integers(0, 4), min_size=symbols, max_size=symbols).filter(any)


def table(rows):
    p = torch.tensor(rows, dtype=torch.float64)
    return Table(p / p.sum(1, keepdim=True))


@EXAMPLES
@given(st.integers(1, 6).flatmap(lambda v: st.lists(masses(v), min_size=1, max_size=4)))
def test_a_table_answers_what_numpy_does(rows):
    found = table(rows)
    p = np.array(rows) / np.array(rows).sum(1, keepdims=True)
    order = np.sort(p, 1)[:, ::-1]
    np.testing.assert_allclose(found.confidence, order[:, 0], atol=1e-15)
    second = order[:, 1] if p.shape[1] > 1 else 0
    np.testing.assert_allclose(found.margin, order[:, 0] - second, atol=1e-15)
    np.testing.assert_allclose(found.entropy, [-sum(x * math.log(x) for x in row if x) for row in p], atol=1e-12)
    assert found.best.tolist() == p.argmax(1).tolist()
    for v in range(p.shape[1]):
        np.testing.assert_array_equal(found.of(torch.full((len(p),), v)), p[:, v])
    np.testing.assert_array_equal(found.dense(), p)
    which = torch.tensor([len(p) - 1, 0])
    np.testing.assert_array_equal(found[which].dense(), p[[-1, 0]])
    np.testing.assert_array_equal(found[torch.arange(len(p)) > 0].dense(), p[1:])


@EXAMPLES
@given(st.integers(2, 6).flatmap(masses), st.sampled_from(SHARP))
def test_a_table_is_sharpened_as_by_hand(row, how):
    p = table([row])
    np.testing.assert_allclose(p.sharpened(*how).dense()[0], sharp(p.dense()[0].tolist(), *how), atol=1e-9)


@EXAMPLES
@given(st.integers(2, 6).flatmap(lambda v: st.tuples(masses(v), masses(v))), st.sampled_from([0.0, 0.5, 2.0]))
def test_what_a_table_has_beyond_another_and_guided_away_from_it(pair, scale):
    one, other = (table([row]) for row in pair)
    p, d = one.dense()[0].numpy(), other.dense()[0].numpy()
    excess = np.clip(p - d, 0, None)
    if excess.sum() > 1e-12:
        np.testing.assert_allclose(one.beyond(other).dense()[0], excess / excess.sum(), atol=1e-12)
    d = np.where(p > 0, np.maximum(d, 1e-300), 1)
    weights = np.where(p > 0, np.exp((1 + scale) * np.log(np.where(p > 0, p, 1)) - scale * np.log(d) - 1400 * scale), 0)
    if bool((other.dense()[0].numpy()[p > 0] > 0).all()):
        weights = np.where(p > 0, p ** (1 + scale) / d**scale, 0)
        np.testing.assert_allclose(one.guided(other, scale).dense()[0], weights / weights.sum(), atol=1e-9)
    else:
        guided = one.guided(other, scale).dense()[0]
        assert bool(torch.isfinite(guided).all())
        assert float(guided.sum()) == pytest.approx(1)


# ------------------------------------------------------------------------------------------------------------ logits


def drawn_logits(symbols, places, seed):
    """The 40 likeliest lie a quarter of a nat apart, the rest far below them: no two scores are nearly equal."""
    generator = torch.Generator().manual_seed(seed)
    x = -14 - 2 * torch.rand(places, symbols, generator=generator)
    for row in range(places):
        some = torch.randperm(symbols, generator=generator)[:40]
        x[row, some] = 3.5 - 0.25 * torch.arange(len(some))
    return x


def made(kind, symbols, places=7, seed=0):
    """(Logits, the exact table of their softmax)."""
    x = drawn_logits(symbols, places, seed)
    if kind == "head":
        states = torch.linalg.qr(torch.randn(places, places, generator=torch.Generator().manual_seed(seed)))[0]
        rows = states.T @ x
        return Logits(states, lambda states: states @ rows, symbols), exact(states @ rows)
    x = x.to(getattr(torch, kind))
    return Logits(x), exact(x)


def exact(x):
    return Table(torch.softmax(x.double(), -1))


def agree(one, other, accuracy=1e-5):
    """Every question has the same answer."""
    assert len(one) == len(other)
    for name in ("confidence", "margin", "entropy"):
        said = getattr(one, name)
        assert said.dtype == torch.float64
        torch.testing.assert_close(said, getattr(other, name), atol=10 * accuracy, rtol=accuracy)
    assert torch.equal(one.best, other.best)
    torch.testing.assert_close(one.dense().double(), other.dense(), atol=accuracy, rtol=0)
    for tokens in (other.best, torch.full((len(other),), one.vocabulary - 1), torch.zeros_like(other.best)):
        torch.testing.assert_close(one.of(tokens), other.of(tokens), atol=accuracy, rtol=10 * accuracy)
    same_draws(one, other, accuracy)


def same_draws(one, other, accuracy=1e-5):
    """The same symbol for the same uniform, but where it lies at a boundary."""
    cdf = other.dense().cumsum(1)
    for rng in range(3):
        u = uniform(3, Stream.TOKEN, torch.arange(len(other)), torch.tensor(rng))
        ours, theirs = one.draw(u), other.draw(u)
        differ = ours != theirs
        assert bool(((cdf - u.unsqueeze(1)).abs().amin(1)[differ] < accuracy).all())
        assert bool((other.of(ours) > 0).all())


@pytest.mark.parametrize(("symbols", "kind"), a_third(SIZES, KINDS))
def test_logits_answer_what_their_table_does(symbols, kind):
    logits, table = made(kind, symbols)
    agree(logits, table)
    for which in (torch.tensor([5, 0, 0, 3]), torch.arange(7) % 2 == 1, torch.zeros(7, dtype=torch.bool)):
        fresh, _ = made(kind, symbols)
        agree(fresh[which], table[which])
    agree(logits[torch.tensor([4, 2, 6])][torch.tensor([2, 0])], table[torch.tensor([6, 4])])


@pytest.mark.parametrize(("symbols", "kind", "how"), a_third(SIZES, KINDS, SHARP))
def test_logits_are_sharpened_as_their_table_is(symbols, kind, how):
    logits, table = made(kind, symbols)
    which = torch.tensor([6, 1, 1])
    for one, other in ((logits, table), (logits[which], table[which])):
        sharpened, expected = one.sharpened(*how), other.sharpened(*how)
        agree(sharpened, expected, 1e-4)
        last = sharpened[torch.tensor([2])].dense().double()
        torch.testing.assert_close(last, expected.dense()[2:3], atol=1e-5, rtol=0)
    none = torch.zeros(7, dtype=torch.bool)
    assert logits[none].sharpened(*how).dense().shape == (0, symbols)
    agree(sharpened.sharpened(0.5, 0.9, 2), expected.sharpened(0.5, 0.9, 2), 1e-4)


@pytest.mark.parametrize(("symbols", "kind"), a_third(SIZES, KINDS))
def test_logits_are_held_against_others_as_their_tables_are(symbols, kind):
    (logits, table), (draft, drafted) = made(kind, symbols), made(kind, symbols, seed=1)
    which, theirs = torch.tensor([6, 1, 1, 3]), torch.tensor([0, 2, 5, 3])
    agree(logits.beyond(draft), table.beyond(drafted), 1e-4)
    agree(logits[which].beyond(draft[theirs]), table[which].beyond(drafted[theirs]), 1e-4)
    agree(logits.guided(draft, 0.7), table.guided(drafted, 0.7), 1e-4)
    agree(logits[which].guided(draft[theirs], 0.7), table[which].guided(drafted[theirs], 0.7), 1e-4)
    for how in ((1.0, 0.9, None), (0.0, 1.0, None), (1.0, 1.0, 3)):
        few, kept = logits.sharpened(*how), table.sharpened(*how)
        same = logits[which].sharpened(*how)
        distribution = few.beyond(draft.sharpened(1.0, 1.0, 4)).dense()
        torch.testing.assert_close(distribution, kept.beyond(drafted.sharpened(1.0, 1.0, 4)).dense(), atol=1e-4, rtol=0)
        distribution = same.beyond(draft[theirs]).dense()
        torch.testing.assert_close(distribution, kept[which].beyond(drafted[theirs]).dense(), atol=1e-4, rtol=0)
        guided = few.guided(draft, 0.7).dense()
        torch.testing.assert_close(guided, kept.guided(drafted, 0.7).dense(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("symbols", SIZES)
def test_what_is_joined_stands_one_after_another(symbols):
    parts = [made(kind, symbols, seed=seed) for seed, kind in enumerate(KINDS)]
    agree(joined([one for one, _ in parts]), Table(torch.cat([p.dense() for _, p in parts])), 1e-4)
    which = torch.tensor([2, 5])
    some = [parts[0][0][which], parts[1][0], parts[2][0][which]]
    expected = torch.cat([parts[0][1][which].dense(), parts[1][1].dense(), parts[2][1][which].dense()])
    agree(joined(some), Table(expected), 1e-4)
    mixed = [parts[0][1], parts[0][0].sharpened(top_k=2), parts[1][0]]
    expected = [parts[0][1], parts[0][1].sharpened(top_k=2), parts[1][1]]
    agree(joined(mixed), Table(torch.cat([p.dense() for p in expected])), 1e-4)


@pytest.mark.parametrize("symbols", [5, 300, 5000])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_what_cannot_be_is_never_drawn(symbols, kind):
    x = drawn_logits(symbols, 6, 2)
    x[:, 0] = x[:, -1] = -torch.inf
    x[1, 2:] = -torch.inf
    x[2:4, symbols // 3 + 1 :] = -torch.inf
    x = x.to(getattr(torch, kind))
    logits, table = Logits(x), exact(x)
    agree(logits, table)
    agree(logits.guided(Logits(x), 1.5), table, 1e-4)
    other = drawn_logits(symbols, 6, 3)
    other[:, 0] = -torch.inf
    agree(logits.guided(Logits(other), 1.5), table.guided(exact(other), 1.5), 1e-4)
    for how in SHARP:
        agree(logits.sharpened(*how), table.sharpened(*how), 1e-4)
    ends = torch.tensor([2.0**-53, 1 - 2.0**-53], dtype=torch.float64)
    for u in ends:
        for distribution in (logits, logits.sharpened(0.8), logits.sharpened(top_p=0.9)):
            assert bool((table.of(distribution.draw(u.expand(6).clone())) > 0).all())


@pytest.mark.parametrize("symbols", [257, 5000])
def test_equal_symbols_are_taken_lowest_first(symbols):
    """As bfloat16 makes them. Mutant: torch.topk, which takes any of them."""
    x = torch.zeros(3, symbols, dtype=torch.bfloat16)
    x[1, symbols - 200 :: 3] = 1.0
    x[2, 1::7] = 2.0
    logits, table, place = Logits(x), exact(x), torch.arange(symbols)
    for how in ((0.0, 1.0, None), (1.0, 1.0, 1), (1.0, 1.0, 9), (1.0, 0.2, None), (0.5, 0.3, 30)):
        kept = (logits.sharpened(*how).dense() > 0).gather(1, x.float().argsort(dim=1, descending=True, stable=True))
        number = kept.sum(1)
        assert torch.equal(kept, place < number.unsqueeze(1)), how
        fewest = (table.sharpened(*how).dense() > 0).sum(1)
        assert bool((number <= fewest).all())
        heated = table.sharpened(how[0]).dense().sort(1, descending=True).values  # the resolution may take off top_p
        lost = (heated * ((place >= number.unsqueeze(1)) & (place < fewest.unsqueeze(1)))).sum(1)
        assert bool((lost <= (1.01 * logits.resolution if how[1] < 1 else 0)).all()), how
    assert torch.equal(logits.best, table.best)


def test_what_is_rare_beside_a_likely_symbol_is_drawn():
    """A block of one symbol of mass 1 and 255 of 1e-9, whose sum in float32 is 1. Mutant: that sum."""
    x = torch.full((1, 2048), -torch.inf)
    x[0, :256] = math.log(1e-9)
    x[0, 0] = 0.0
    u = 1 - torch.tensor([2e-7, 1e-7, 5e-8, 1e-8, 1e-12], dtype=torch.float64)
    found = torch.cat([Logits(x).draw(part) for part in u.split(1)])
    expected = torch.cat([exact(x).draw(part) for part in u.split(1)])
    assert bool(((found - expected).abs() <= 1).all())
    assert bool((found > 0).all())


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("symbols", "kind"), a_third([5, 257, 1500], KINDS))
def test_draws_follow_the_law(symbols, kind):
    """Of one position asked 12000 times; mutant: uniforms that are squared."""
    logits, table = made(kind, symbols)
    which = torch.full((12_000,), 3)
    u = uniform(5, Stream.TOKEN, torch.arange(len(which)), torch.tensor(0))
    distribution = table.dense()[3].numpy()
    for how in ((1.0, 1.0, None), (0.7, 0.9, None)):
        p = sharp(distribution.tolist(), *how) if how[0] != 1 else distribution
        asked = logits[which].sharpened(*how)
        right, wrong = (asked.draw(rng) for rng in (u, u**1.1))
        assert p_value(right, np.array(p)) > ALARM > p_value(wrong, np.array(p))


def p_value(tokens, distribution):
    counts, expected = np.bincount(tokens, minlength=len(distribution)), distribution * len(tokens)
    if counts[distribution == 0].any():
        return 0.0
    large = expected >= 5
    seen, wanted = np.append(counts[large], counts[~large].sum()), np.append(expected[large], expected[~large].sum())
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    return chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(seen) - 1)


@EXAMPLES
@given(st.integers(2, 700), st.integers(0, 5), st.integers(0, 1000), st.booleans())
def test_probabilities_are_probabilities(symbols, places, seed, sparse):
    generator = torch.Generator().manual_seed(seed)
    x = 6 * torch.randn(places, symbols, generator=generator)
    if sparse:
        x[torch.rand(x.shape, generator=generator) < 0.7] = -torch.inf
        x[:, symbols // 2] = 1.0
    logits = Logits(x)
    torch.testing.assert_close(logits.dense().sum(1), torch.ones(places))
    assert bool((logits.entropy >= 0).all())
    assert bool((logits.entropy <= math.log(symbols) + 1e-5).all())
    assert bool((logits.margin >= -1e-7).all())
    assert bool((logits.margin <= logits.confidence + 1e-7).all())
    torch.testing.assert_close(logits.of(logits.best), logits.confidence)
    u = torch.rand(places, generator=generator, dtype=torch.float64)
    assert bool((logits.of(logits.draw(u)) > 0).all())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("symbols", SIZES)
def test_how_far_one_is_from_another(symbols, kind):
    """sum p log(p / q) of logits, and of the likeliest symbols, as of their tables; several symbols of a position."""
    (logits, table), (other, of_other) = made(kind, symbols), made(kind, symbols, seed=1)
    which, theirs = torch.tensor([6, 1, 1, 3]), torch.tensor([0, 2, 5, 3])
    for one, two, p, q in (
        (logits, other, table, of_other),
        (logits[which], other[theirs], table[which], of_other[theirs]),
        (logits[which].sharpened(0.5), other[theirs], table[which].sharpened(0.5), of_other[theirs]),
        (logits.sharpened(top_k=2), other, table.sharpened(top_k=2), of_other),
    ):
        p, q = p.dense().double(), q.dense().double()
        nats = torch.xlogy(p, p) - torch.xlogy(p, q)
        possible = nats.sum(1).isfinite()
        found = one.divergence(two)
        torch.testing.assert_close(found[possible], nats.sum(1).clamp(min=0)[possible], atol=2e-4, rtol=2e-4)
        assert bool((found[~possible] > 1).all())
    assert logits.divergence(logits).tolist() == pytest.approx([0.0] * 7, abs=1e-5)
    assert len(logits[which[:0]].divergence(other[which[:0]])) == 0
    asked = torch.arange(21).view(7, 3) % symbols
    for one in (logits, table, logits.sharpened(top_k=2)):
        torch.testing.assert_close(one.of(asked), torch.stack([one.of(column) for column in asked.unbind(1)], 1))


def test_logits_are_held_against_logits_alone():
    with pytest.raises(UnmaskError, match="logits are compared with Table; expected logits of the same symbols"):
        Logits(torch.zeros(2, 5)).beyond(table([[1] * 5] * 2))


def test_a_head_is_applied_to_what_is_asked_for():
    """Once to all positions where its answers may be kept; never to more than one piece at once."""
    seen = []

    def head(states):
        seen.append(len(states))
        return states @ torch.eye(3, 700)

    logits = Logits(torch.randn(9, 3, generator=torch.Generator().manual_seed(0)), head, 700)
    assert not seen
    picked = logits[torch.tensor([1, 5])]
    for _ in range(2):
        _ = logits.confidence, picked.entropy, picked.best, picked.draw(torch.tensor([0.2, 0.7], dtype=torch.float64))
    assert seen == [9]


def test_tensors_are_tables_row_by_row():
    said = torch.rand(2, 3, 4, dtype=torch.float64)
    assert torch.equal(as_marginals(said).dense(), said.view(6, 4))
    logits = Logits(torch.zeros(1, 4))
    assert as_marginals(logits) is logits
