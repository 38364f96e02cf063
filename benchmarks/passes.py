"""One posterior pass: every marginal of a batch of HMM rows, half of whose positions are hidden, or all noisy."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.peers import Dynamax, Peer, best_pace, find, over
from benchmarks.timing import Report, Work, agree, main, on_one_thread
from unmask import languages
from unmask.core import memory
from unmask.denoisers import UniformIdeal


class Size(NamedTuple):
    rows: int
    length: int
    repeats: int


SIZES = {"toy": Size(6, 12, 1), "quick": Size(256, 512, 3), "full": Size(2000, 512, 5)}


def measure(report: Report) -> None:
    rows, length, repeats = SIZES[report.size]
    language = languages.load("paper-hmm")
    hidden = torch.rand((rows, length), generator=torch.Generator().manual_seed(1)) < 0.5
    tokens = torch.where(hidden, language.vocabulary, language.sample(rows, length, seed=1))
    shown, some = tokens.numpy(), slice(0, 48)  # no size of a call that is timed, so that its compiling is
    peers = find(("dynamax", "hmmlearn", "torch"), language, report.missing)
    truth = language.posterior(tokens[some])[hidden[some]]
    for name, peer in peers.items():
        agree(f"{name}'s posterior", peer.marginals(shown[some])[hidden[some].numpy()], truth, 1e-5)

    ours = memory.cores()
    works = {"unmask": Work(lambda: language.posterior(tokens), ours, note="float64")}
    if ours > 1:
        works["unmask, one thread"] = on_one_thread(works["unmask"].run)
    for name, peer in peers.items():
        works |= _ways(name, peer, shown, ours)
    found = report.race(f"posterior pass {rows} x {length}", rows, length, works, repeats)
    for name, bound in (("dynamax", 2.0), ("hmmlearn", 8.0)):
        ways = [m.ratio for who, m in found.items() if who.startswith(name) and "our threads" not in who]
        if name in peers:
            report.at_least(f"posterior pass: {name} / unmask", min(r for r in ways if r), bound)
    noisy(report, rows, length, repeats)


def noisy(report: Report, rows: int, length: int, repeats: int) -> None:
    """A step of uniform noise, against a pass over the same number of hidden positions."""
    for name in ("paper-2gram", "paper-3gram", "paper-hmm"):
        language = languages.load(name)
        tokens, blank = language.sample(rows, length, seed=1), language.blank(rows, length)
        exact, level = UniformIdeal(language), torch.full((rows,), 0.7, dtype=torch.float64)
        known, ours = torch.zeros(tokens.shape, dtype=torch.bool), memory.cores()

        masked, step = partial(language.posterior, blank), partial(exact.predict, tokens, known, level)
        works = {"unmask": Work(masked, ours, note="masks"), "uniform noise": Work(step, ours)}
        found = report.race(f"step of {name} {rows} x {length}", rows, length, works, repeats)
        ratio = found["uniform noise"].ratio
        assert ratio is not None
        report.at_most(f"step of {name}: uniform noise / masks", ratio, 1.3, "times")


def _ways(name: str, peer: Peer, tokens: np.ndarray, ours: int) -> dict[str, Work]:
    """All rows in one call, in chunks of the best size, and those chunks on our threads."""
    chunk, first = best_pace(peer, peer.marginals, tokens)
    label = f"{name}, chunks of {chunk}"
    ways = {label: Work(lambda: over(peer.marginals, tokens, chunk), peer.threads, first=first)}
    if isinstance(peer, Dynamax):
        ways[f"{name}, one call"] = Work(lambda: peer.marginals(tokens), peer.threads)
    if ours > 1 and name != "torch":
        threaded = Work(lambda: over(peer.marginals, tokens, chunk, ours), ours, first=first)
        ways[f"{label}, our threads"] = threaded
    return ways


if __name__ == "__main__":
    main(__doc__, measure)
