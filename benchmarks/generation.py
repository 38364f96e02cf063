"""Whole generations: unmask end to end for every preset, and peers that make the same rows from full recomputation.

A peer gets the rounds of our rows and the same luck, and asks for the posterior of every row that changed, every round;
a row's empty rounds are skipped, and rows with equally many rounds share a call. So both do the same work, and nearly
all rows come out equal: the share is said. Ratios are of whole runs over the same rows, never of passes scaled up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.peers import Dynamax, Pace, Peer, best_pace, find, over, tables
from benchmarks.timing import Measurement, Report, Work, main
from unmask import Generation, generate, languages
from unmask.core import memory
from unmask.core.chance import Randomness
from unmask.denoisers import as_marginals
from unmask.languages import Language

SEED = 1
MANY = 10**6


class Size(NamedTuple):
    rows: int
    length: int
    adaptive_rows: int
    peer_rows: int  # of the peers that compute rows together
    single_rows: int  # of a peer that computes them one by one: its time a row does not depend on their number
    steps: tuple[int, ...]  # N for the languages that are measured at many
    middle: int  # N for all others, and for the peers
    repeats: int


SIZES = {
    "toy": Size(4, 12, 2, 4, 2, (3, 8), 8, 1),
    "quick": Size(200, 512, 20, 64, 2, (8, 64, MANY), 64, 1),
    "full": Size(2000, 512, 200, 512, 32, (8, 64, 512, 2048, MANY), 512, 3),
}
# The 2-gram's slowest N is 10^6, whose table of the schedule fits no cache; at N = 512 it takes half of that.
# The 4-gram has the messages of every machine: windows of its own were faster here and slower elsewhere (docs/log.md).
AT_MOST = {"paper-hmm": 10.0, "sparse-hmm": 5.0, "paper-2gram": 0.45, "paper-3gram": 4.0, "paper-4gram": 45.0}
AT_MOST |= {"interval-5": 0.5, "low-confidence": 3.0}
MANY_STEPS = ("paper-2gram", "paper-hmm", "sparse-hmm")
WITH_PEERS = {"paper-2gram": ("dynamax",), "paper-hmm": ("dynamax", "torch", "hmmlearn"), "sparse-hmm": ("dynamax",)}


def measure(report: Report) -> None:
    size = SIZES[report.size]
    for name in languages.PRESETS.makers:
        language = languages.load(name)
        length = 510 if name == "interval-5" and size.length == 512 else language.nearest_lengths(size.length)[-1]
        found = {}
        for steps in size.steps if name in MANY_STEPS else (size.middle,):
            found[steps] = _ours(report, f"{name} N={steps}", language, size, size.rows, length, steps=steps)
        _targets(report, name, found, size)
    language, steps = languages.load("sparse-hmm"), min(64, size.middle)
    task, shape = f"sparse-hmm N={steps}, low-confidence", (size.adaptive_rows, size.length)
    made = _ours(report, task, language, size, *shape, steps=steps, sampler="low-confidence")
    report.at_most(task, made.seconds, AT_MOST["low-confidence"])
    for name, peers in WITH_PEERS.items():
        _against(report, name, peers, size)


def _ours(
    report: Report, task: str, language: Language, size: Size, rows: int, length: int, **options: Any
) -> Measurement:
    whole = {"rows": rows, "length": length, "seed": SEED} | options
    small = whole | {"rows": 2, "steps": 4}
    work = Work(lambda: generate(language, **whole), memory.cores(), warm_up=lambda: generate(language, **small))
    return report.race(f"{task}, {rows} x {length}", rows, length, {"unmask": work}, size.repeats)["unmask"]


def _targets(report: Report, name: str, found: dict[int, Measurement], size: Size) -> None:
    if name not in AT_MOST:
        return
    if name == "paper-2gram":
        worst = max(found.values(), key=lambda m: m.seconds)
        report.at_most(f"{worst.task}, the slowest N", worst.seconds, AT_MOST[name])
        return
    report.at_most(f"{name} N={size.middle}", found[size.middle].seconds, AT_MOST[name])
    if len(found) > 1:
        _slowdown(report, name, size)


def _slowdown(report: Report, name: str, size: Size) -> None:
    """CPU seconds at many steps over those at L of them, the best of three in turn: other work lengthens both clocks.

    N = L has 324 model calls of 512 positions and N = 10^6 has 512, so equal work a call would take 1.58 times as long.
    """
    language, least = languages.load(name), dict[int, float]()
    for steps in 3 * (size.middle, MANY):
        began = time.process_time()
        generate(language, rows=size.adaptive_rows, length=size.length, steps=steps, seed=SEED)
        least[steps] = min(least.get(steps, math.inf), time.process_time() - began)
    slowdown = least[MANY] / least[size.middle]
    report.at_most(f"{name} N={MANY} / N={size.middle}, CPU seconds", slowdown, 1.5, "times")


def _against(report: Report, name: str, peers: tuple[str, ...], size: Size) -> None:
    """A race with each peer over fewer rows, whole runs all the same."""
    language = languages.load(name)
    for who, peer in find(peers, language, report.missing).items():
        steps_of = [n for n in size.steps if n < MANY] if (name, who) == ("paper-hmm", "dynamax") else [size.middle]
        rows = size.single_rows if who == "hmmlearn" else size.peer_rows
        start = np.full((rows, size.length), language.vocabulary)
        pace = best_pace(peer, peer.states, start)
        for steps in steps_of:
            options = dict(rows=size.peer_rows, length=size.length, steps=steps, seed=SEED)
            made = generate(language, **options)
            works = {"unmask": Work(lambda o=options: generate(language, **o), memory.cores())}
            works |= _ways(peer, language, made, rows, pace)
            task = f"{name} N={steps}, against {who}, {size.peer_rows} x {size.length}"
            timed = report.race(task, size.peer_rows, size.length, works, size.repeats, patience=5.0)
            ratio = next(m.ratio for label, m in timed.items() if label.startswith(who))
            if (name, who, steps) == ("paper-hmm", "dynamax", size.middle) and ratio is not None:
                report.at_least(f"{name} N={steps}: {who} / unmask", ratio, 25.0)


def _ways(peer: Peer, language: Language, made: Generation, rows: int, pace: Pace) -> dict[str, Work]:
    chunk, first = pace

    def work(threads_used: int) -> Callable[[], Tensor]:
        return lambda: regenerate(peer, language, made, rows, chunk, threads_used)

    label = f"{peer.name}, chunks of {chunk}"
    note = _equal(peer, language, made, min(chunk, rows))
    ways = {label: Work(work(1), peer.threads, rows, first=first, note=note)}
    if isinstance(peer, Dynamax) and memory.cores() > 1:
        ways[f"{label}, our threads"] = Work(work(memory.cores()), memory.cores(), rows, first=first)
    return ways


def _equal(peer: Peer, language: Language, made: Generation, rows: int) -> str:
    """How many rows the peer makes as we do, where no context is impossible: that is answered by rules of ours."""
    possible = made.impossible[:rows] == 0
    equal = (regenerate(peer, language, made, rows, rows) == made.tokens[:rows]).all(1) & possible
    return f"{int(equal.sum())} of {int(possible.sum())} rows with a possible context come out equal to ours"


def regenerate(
    peer: Peer, language: Language, made: Generation, rows: int, chunk: int, threads_used: int = 1
) -> Tensor:
    """The first rows of a generation once more (rows, L), every changed row's posterior recomputed every round."""
    emission = tables(language).emission
    turns = turns_of(made.order[:rows].numpy())
    by_turns = np.argsort(turns.max(1), kind="stable")
    tokens = torch.full((rows, turns.shape[1]), language.vocabulary)

    def fill(which: np.ndarray) -> None:
        rng = Randomness(SEED, torch.from_numpy(which))
        canvas, due = np.full((len(which), turns.shape[1]), language.vocabulary), turns[which]
        visits = torch.zeros(canvas.shape, dtype=torch.int64)
        for turn in range(1, due.max() + 1):
            at = np.nonzero(due == turn)
            marginals = peer.states(canvas)[at].astype(np.float64) @ emission
            marginals[~np.isfinite(marginals).all(1)] = 1.0  # an impossible context: the peer has no answer
            places = [torch.from_numpy(index) for index in at]
            drawn = rng.tokens(as_marginals(torch.from_numpy(marginals)), *places, visits)
            canvas[at] = drawn.numpy()
        tokens[which] = torch.from_numpy(canvas)

    over(fill, by_turns, chunk, threads_used)
    return tokens


def turns_of(order: np.ndarray) -> np.ndarray:
    """(B, L): the rounds of a row numbered from 1 without the empty ones."""
    by_step = order.argsort(1, kind="stable")
    steps = np.take_along_axis(order, by_step, 1)
    turns = np.empty_like(order)
    np.put_along_axis(turns, by_step, (np.diff(steps, axis=1, prepend=0) > 0).cumsum(1), 1)
    return turns


if __name__ == "__main__":
    main(__doc__, measure)
