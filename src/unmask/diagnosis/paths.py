"""log p(x) of texts under samplers with many paths to a text: a sum over the sets of positions that steps reveal.

    p(x) = sum over (F_1, F_2, ..) of prod_n t(F_n | x where it is revealed)

t(F) is the probability that a step reveals F and writes x_F. With a random order it is prod_{i in F} p(x_i) / C(h, k).
Low-confidence draws everywhere and keeps the k surest tokens. The draws that it rejects are summed in closed form, as
they are independent: with m the lowest score in F,

    t(F) = prod_{i in F} p(x_i) prod_{j not in F} P(the token drawn at j scores less than m)

exact      a sum over the 2^h sets that can be hidden, not over paths
estimated  importance sampling of paths. A path takes F with probability t(F) / T, T = sum_F t(F), and has the weight
           w = prod_n T_n: E w = p(x). The interval is Gaffke's bound of E w (core/means.py), as few paths may carry it;
           `error` is that of log(mean w), by the delta method, and log(mean w) is below log p on average.
           T needs no list of sets: given m, each position is in F or not, so T_m is a coefficient of
           prod_j (b_j + a_j z), a_j = p(x_j) where x_j scores more than m, b_j the chance of a rejected draw.

Gradients are those of p, if the denoiser's probabilities carry them: of an estimate, w has the gradient
w sum_n grad log t(F_n), which is unbiased too. R rows of contexts, h positions hidden in a block, k revealed in a step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.denoisers import Denoiser
from unmask.denoisers.marginals import EXACT, Table
from unmask.diagnosis.enumeration import stages
from unmask.samplers import Sampler
from unmask.samplers.rules.fixed_orders import FirstHitting, FixedSize
from unmask.samplers.rules.low_confidence import LowConfidence
from unmask.samplers.schedules import sizes

MOST_CONTEXTS = 2**15  # of all texts together, for an exact sum
CELLS = 2**22  # numbers at once


class Block(NamedTuple):
    """A block of positions, and how many of them each step reveals."""

    inside: Tensor  # Bool (L)
    counts: list[int]


class Rule(NamedTuple):
    """How a step chooses its positions, in rows with given tokens."""

    given: Tensor  # Bool (L)
    random: bool
    temperature: float = 1.0  # of the draws; scores are at 1
    by_position: bool = False  # equal scores


def rule_of(sampler: Sampler, hidden: Tensor, delta: Tensor) -> tuple[Rule, list[Block]] | None:
    """The rule and the blocks of a row with hidden positions, Bool (L); None for a rule without these chances."""
    inner, parts = stages(sampler, hidden, delta)
    if type(inner) in (FixedSize, FirstHitting):
        rule = Rule(~hidden, True)
    elif type(inner) is LowConfidence and not inner.last and inner.dtype == "float32":
        rule = Rule(~hidden, False, inner.temperature, inner.ties == "position")
    else:
        return None

    blocks = []
    for inside, part in parts:
        size = int(inside.sum())
        each = [1] * size if type(inner) is FirstHitting else sizes(part, size).tolist()
        blocks.append(Block(inside, [count for count in each if count]))
    return rule, blocks


def exact(denoiser: Denoiser, rule: Rule, blocks: list[Block], texts: Tensor, start: Tensor) -> Tensor:
    """(B): log p of texts (B, L) from a start (B, L) with the same hidden positions in all rows."""
    which = torch.arange(len(texts))
    hidden = start == denoiser.vocabulary
    mass = torch.ones(len(texts), dtype=torch.float64)
    # of a set of hidden positions as a number
    powers = 2 ** torch.arange(texts.shape[1])
    for inside, counts in blocks:
        for count in counts:
            rows = _rows(denoiser, int(inside.sum()), count)
            parts = zip(which.split(rows), hidden.split(rows), mass.split(rows), strict=True)
            moved = [_moved(denoiser, rule, texts, inside, count, *part) for part in parts]
            which, hidden, mass = map(torch.cat, zip(*moved, strict=True))

            # rows with one text and one set of hidden positions become one
            keys = torch.stack([which, (hidden * powers).sum(1)], 1)
            distinct, index = keys.unique(dim=0, return_inverse=True)
            mass = torch.zeros(len(distinct), dtype=torch.float64).index_add(0, index, mass)
            which = distinct[:, 0]
            hidden = distinct[:, 1:] // powers % 2 == 1
    return torch.zeros(len(texts), dtype=torch.float64).index_add(0, which, mass).log()


def _moved(
    denoiser: Denoiser,
    rule: Rule,
    texts: Tensor,
    inside: Tensor,
    count: int,
    which: Tensor,
    hidden: Tensor,
    mass: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """(text, hidden positions, mass) of rows after a step, one for each set."""
    places = _places(hidden, inside)
    sets = torch.combinations(torch.arange(places.shape[1]), count).expand(len(places), -1, -1)
    chances = _chances(denoiser, rule, texts[which], hidden, places, sets)

    revealed = places.gather(1, sets.flatten(1)).view(-1, count)
    many = sets.shape[1]
    left = hidden.repeat_interleave(many, 0).scatter(1, revealed, False)
    return which.repeat_interleave(many), left, (mass.unsqueeze(1) * chances).flatten()


def estimated(
    denoiser: Denoiser, rule: Rule, blocks: list[Block], texts: Tensor, start: Tensor, generator: torch.Generator
) -> Tensor:
    """(R): log w of one path to each text (R, L)."""
    hidden = start == denoiser.vocabulary
    nats = torch.zeros(len(texts), dtype=torch.float64)
    for inside, counts in blocks:
        for count in counts:
            parts = []
            places = _places(hidden, inside)
            rows = _rows(denoiser, places.shape[1], count)
            for x, left, some in zip(texts.split(rows), hidden.split(rows), places.split(rows), strict=True):
                taken, sets = _drawn(denoiser, rule, x, left, some, count, generator)
                chance = _chances(denoiser, rule, x, left, some, sets.unsqueeze(1)).squeeze(1)
                parts.append((taken, chance.clamp(min=torch.finfo(torch.float64).tiny).log(), sets))

            total, log, sets = map(torch.cat, zip(*parts, strict=True))

            # the value is log T, and the gradient that of log t(F)
            nats = nats + total + log - log.detach()
            hidden = hidden.scatter(1, places.gather(1, sets), False)
    return nats


@torch.no_grad()
def _drawn(
    denoiser: Denoiser,
    rule: Rule,
    x: Tensor,
    hidden: Tensor,
    places: Tensor,
    count: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """(log T (R), F (R, k)): F drawn with probability t(F) / T, as indices of the positions (R, h)."""
    p, scores, tokens = _predicted(denoiser, rule, x, hidden, places)
    own = p.gather(2, tokens.unsqueeze(2)).squeeze(2)
    size = places.shape[1]

    if rule.random:  # no last token: each position is in F or not
        inside, outside, degree = own.unsqueeze(1), torch.ones_like(own).unsqueeze(1), count
    else:
        mine = scores.gather(2, tokens.unsqueeze(2)).squeeze(2)  # (R, h)
        earlier = torch.arange(size) < torch.arange(size).unsqueeze(1)  # [m, j]
        above = (mine.unsqueeze(1) > mine.unsqueeze(2)) | ((mine.unsqueeze(1) == mine.unsqueeze(2)) & earlier)
        last = torch.arange(size).view(1, -1, 1).expand(len(p), -1, -1)
        each = torch.eye(size, dtype=torch.bool).expand(len(p), -1, -1)
        rejected = _rejected(p, scores, mine.unsqueeze(2), last, rule, each)
        inside = torch.where(above, own.unsqueeze(1), 0.0)  # (R, m, j)
        outside = torch.where(each, own.unsqueeze(1), rejected)
        degree = count - 1

    products, log = _products(inside, outside, degree)
    total = log.logsumexp(1) - (math.log(math.comb(size, count)) if rule.random else 0.0)
    m = torch.multinomial((log - log.amax(1, keepdim=True)).exp().nan_to_num(1.0), 1, generator=generator)
    m = m.squeeze(1)

    # from the last position to the first: whether it is in F, given how many are left for those before it
    rows = torch.arange(len(p))
    left = torch.full((len(p),), degree)
    chosen = torch.zeros(own.shape, dtype=torch.bool)
    for j in reversed(range(size)):
        known = products[j][rows, m]  # (R, degree + 1): of the positions before j
        with_j = known[rows, (left - 1).clamp(min=0)] * inside[rows, m, j] * (left > 0)
        without = known[rows, left] * outside[rows, m, j]
        u = torch.rand(len(p), generator=generator, dtype=torch.float64)
        chosen[:, j] = u * (with_j + without) < with_j

        left = left - chosen[:, j].long()

    if not rule.random:
        chosen[rows, m] = True
    first = torch.arange(size) < count
    chosen = torch.where((total == -torch.inf).unsqueeze(1), first, chosen)  # impossible: any path
    return total, chosen.nonzero()[:, 1].view(-1, count)


def _products(inside: Tensor, outside: Tensor, degree: int) -> tuple[list[Tensor], Tensor]:
    """Scaled coefficients (R, M, degree + 1) of prod (outside + inside z) before each position; log of the last one."""
    rows, many, size = inside.shape
    now = torch.zeros((rows, many, degree + 1), dtype=torch.float64)
    now[:, :, 0] = 1.0
    products = []
    scale = torch.zeros((rows, many), dtype=torch.float64)

    for j in range(size):
        products.append(now)
        grown = now * outside[:, :, j : j + 1]
        grown[:, :, 1:] += now[:, :, :-1] * inside[:, :, j : j + 1]
        most = grown.amax(2).clamp(min=torch.finfo(torch.float64).tiny)
        now = grown / most.unsqueeze(2)
        scale = scale + most.log()
    return products, now[:, :, degree].log() + scale


def _places(hidden: Tensor, inside: Tensor) -> Tensor:
    """(R, h): the hidden positions of the block, the same number in each row."""
    return (hidden & inside).nonzero()[:, 1].view(len(hidden), -1)


def _rows(denoiser: Denoiser, positions: int, count: int) -> int:
    """Contexts at once: their sets and symbols at each position fit."""
    return max(CELLS // (positions * max(denoiser.vocabulary, min(math.comb(positions, count), MOST_CONTEXTS))), 1)


def _predicted(
    denoiser: Denoiser, rule: Rule, x: Tensor, hidden: Tensor, places: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(p of the draws (R, h, V), scores (R, h, V), tokens (R, h)) at the hidden positions (R, h) of texts (R, L)."""
    given = torch.where(rule.given, x, denoiser.vocabulary)
    table = denoiser.probabilities(torch.where(hidden, denoiser.vocabulary, x), places, given=given)
    p = Table(table.flatten(0, 1)).sharpened(rule.temperature).dense().view(table.shape)
    return p, torch.round(table.detach() / EXACT), x.gather(1, places)


def _chances(denoiser: Denoiser, rule: Rule, x: Tensor, hidden: Tensor, places: Tensor, sets: Tensor) -> Tensor:
    p, scores, tokens = _predicted(denoiser, rule, x, hidden, places)
    own = p.gather(2, tokens.unsqueeze(2)).squeeze(2)  # (R, h)
    size = places.shape[1]
    inside = torch.zeros((*sets.shape[:2], size), dtype=torch.bool).scatter_(2, sets, True)
    written = torch.where(inside, own.unsqueeze(1), 1.0).prod(2)
    if rule.random:
        return written / math.comb(size, sets.shape[2])
    mine = torch.where(inside, scores.gather(2, tokens.unsqueeze(2)).squeeze(2).unsqueeze(1), torch.inf)
    lowest = mine.amin(2, keepdim=True)  # (R, F, 1)
    last = torch.where(mine == lowest, torch.arange(size), -1).amax(2, keepdim=True)
    return written * torch.where(inside, 1.0, _rejected(p, scores, lowest, last, rule, inside)).prod(2)


def _rejected(p: Tensor, scores: Tensor, lowest: Tensor, last: Tensor, rule: Rule, inside: Tensor) -> Tensor:
    """(R, F, h): the probability that the token drawn at a position (h) scores less than F's last token."""
    step = max(CELLS // p.numel(), 1)  # sets at once
    parts = zip(lowest.split(step, 1), last.split(step, 1), inside.split(step, 1), strict=True)
    return torch.cat([_below(p, scores, *part, rule) for part in parts], 1)


def _below(p: Tensor, scores: Tensor, lowest: Tensor, last: Tensor, inside: Tensor, rule: Rule) -> Tensor:
    others = scores.unsqueeze(1)
    equal = others == lowest.unsqueeze(3)
    below = others < lowest.unsqueeze(3)
    if rule.by_position:  # the later position loses
        below |= equal & (torch.arange(p.shape[1]) > last).unsqueeze(3)
    elif bool((equal & ~inside.unsqueeze(3) & (p.unsqueeze(1) > 0)).any()):
        raise UnmaskError("scores of low-confidence are equal; expected ties='position' for a likelihood. Pass it")
    return (p.unsqueeze(1) * below).sum(3)
