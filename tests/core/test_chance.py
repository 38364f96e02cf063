"""Chance: published answers, three implementations, independence of neighbours, and the exactness of a draw.

Statistical tests run at fixed keys with a false-alarm rate of 1e-6 each. Beside each stands a mutant, a plausible
wrong implementation that must fail the very same check: a test that cannot fail says nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from functools import partial

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from tests.needs import needs
from unmask.core.chance import Stream, _uniform_torch, categorical, check_seed, philox, uniform, uniform_at
from unmask.core.errors import UnmaskError

ALARM = 1e-6
WORD = 2**32 - 1
M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
quick = settings(deadline=None, database=None, max_examples=100)


def cipher(c, k0, k1, steps=10):
    """Philox from the paper, for Python integers of any size or arrays of uint64; fewer rounds make a mutant."""
    for _ in range(steps):
        a, b = M0 * c[0], M1 * c[2]
        c = ((b >> 32) ^ c[1] ^ k0, b & WORD, (a >> 32) ^ c[3] ^ k1, a & WORD)
        k0, k1 = (k0 + W0) & WORD, (k1 + W1) & WORD
    return c


def decipher(c, k0, k1):
    """The counter that the ten rounds take to c."""
    for i in reversed(range(10)):
        c0, c2 = c[3] * pow(M0, -1, 2**32) & WORD, c[1] * pow(M1, -1, 2**32) & WORD
        first, second = (k0 + i * W0) & WORD, (k1 + i * W1) & WORD
        c = (c0, c[0] ^ (M1 * c2 >> 32) ^ first, c2, c[2] ^ (M0 * c0 >> 32) ^ second)
    return c


def reference(seed, stream, row, position, visit, steps=10):
    c = cipher((position, row & WORD, row >> 32, stream << 24 | visit), seed & WORD, seed >> 32, steps)
    return (2 * (c[0] << 20 | c[1] >> 12) + 1) * 2.0**-53


def chi_square(counts, expected):
    """Two-sided p-value: too even is as bad as too uneven."""
    statistic = ((counts - expected) ** 2 / expected).sum()
    return 2 * min(chi2.sf(statistic, len(counts) - 1), chi2.cdf(statistic, len(counts) - 1))


@numba.njit
def in_a_kernel(seed, stream, row, position, visit):
    return uniform_at(seed, stream, row, position, visit)


@pytest.mark.parametrize(
    "words",
    [  # counter, key and answer
        "00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd",
        "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1",
    ],
)
def test_philox_gives_the_published_answers(words):
    """Random123's vectors, from the kernel and from this file's reference. Mutant: nine rounds."""
    words = tuple(int(word, 16) for word in words.split())
    counter, key, answer = words[:4], words[4:6], words[6:]
    assert philox(*map(np.uint64, counter + key)) == answer
    assert cipher(counter, *key) == answer
    assert decipher(answer, *key) == counter
    assert cipher(counter, *key, steps=9) != answer


@quick
@given(
    seed=st.integers(0, 2**63 - 1),
    stream=st.sampled_from(Stream),
    row=st.integers(0, 2**63 - 1) | st.integers(2**32 - 2, 2**32 + 2),
    position=st.integers(0, 2**32 - 1),
    visit=st.integers(0, 2**24 - 1),
)
def test_kernel_torch_and_big_integers_agree(seed, stream, row, position, visit):
    """Bit for bit over the whole key. Mutants: a sign bit that leaks, and a row or a seed cut to 32 bits."""
    wanted = reference(seed, int(stream), row, position, visit)
    tensors = [torch.tensor([x]) for x in (row, position, visit)]
    assert uniform(seed, stream, *tensors).tolist() == [wanted]
    assert _uniform_torch(seed, int(stream), *tensors).tolist() == [wanted]
    assert in_a_kernel(seed, int(stream), row, position, visit) == wanted
    assert in_a_kernel(seed, stream, row, position, visit) == wanted


def test_broadcasts_over_any_layout():
    """Short integers, views, scalars and nothing at all. Mutant: pairing memory with memory instead of broadcasting."""
    rows = torch.arange(6, dtype=torch.int32)[::2].view(3, 1, 1)
    positions, visits = torch.arange(8).view(4, 2).t()[0].view(4, 1), torch.tensor([0, 2**24 - 1])
    u = uniform(5, Stream.ORDER, rows, positions, visits)
    np.testing.assert_array_equal(u, reference(5, 1, *(x.numpy().astype(np.uint64) for x in (rows, positions, visits))))
    assert u.dtype == torch.float64
    assert torch.equal(uniform(5, Stream.ORDER, rows, positions), u[..., :1])
    assert uniform(5, Stream.ORDER, torch.tensor(7), torch.tensor(9), 4).item() == reference(5, 1, 7, 9, 4)
    assert uniform(5, Stream.ORDER, rows[:0], positions).shape == (0, 4, 1)


def test_blocks_change_nothing():
    """Mutant: numbering the draws in the order of evaluation."""
    rows, positions = torch.arange(2000).view(-1, 1), torch.arange(50)
    whole = uniform(1, Stream.TOKEN, rows, positions)
    assert torch.equal(uniform(1, Stream.TOKEN, rows[1000:], positions), whole[1000:])


@needs("cuda")  # the torch path; elsewhere it is checked on the CPU
def test_cuda_gives_the_same_numbers():
    """Bit for bit across the 32-bit boundary of the row. Mutant: 32-bit or signed high products on the device."""
    rows, positions = torch.arange(2**32 - 500, 2**32 + 500).view(-1, 1), torch.arange(100)
    u = uniform(2**63 - 1, Stream.TOKEN, rows.cuda(), positions.cuda(), 2**24 - 1)
    assert torch.equal(u.cpu(), uniform(2**63 - 1, Stream.TOKEN, rows, positions, 2**24 - 1))


@pytest.mark.parametrize(("k", "extreme"), [(0, 2.0**-53), (2**52 - 1, 1 - 2.0**-53)])
def test_both_extremes_are_reached(k, extreme):
    """At the key that yields k, found by decryption. Mutants: 2^-53 k reaches 0, and (k + 1/2) 2^-53 rounds to 1."""
    seed, last, high = 2**62 + 1, WORD, WORD
    free = iter(range(2**12))
    while last >> 24 >= len(Stream) or high >= 2**31:  # until the words that k leaves free make a lawful key
        words = (k >> 20, (k << 12 | next(free)) & WORD, 0, 0)
        position, low, high, last = decipher(words, seed & WORD, seed >> 32)
    row = torch.tensor(high << 32 | low)
    assert uniform(seed, Stream(last >> 24), row, torch.tensor(position), last % 2**24).item() == extreme


def test_a_uniform_is_an_odd_multiple_of_2_to_minus_53():
    """Strictly inside (0, 1), and 1 - u is a uniform too. Mutant: 53 bits, of which every other number is even."""
    u = uniform(0, Stream.TOKEN, torch.arange(10**5), torch.tensor(0)) * 2.0**53
    assert ((u % 2 == 1) & (u > 0) & (u < 2.0**53)).all()


def test_seeds_and_streams_are_what_they_say():
    """Mutants: two streams of one number (an IntEnum makes a silent alias), and a seed outside 63 bits let through."""
    assert [*map(int, Stream.__members__.values())] == [*range(len(Stream))]
    assert [check_seed(seed) for seed in (0, 2**63 - 1)] == [0, 2**63 - 1]
    for seed in (-1, 2**63):
        with pytest.raises(UnmaskError, match="seed"):
            check_seed(seed)


# Independence: 2^18 pairs (u at a key, u at its neighbour), six bits of each, and no key in two pairs.

HIGH, LOW = 47, 1  # where the bits start, of the 53 of 2k + 1
NEIGHBOURS = [("seed", 1), ("seed", 2**32), ("stream", 1), ("row", 1), ("row", 2**32), ("position", 1), ("visit", 1)]


def p_value(sampler, name, step, shift, neighbour_shift):
    """Of chi-square on the grid of 64 x 64."""
    row, position, visit = np.indices((128, 128, 16), dtype=np.uint64) * 2
    key = {"seed": 2026, "stream": 2, "row": row, "position": position, "visit": visit}
    pair = sampler(**key), sampler(**key | {name: key[name] + step})
    a, b = ((u * 2.0**53).astype(np.int64) >> i & 63 for u, i in zip(pair, (shift, neighbour_shift), strict=True))
    return chi_square(np.bincount((64 * a + b).ravel(), minlength=4096), 64)


def ours(seed, stream, row, position, visit):
    return uniform(seed, Stream(stream), *(torch.from_numpy(x.view(np.int64)) for x in (row, position, visit))).numpy()


def lattice(seed, stream, row, position, visit):
    k = row * 0xBF58476D1CE4E5B9 + position * 0x94D049BB133111EB + visit * 0xD6E8FEB86659FD93
    k = (k + (seed * 0x9E3779B97F4A7C15 + stream * 0xA0761D6478BD642F) % 2**64) % 2**52
    return (2 * k + 1) * 2.0**-53


def four_steps(**key):
    return reference(**key, steps=4)


@pytest.mark.parametrize("bits", [(HIGH, HIGH - 6), (LOW + 6, LOW), (HIGH, LOW)])
def test_one_number_is_uniform(bits):
    """In twelve of its bits. Mutants: a linear hash of the key, and Philox with four rounds."""
    assert p_value(ours, "row", 0, *bits) > ALARM
    assert max(p_value(mutant, "row", 0, *bits) for mutant in (lattice, four_steps)) < ALARM


@pytest.mark.parametrize("bits", [HIGH, LOW])
@pytest.mark.parametrize(("name", "step"), NEIGHBOURS)
def test_neighbours_are_independent(name, step, bits):
    """Mutants: a linear hash of the key, Philox with four rounds, and Philox with this bit of the key dropped."""

    def deaf(**key):
        return ours(**key | {name: key[name] & (2**64 - 1 - step)})

    assert p_value(ours, name, step, bits, bits) > ALARM
    assert max(p_value(mutant, name, step, bits, bits) for mutant in (lattice, four_steps, deaf)) < ALARM


# Categorical draws from one row of probabilities.


def draw(p, u):
    return torch.cat([categorical(p.expand(len(some), -1), some) for some in u.split(2**23 // len(p))])


def search(p, u, dtype=torch.float64, right=True, scale=True):
    """The textbook inverse CDF on one level, with three ways to get it wrong."""
    cdf = p.cumsum(-1, dtype=dtype)
    return torch.searchsorted(cdf, u.to(dtype) * (cdf[-1] if scale else 1), right=right)


def test_law_of_a_small_vocabulary():
    """Chi-square on unnormalised masses with zeros, which are never drawn. Mutant: a total taken to be one."""
    p, u = torch.tensor([0.0, 3, 0, 1, 2, 0]), uniform(3, Stream.TOKEN, torch.arange(6 * 2**17), torch.tensor(0))
    counts, mutant = (np.bincount(x, minlength=6) for x in (draw(p, u), search(p, u, scale=False)))
    support, expected = [1, 3, 4], np.array([3, 1, 2]) * 2**17
    assert counts[support].sum() == len(u)
    assert chi_square(counts[support], expected) > ALARM > chi_square(mutant[support], expected)


def misplaced(sampler, symbols, bits, scale, seed):
    """How many u at, just below and just above boundaries of an exact CDF get a symbol that Fraction would not."""
    rng = np.random.default_rng(seed)
    cdf = [*np.sort(rng.integers(0, 2**bits, symbols - 1)).tolist(), 2**bits]  # few bits, many symbols of mass zero
    p = torch.tensor(np.diff(cdf, prepend=0) * 2.0**scale, dtype=torch.float32 if bits < 24 else torch.float64)
    at = rng.choice(cdf, 20) / 2**bits
    u = np.concatenate([at, np.nextafter(at, 0), np.nextafter(at, 1)])
    u = u[(u > 0) & (u < 1)]
    wanted = [bisect_right(cdf, Fraction(x) * 2**bits) for x in u.tolist()]
    return (sampler(p, torch.from_numpy(u)) != torch.tensor(wanted)).sum().item()


@quick
@given(
    symbols=st.integers(2, 40) | st.integers(1000, 1050) | st.integers(1281, 5000),
    bits=st.sampled_from([4, 12, 20, 40]),
    scale=st.sampled_from([-40, -20, 0]),
    seed=st.integers(0, 999),
)
def test_boundaries_are_exact(symbols, bits, scale, seed):
    """Mutants: a boundary given to the symbol on its left, and thresholds in float32."""
    assert misplaced(draw, symbols, bits, scale, seed) == 0
    for wrong in ({"right": False}, {"dtype": torch.float32}):
        assert misplaced(partial(search, **wrong), 40, 20, 0, 0) > 0


@quick
@given(symbols=st.integers(1025, 5000) | st.sampled_from([1280, 2048]), double=st.booleans(), seed=st.integers(0, 999))
def test_two_levels_draw_what_one_level_draws(symbols, double, seed):
    """At middles of intervals, the last one's too, in a batch of rows. Mutant: the remainder after the blocks lost."""
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(6, symbols, generator=generator, dtype=torch.float64 if double else torch.float32).sub(0.5).relu()
    p[:, -1] = 0.5
    wanted = torch.cat([torch.full((6, 1), symbols - 1), p.multinomial(3, generator=generator)], 1)
    cdf = p.cumsum(-1, dtype=torch.float64)
    u = ((cdf - p / 2) / cdf[:, -1:]).gather(1, wanted).T
    assert torch.equal(categorical(p.repeat(4, 1), u.reshape(-1)), wanted.T.reshape(-1))


@pytest.mark.parametrize("symbols", [20, 1000, 1025, 1280, 5000])
def test_no_rounding_reaches_a_symbol_of_zero(symbols):
    """The largest uniform draws the last symbol of positive mass, and the ends of blocks and their neighbours too.
    Mutant: probabilities normalised first, whose CDF can end below 1 - 2^-53."""
    p = torch.rand(400, symbols, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p[::2, -2:] = p[:, 250:256] = p[:, 506:512] = 0
    p[:, : (symbols - 1) // 256 * 256] *= 1e-9  # so that the last block decides how the total is rounded
    largest, cdf = torch.tensor(1 - 2.0**-53, dtype=torch.float64), (p / p.sum(-1, keepdim=True)).cumsum(-1)
    assert categorical(p, largest.expand(400)).tolist() == [symbols - 3, symbols - 1] * 200
    assert ((cdf <= largest).sum(-1) == symbols).any()
    for end in cdf[:, 255::256].T:
        for u in (end, end.nextafter(largest), end.nextafter(-largest)):
            assert (p.gather(1, categorical(p, u.minimum(largest))[:, None]) > 0).all()
    tiny = torch.tensor([[0, 5e-324, 0]], dtype=torch.float64)
    assert categorical(tiny, largest[None]) == 1  # u times the total rounds up


# The tail: one head and 262,144 symbols that are rare together.

TAIL = 2**18


def race(p, rows, dtype, bits):
    """Whether argmax p / E, E = -log u, u of so many bits, is in the tail. Of equal symbols the largest u decides, and
    the largest of TAIL uniforms is distributed as one to the power 1 / TAIL."""
    u = uniform(9, Stream.TOKEN, torch.arange(rows).view(-1, 1), torch.arange(2)) ** torch.tensor([1, 1 / TAIL])
    e = -((u * 2**bits).floor() / 2**bits).to(dtype).log()
    return p[-1] * e[:, 0] > p[0] * e[:, 1]


def test_rare_symbols_are_drawn_as_often_as_they_should():
    """Tail of mass 1e-4, 2^20 draws: how often (binomial) and where (chi-square). Mutant: the exponential race in
    float32, where 4e-10 / 2^-24 < 1 / (24 log 2), so that the tail wins only if the head has u = 0; float64 passes."""
    p, rows = torch.full((1 + TAIL,), 1e-4 / TAIL), 2**20
    p[0] = 1 - 1e-4
    lowest, highest = binom.ppf([ALARM / 2, 1 - ALARM / 2], rows, (p[1:].double().sum() / p.double().sum()).item())
    u = uniform(8, Stream.TOKEN, torch.arange(rows), torch.tensor(0))
    drawn = draw(p, u.topk(200).values)
    tail = drawn[drawn > 0]
    assert drawn[-1] == 0  # and so it is for every smaller u
    assert lowest <= len(tail) <= highest
    assert lowest <= race(p, rows, torch.float64, 53).sum() <= highest
    assert race(p, rows, torch.float32, 24).sum() < lowest
    assert chi_square(np.bincount((tail - 1) * 16 // TAIL, minlength=16), len(tail) / 16) > ALARM


@pytest.mark.parametrize(("tail", "head"), [(1000, 0), (TAIL, 0), (TAIL, TAIL // 2)])
def test_every_rare_symbol_can_be_drawn(tail, head):
    """Tail of mass 2^-27 or less, symbols at the middle of their intervals. Mutants: a CDF, or uniforms, in float32."""
    p = torch.full((1 + tail,), 2.0**-45)
    p[head] = 1
    edges = torch.tensor([0, 1, 255, 256, 257, tail // 2 - 1, tail // 2, tail // 2 + 1, tail - 256, tail - 1, tail])
    symbols = torch.cat([edges, torch.randint(tail, (100,), generator=torch.Generator().manual_seed(0))])
    cdf = p.cumsum(-1, dtype=torch.float64)  # exact, as the masses are dyadic
    u = (cdf - p / 2)[symbols] / cdf[-1]
    assert torch.equal(draw(p, u), symbols)
    assert not torch.equal(search(p, u, dtype=torch.float32), symbols)
    assert not torch.equal(draw(p, u.float().double()), symbols)
