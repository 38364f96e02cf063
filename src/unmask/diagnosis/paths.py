"""log p(x) of texts under samplers with many paths to a text: a sum over the sets of positions that steps reveal.

    p(x) = sum over (F_1, F_2, ..) of prod_n t(F_n | x where it is revealed)

t(F) is the probability that a step reveals F and writes x_F. With a random order it is prod_{i in F} p(x_i) / C(h, k).
Low-confidence draws everywhere and keeps the k surest tokens. The draws that it rejects are summed in closed form, as
they are independent: with m the lowest score in F,

    t(F) = prod_{i in F} p(x_i) prod_{j not in F} P(the token drawn at j scores less than m)

exact      a sum over the 2^h sets that can be hidden, not over paths
estimated  importance sampling of paths. A path takes F with probability t(F) / T, T = sum_F t(F), and has the weight
           w = prod_n T_n: E w = p(x). Where a step has too many sets F, some random ones stand for all, which keeps
           E w. `error` is that of log(mean w), by the delta method; log(mean w) itself is below log p in the mean.

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
from unmask.diagnosis.law import stages
from unmask.samplers import Sampler
from unmask.samplers.rules.confidence import LowConfidence
from unmask.samplers.rules.fixed_orders import FirstHitting, FixedSize
from unmask.samplers.schedules import sizes

MOST_CONTEXTS = 2**15  # of all texts together, for an exact sum
MOST_SETS = 4096  # of a step
ROWS = 256  # contexts at once
CELLS = 2**24  # sets x positions x symbols at once


class Block(NamedTuple):
    """A block of positions, and how many of them each step reveals."""

    inside: Tensor  # Bool (L)
    counts: list[int]


class Rule(NamedTuple):
    """How a step chooses its positions."""

    random: bool
    temperature: float = 1.0  # of the draws; scores are at 1
    by_position: bool = False  # equal scores


def rule_of(sampler: Sampler, hidden: Tensor, delta: Tensor) -> tuple[Rule, list[Block]] | None:
    """The rule and the blocks of a row with hidden positions, Bool (L); None if there is no closed form."""
    inner, parts = stages(sampler, hidden, delta)
    if type(inner) in (FixedSize, FirstHitting):
        rule = Rule(True)
    elif isinstance(inner, LowConfidence) and type(inner) is LowConfidence:
        if inner.last or inner.dtype != "float32":
            return None
        rule = Rule(False, inner.temperature, inner.ties == "position")
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
    which, hidden = torch.arange(len(texts)), start == denoiser.vocabulary
    mass = torch.ones(len(texts), dtype=torch.float64)
    powers = 2 ** torch.arange(texts.shape[1])
    for inside, counts in blocks:
        for count in counts:
            parts = zip(which.split(ROWS), hidden.split(ROWS), mass.split(ROWS), strict=True)
            moved = [_moved(denoiser, rule, texts, inside, count, *part) for part in parts]
            which, hidden, mass = (torch.cat(part) for part in zip(*moved, strict=True))
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
    chances = step_chances(denoiser, rule, texts[which], hidden, places, sets)
    revealed = places.gather(1, sets.flatten(1)).view(-1, count)
    many = sets.shape[1]
    left = hidden.repeat_interleave(many, 0).scatter(1, revealed, False)
    return which.repeat_interleave(many), left, (mass.unsqueeze(1) * chances).flatten()


def estimated(
    denoiser: Denoiser, rule: Rule, blocks: list[Block], texts: Tensor, start: Tensor, generator: torch.Generator
) -> Tensor:
    """(R): log w of one path to each text (R, L)."""
    hidden, nats = start == denoiser.vocabulary, torch.zeros(len(texts), dtype=torch.float64)
    for inside, counts in blocks:
        for count in counts:
            places = _places(hidden, inside)
            sets, scale = some_sets(len(places), places.shape[1], count, generator)
            chances = step_chances(denoiser, rule, texts, hidden, places, sets)
            known = chances.detach()
            total = known.sum(1)
            taken = torch.multinomial(torch.where(total.unsqueeze(1) > 0, known, 1.0), 1, generator=generator)
            own = chances.gather(1, taken).squeeze(1).clamp(min=torch.finfo(torch.float64).tiny).log()
            nats = nats + (total * scale).log() + own - own.detach()
            chosen = sets.gather(1, taken.unsqueeze(2).expand(-1, -1, count)).squeeze(1)
            hidden = hidden.scatter(1, places.gather(1, chosen), False)
    return nats


def some_sets(rows: int, positions: int, count: int, generator: torch.Generator) -> tuple[Tensor, float]:
    """(R, F, k) indices of positions: every set, or some random ones; and the number of sets that each stands for."""
    number = math.comb(positions, count)
    if number <= MOST_SETS:
        return torch.combinations(torch.arange(positions), count).expand(rows, -1, -1), 1.0
    drawn = torch.rand((rows, MOST_SETS, positions), generator=generator).argsort(2)
    return drawn[:, :, :count].sort(2).values, number / MOST_SETS


def _places(hidden: Tensor, inside: Tensor) -> Tensor:
    """(R, h): the hidden positions of the block, the same number in each row."""
    here = hidden & inside
    return here.nonzero()[:, 1].view(len(hidden), -1)


def step_chances(denoiser: Denoiser, rule: Rule, x: Tensor, hidden: Tensor, places: Tensor, sets: Tensor) -> Tensor:
    """(R, F): t(F) of sets (R, F, k) of the hidden places (R, h) of texts (R, L)."""
    parts = zip(*(part.split(ROWS) for part in (x, hidden, places, sets)), strict=True)
    return torch.cat([_chances(denoiser, rule, *part) for part in parts])


def _chances(denoiser: Denoiser, rule: Rule, x: Tensor, hidden: Tensor, places: Tensor, sets: Tensor) -> Tensor:
    contexts = torch.where(hidden, denoiser.vocabulary, x)
    table = denoiser.probabilities(contexts, places)  # (R, h, V)
    rows, size, symbols = table.shape
    flat = Table(table.flatten(0, 1)).sharpened(rule.temperature).dense().view(table.shape)
    tokens = x.gather(1, places)
    own = flat.gather(2, tokens.unsqueeze(2)).squeeze(2)  # (R, h)
    inside = torch.zeros((*sets.shape[:2], size), dtype=torch.bool).scatter_(2, sets, True)
    written = torch.where(inside, own.unsqueeze(1), 1.0).prod(2)
    if rule.random:
        return written / math.comb(size, sets.shape[2])
    scores = torch.round(table.detach() / EXACT)
    mine = torch.where(inside, scores.gather(2, tokens.unsqueeze(2)).squeeze(2).unsqueeze(1), torch.inf)
    lowest = mine.amin(2, keepdim=True)  # (R, F, 1)
    last = torch.where(mine == lowest, torch.arange(size), -1).amax(2, keepdim=True)
    each = [
        _rejected(flat, scores, low, end, rule, inside[:, first : first + low.shape[1]])
        for first, low, end in _pieces(lowest, last, max(CELLS // (rows * size * symbols), 1))
    ]
    return written * torch.where(inside, 1.0, torch.cat(each, 1)).prod(2)


def _pieces(lowest: Tensor, last: Tensor, size: int) -> list[tuple[int, Tensor, Tensor]]:
    starts = range(0, lowest.shape[1], size)
    return list(zip(starts, lowest.split(size, 1), last.split(size, 1), strict=True))


def _rejected(p: Tensor, scores: Tensor, lowest: Tensor, last: Tensor, rule: Rule, inside: Tensor) -> Tensor:
    """(R, F, h): the probability that the token drawn at a position (h) scores less than F's last token."""
    others, equal = scores.unsqueeze(1), scores.unsqueeze(1) == lowest.unsqueeze(3)
    if rule.by_position:  # the later position loses
        below = (others < lowest.unsqueeze(3)) | (equal & (torch.arange(p.shape[1]) > last).unsqueeze(3))
        return (p.unsqueeze(1) * below).sum(3)
    if bool((equal & ~inside.unsqueeze(3) & (p.unsqueeze(1) > 0)).any()):
        raise UnmaskError("scores of low-confidence are equal; expected ties='position' for a likelihood. Pass it")
    return (p.unsqueeze(1) * (others < lowest.unsqueeze(3))).sum(3)
