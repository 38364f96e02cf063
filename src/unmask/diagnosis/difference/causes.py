"""Causes of a difference, each with the evidence for it in the traces; a cause must explain every row that differs.

A cause is a function of the comparison that returns a Cause, or None where the evidence does not support it. The first
one of CAUSES that holds is named. If no cause holds, the difference is unexplained.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from unmask.diagnosis.difference.rows import Compared, Pair, Split
from unmask.generation.trace import Row, Step, Trace

EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}  # ulp of a probability in [1, 2)
ULPS = {"float32": 256, "float16": 16, "bfloat16": 16}  # largest difference of two computations that only round
FEW = 8  # pairs; with fewer, a large rounding error or a temperature is not named
MOST = 0.8  # fraction of pairs that must differ where a cause affects every token
BOTH = 0.1  # least fraction of rounding errors of either sign
GREEDY = 30  # tokens; with fewer, traces are not known to be greedy
TAIL = 3  # tokens behind ends; with fewer, an end is not recognized
SLACK = 1e-4  # of a logit, in the test of a temperature
TIGHT = 0.3  # largest width of an interval of ratios, relative to the ratio, in logarithms
SORTED = 0.75  # least fraction of differences that are ordered by probability, which rounding is not
SIDE = 3  # least number of tokens on either side of 1 / V


@dataclass(frozen=True)
class Cause:
    """The name of a cause, a sentence that explains it, and its numbers."""

    name: str
    text: str
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """Both traces, compared."""

    a: Trace
    b: Trace
    rows: Sequence[Compared]
    ends: Collection[int] = ()  # end-of-text tokens, if they are known

    @cached_property
    def differing(self) -> list[Compared]:
        return [row for row in self.rows if row.differs]

    @cached_property
    def splits(self) -> list[Split]:
        return [row.split for row in self.rows if row.split is not None]

    @cached_property
    def pairs(self) -> list[Pair]:
        return [pair for row in self.rows for pair in row.pairs]

    @cached_property
    def open_pairs(self) -> list[Pair]:
        """The pairs of uncertain tokens: a probability that is 1 in both does not change."""
        return [pair for pair in self.pairs if min(pair.p, pair.q) < 1 - 1e-6]

    @cached_property
    def doubts(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.differs]

    @cached_property
    def greedy(self) -> bool:
        """Whether no token is less likely than 1 / V, as where each is the most likely one of its position."""
        drawn = [p for trace in (self.a, self.b) for row in trace.rows for *_, p in row.events if p is not None]
        return len(drawn) >= GREEDY and min(drawn) >= (1 - 1e-6) / self.a.vocabulary

    def stated(self, name: str) -> tuple[Any, Any] | None:
        """The values of an entry of the sources, if both traces have it and they differ."""
        ours, theirs = ((trace.source or {}).get(name) for trace in (self.a, self.b))
        return None if None in (ours, theirs) or ours == theirs else (ours, theirs)


def ulps(pair: Pair, dtype: str) -> float:
    """|p - q| in units of the last digit of this dtype at the larger probability."""
    return abs(pair.p - pair.q) / (EPSILON[dtype] * 2.0 ** math.floor(math.log2(max(pair.p, pair.q))))


def is_rounding(pair: Pair) -> bool:
    """Whether a pair differs at most by the rounding of float32."""
    return ulps(pair, "float32") <= ULPS["float32"]


def end_handling(seen: Evidence) -> Cause | None:
    """One trace writes a single token behind each end, or nothing; all differences are behind an end."""
    if not seen.splits:
        return None
    for name, trace, other in (("A", seen.a, "B"), ("B", seen.b, "A")):
        written = [_written(row) for row in trace.rows]
        common = set.intersection(*(set(written[split.row].values()) for split in seen.splits))
        for end in sorted(common & set(seen.ends) if seen.ends else common):
            firsts = [min((at for at, token in row.items() if token == end), default=None) for row in written]
            behind = [
                row.get(at)
                for row, both, first in zip(written, seen.rows, firsts, strict=True)
                if first is not None
                for at in range(first + 1, _longer(both))
            ]
            ended = [n for n, first in enumerate(firsts) if first is not None and first + 1 < _longer(seen.rows[n])]
            changed = sum(not _same_before(seen.rows[n], None) for n in ended)
            at_once = sum(firsts[n] == min(written[n]) for n in ended)  # rows of one token have no end
            one_token = len(set(behind) - {None}) <= 1 and len(behind) >= TAIL
            usual = changed >= len(ended) / 2 and at_once <= len(ended) / 2
            if one_token and usual and all(_same_before(row, firsts[row.number]) for row in seen.rows):
                text = f"all differences are behind token {end}, the end of a row. {name} has one token there, or none"
                return Cause("end handling", f"{text}; {other} has others, or in other steps", {"end": end})
    return None


def _longer(row: Compared) -> int:
    return max(row.a.length, row.b.length)


def _written(row: Row) -> dict[int, int]:
    """Position: token, of the tokens that were not given."""
    given = {at for at, _ in row.given}
    return {at: token for at, token in row.final.items() if at not in given}


def _same_before(row: Compared, end: int | None) -> bool:
    """Whether both rows have the same events, except for probabilities, up to this position."""
    if row.split is None and row.a.length == row.b.length:
        return True
    if end is None:
        return False
    ours, theirs = ([event[:3] for event in one.events if event[1] <= end] for one in (row.a, row.b))
    return sorted(ours, key=str) == sorted(theirs, key=str)


def step_numbers(seen: Evidence) -> Cause | None:
    """B has the events of A with all step numbers shifted by the same number."""
    if not seen.splits or not all(row.events for trace in (seen.a, seen.b) for row in trace.rows):
        return None
    shift = seen.b.rows[0].events[0][0] - seen.a.rows[0].events[0][0]
    if shift == 0 or any(_moved(row.a, shift) != _moved(row.b, 0) for row in seen.rows):
        return None
    later, earlier = ("B", "A") if shift > 0 else ("A", "B")
    name = "off by one step" if abs(shift) == 1 else "shifted steps"
    text = f"step k of {earlier} is step k + {abs(shift)} of {later}, with the same positions and tokens"
    return Cause(name, text, {"shift": shift})


def _moved(row: Row, shift: int) -> list[tuple[Any, ...]]:
    return sorted(((step + shift, position, token) for step, position, token, _ in row.events), key=str)


def early_commit(seen: Evidence) -> Cause | None:
    """In the first step that differs, one trace reveals also the positions that the other one reveals in the next."""
    early, late, extra, complete = set(), set(), 0, True
    for row in seen.differing:
        if row.split is None or row.split.kind != "positions":
            return None
        a, b = row.split.a.keys(), row.split.b.keys()
        if not (a > b or b > a):
            return None
        most, other = (a, row.b) if a > b else (b, row.a)
        left = [step for step in other.steps() if step.number >= row.split.step]
        needed = next((n for n in range(len(left) + 1) if _revealed(left[:n]) >= most), None)
        if needed is None or _revealed(left[:needed]) != most:
            return None
        early.add("A" if a > b else "B")
        late.add(left[needed - 1].number - row.split.step)
        extra += len(most) - min(len(a), len(b))
        complete &= needed == len(left)
    if len(early) != 1 or not (complete or extra >= 2 or len(seen.differing) >= 2):
        return None  # a single position can agree by accident
    (name,), number = early, f"{min(late)} to {max(late)}" if len(late) > 1 else str(max(late))
    part = "all that is left" if complete else "the positions of the next steps, too,"
    text = f"in the first step that differs {name} reveals {part} {number} step{'' if number == '1' else 's'} early:"
    text += f" {extra} positions that the other one still leaves hidden"
    return Cause("commits early", text, {"trace": name, "steps": sorted(late)})


def _revealed(steps: Sequence[Step]) -> set[int]:
    return {at for step in steps for at in step.revealed}


def flattened(seen: Evidence) -> Cause | None:
    """Each step reveals the same number of positions of all rows together, but not of each row."""
    if len(seen.splits) < 2 or any(split.kind != "positions" for split in seen.splits):
        return None
    sizes = [Counter(event[0] for row in trace.rows for event in row.events) for trace in (seen.a, seen.b)]
    each = [[Counter(event[0] for event in row.events) for row in trace.rows] for trace in (seen.a, seen.b)]
    even = [all(one == rows[0] for one in rows) for rows in each]
    if sizes[0] != sizes[1] or even[0] == even[1]:
        return None
    name, other = ("B", "A") if even[0] else ("A", "B")
    text = f"each step of {name} and {other} reveals the same number of positions of all rows together, but not of each"
    return Cause("one choice for the batch", f"{text} row: {name} ranks the positions of all rows together")


def padding(seen: Evidence) -> Cause | None:
    """The longest rows, which have no padding, are equal; all shorter ones differ from their first step on."""
    longest = max(row.a.length for row in seen.rows)
    full = [row for row in seen.rows if row.a.length == longest]
    short = [row for row in seen.rows if row.a.length < longest]
    equal = all(row.split is None and all(map(is_rounding, row.pairs)) for row in full)
    if len(short) < 2 or not equal or not all(_from_the_start(row) for row in short):
        return None
    text = f"the {len(full)} longest rows, which have no padding, are equal; the {len(short)} shorter rows differ from"
    text += " their first step on, by more than rounding. One of the two attends to padding"
    return Cause("padding", text, {"full": len(full), "padded": len(short)})


def _from_the_start(row: Compared) -> bool:
    """Whether most tokens of the first step differ in their probability by more than rounding, or the step itself."""
    start = min(event[0] for one in (row.a, row.b) for event in one.events) if row.a.events and row.b.events else 0
    first = [pair for pair in row.pairs if pair.step == start]
    if not first:
        return row.split is not None and row.split.step == start
    return sum(not is_rounding(pair) for pair in first) >= len(first) / 2


def cache(seen: Evidence) -> Cause | None:
    """The first step of each block is equal, and the later steps, which read the cache, differ."""
    fresh: list[Pair] = []
    stale: list[Pair] = []
    blocks = 0
    for row in seen.rows:
        starts = _block_starts(row)
        blocks += len({pair.step for pair in row.pairs if pair.step in starts[1:]})
        for pair in row.pairs:
            (fresh if pair.step in starts else stale).append(pair)
    open_stale = [pair for pair in stale if min(pair.p, pair.q) < 1 - 1e-6]
    different = sum(not is_rounding(pair) for pair in open_stale)
    if not fresh or len(open_stale) < FEW or different < MOST * len(open_stale) or not all(map(is_rounding, fresh)):
        return None
    stated = seen.stated("cache")
    if blocks == 0 and stated is None:
        return None
    text = f"the {len(fresh)} tokens of steps that begin a block are equal, and {different} of the {len(open_stale)}"
    text += " tokens of later steps differ by more than rounding: one of the two reads old keys and values"
    named = "" if stated is None else f" (the traces state cache {stated[0]} and {stated[1]})"
    return Cause("cache", text + named, {"fresh": len(fresh), "stale": different})


def _block_starts(row: Compared) -> list[int]:
    """The steps that begin a block: all earlier steps revealed only positions to the left of all later ones."""
    steps = [(step.number, step.revealed) for step in row.a.steps() if step.revealed]
    starts, left = [], -1
    for at, (number, _) in enumerate(steps):
        if left < min(min(revealed) for _, revealed in steps[at:]):
            starts.append(number)
        left = max(left, *steps[at][1])
    return starts


def rounding(seen: Evidence) -> Cause | None:
    """All probabilities differ by a few ulp of one dtype, up and down; positions or tokens differ only at near ties."""
    if not seen.doubts:
        return None
    worst = {dtype: max(ulps(pair, dtype) for pair in seen.doubts) for dtype in EPSILON}
    dtype = next((dtype for dtype in EPSILON if worst[dtype] <= ULPS[dtype]), None)
    if dtype is None:
        return None
    if dtype != "float32":
        if all((trace.source or {}).get("dtype") == "float32" for trace in (seen.a, seen.b)):
            return None
        up = sum(pair.q > pair.p for pair in seen.doubts) / len(seen.doubts)
        if len(seen.doubts) < max(FEW, MOST * len(seen.open_pairs)) or not BOTH <= up <= 1 - BOTH:
            return None
        if _ordered(seen.doubts) >= SORTED:
            return None  # as of a temperature near 1
    scale = max(max(_log_ratio(pair.p, pair.q) for pair in seen.doubts), 4 * EPSILON[dtype])
    near = [_near(split, 2 * scale) for split in seen.splits]
    flips = len(near) - sum(near)
    if flips and (seen.greedy or flips > 3 + 3 * scale * len(seen.pairs)):
        return None
    text = f"{len(seen.doubts)} of {len(seen.pairs)} probabilities differ, by at most {worst[dtype]:.2g} ulp of {dtype}"
    text += ", up and down" if dtype != "float32" else ""
    if seen.splits:
        text += f"; {sum(near)} of {len(seen.splits)} rows split at probabilities that are as close as that"
    stated = seen.stated("dtype")
    text += "" if stated is None else f" (the traces state {stated[0]} and {stated[1]})"
    return Cause("rounding", text, {"dtype": dtype, "ulps": worst[dtype]})


def _ordered(doubts: Sequence[Pair]) -> float:
    """Largest fraction of pairs that agree with a threshold: likelier tokens go up and the others down, or vice versa.

    Rounding has no such order, a temperature has."""
    up = [pair.q > pair.p for pair in sorted(doubts, key=lambda pair: pair.p)]
    right = [sum(up)]  # pairs that agree if all go up; then for thresholds behind each pair
    for one in up:
        right.append(right[-1] + (-1 if one else 1))
    return max(max(right), len(up) - min(right)) / len(up)


def _log_ratio(p: float, q: float) -> float:
    return abs(math.log(p / q))


def _near(split: Split, most: float) -> bool:
    """Whether the different choices of a step have probabilities this close, in nats."""
    ours, theirs = ([p for _, p in side.values()] for side in split.only)
    if not ours or len(ours) != len(theirs):
        return False
    return max(_log_ratio(p, q) for p in ours for q in theirs) <= most


def temperature(seen: Evidence) -> Cause | None:
    """One ratio of temperatures explains all pairs of probabilities, in a narrow interval, and 1 does not.

    Tokens on both sides of 1 / V must be among them, which a temperature changes in opposite directions.
    """
    ratio = common_ratio(seen)
    if ratio is None or math.log(ratio[1] / ratio[0]) > TIGHT * abs(math.log(ratio[0])):
        return None
    even = 1 / seen.a.vocabulary
    if min(sum(pair.p > 1.1 * even for pair in seen.doubts), sum(pair.p < 0.9 * even for pair in seen.doubts)) < SIDE:
        return None
    cold, warm = ("B", "A") if ratio[0] > 1 else ("A", "B")
    ends = [1 / ratio[1], 1 / ratio[0]] if ratio[0] > 1 else list(ratio)
    low_end, high_end = (f"{end:.3g}" for end in ends)
    size = low_end if low_end == high_end else f"{low_end} to {high_end}"
    text = f"one ratio explains all {len(seen.pairs)} probabilities: {cold} has {size} times the temperature of {warm}"
    return Cause("temperature", text, {"lower": cold, "ratio": ends})


def common_ratio(seen: Evidence) -> tuple[float, float] | None:
    """The interval of beta = T_A / T_B that all pairs allow, if it does not include 1; q is p^beta, normalized.

    Given p and V, only the total of the other V - 1 tokens is unknown. It is largest if one token has all of it, and
    smallest if all are equal; with l = logit p,

        beta l <= logit q <= beta l + (beta - 1) log(V - 1)    for beta >= 1, the other way around below
    """
    pairs = [pair for pair in seen.pairs if max(pair.p, pair.q) < 1 - 1e-5]  # nine digits are not enough above
    if sum(not is_rounding(pair) for pair in pairs) < FEW:
        return None
    spread = math.log(max(seen.a.vocabulary - 1, 1))
    for low, high in ((1.0, 50.0), (0.02, 1.0)):
        ranges = [_ratios(_logit(pair.p), _logit(pair.q), spread, low, high) for pair in pairs]
        least, most = max(one[0] for one in ranges), min(one[1] for one in ranges)
        if least <= most and not least <= 1 <= most:
            return least, most
    return None


def _logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def _ratios(ours: float, theirs: float, spread: float, low: float, high: float) -> tuple[float, float]:
    """The interval of beta in [low, high] that a pair of logits allows; each bound is linear in beta."""
    sign = 1 if low >= 1 else -1  # the first bound is the lower one from 1 on
    bounds = [(sign * ours, sign * theirs + SLACK), (-sign * (ours + spread), sign * (-theirs - spread) + SLACK)]
    for slope, most in bounds:  # slope beta <= most
        if slope > 0:
            high = min(high, most / slope)
        elif slope < 0:
            low = max(low, most / slope)
        elif most < 0:
            return math.inf, -math.inf
    return low, high


def tie(seen: Evidence) -> Cause | None:
    """Each row splits where the two choose different positions of equal probability.

    Other tokens must have other probabilities: where all are equal, a random choice looks the same.
    """
    if not seen.splits or seen.doubts or not all(_near(split, 1e-6) for split in seen.splits):
        return None
    for split in seen.splits:
        ours, theirs = split.only
        tied = min(p for _, p in ours.values())
        if ours.keys() & theirs.keys() or any(p < tied * (1 - 1e-6) for at, (_, p) in split.a.items() if at in split.b):
            return None  # other tokens differ, or a less likely position went first
    values = sorted({p for split in seen.splits for _, p in split.only[0].values()})
    others = {f"{p:.6g}" for p in (*values, *(pair.p for pair in seen.pairs))}
    if len(others) < 2 or not (seen.greedy or len(seen.splits) >= 3):
        return None
    size = f"{values[0]:.4g}" if len(values) == 1 else f"{values[0]:.4g} to {values[-1]:.4g}"
    text = f"{len(seen.splits)} rows split where the two choose different positions of equal probability ({size})"
    return Cause("tie", f"{text}: equal scores are ordered differently", {"rows": len(seen.splits)})


CAUSES: tuple[Callable[[Evidence], Cause | None], ...] = (
    end_handling,
    step_numbers,
    early_commit,
    flattened,
    padding,
    cache,
    temperature,
    rounding,
    tie,
)


def named(seen: Evidence) -> Cause | None:
    """The first cause that explains all rows that differ."""
    return next((cause for test in CAUSES if (cause := test(seen)) is not None), None)
