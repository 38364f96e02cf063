"""Left to right: likelihoods and AR sampling of complete HMM rows, against dynamax's filter."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.peers import best_pace, find, over
from benchmarks.timing import Report, Work, agree, main
from unmask import generate, languages
from unmask.core import memory

DRAWING = "dynamax filter, drawing"  # a scan in which it takes one token at a time


class Size(NamedTuple):
    rows: int
    length: int
    repeats: int


SIZES = {"toy": Size(6, 12, 1), "quick": Size(256, 512, 3), "full": Size(2000, 512, 5)}


def measure(report: Report) -> None:
    """The target for AR sampling is the filter over given tokens: no sampler that filters what it draws is faster."""
    rows, length, repeats = SIZES[report.size]
    language = languages.load("paper-hmm")
    drawn = language.sample(rows, length, seed=1)
    tokens, ours = drawn.numpy(), memory.cores()
    truth = language.log_prob(drawn).numpy()
    peers = find(("dynamax", "hmmlearn"), language, report.missing)
    likelihood, filters = {"unmask": Work(lambda: language.log_prob(drawn), ours, note="float64")}, {}
    if "dynamax" in peers:
        peer = peers["dynamax"]
        log_prob = peer.log_prob
        agree("dynamax's log-likelihood", log_prob(tokens[:48]) / length, truth[:48] / length, 1e-4)
        chunk, first = best_pace(peer, log_prob, tokens)
        label = f"dynamax filter, chunks of {chunk}"
        filters[label] = Work(lambda: over(log_prob, tokens, chunk), peer.threads, first=first)
        filters["dynamax filter, one call"] = Work(lambda: log_prob(tokens), peer.threads)
        if ours > 1:
            threaded = Work(lambda: over(log_prob, tokens, chunk, ours), ours, first=first)
            filters[f"{label}, our threads"] = threaded
    likelihood |= filters
    if "hmmlearn" in peers:
        score = peers["hmmlearn"].log_prob
        agree("hmmlearn's log-likelihood", score(tokens[:48]) / truth[:48].sum(), 1.0, 1e-6)
        likelihood["hmmlearn score"] = Work(lambda: score(tokens), 1)
    autoregressive = dict(sampler="autoregressive", rows=rows, length=length, seed=1)
    sampling = {"unmask": Work(lambda: generate(language, **autoregressive), ours)} | filters
    if "dynamax" in peers:
        sampler = peers["dynamax"]
        sampling[DRAWING] = Work(lambda: sampler.sample(1, rows, length), sampler.threads)
    found = {
        "log-likelihood": report.race(f"log-likelihood {rows} x {length}", rows, length, likelihood, repeats),
        "AR sampling": report.race(f"AR sampling {rows} x {length}", rows, length, sampling, repeats),
    }
    if filters:
        for task, timed in found.items():
            best = min(m.ratio for who, m in timed.items() if who in filters and m.ratio and "our threads" not in who)
            report.at_least(f"{task}: dynamax filter / unmask", best, 1.0)
        report.at_least("AR sampling: dynamax filter, drawing / unmask", found["AR sampling"][DRAWING].ratio or 0, 1.0)


if __name__ == "__main__":
    main(__doc__, measure)
