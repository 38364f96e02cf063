"""Appendix D: rounds that reveal nothing cost nothing, and what that changes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from unmask.experiments.paper.claims import Finding, Item, Seen, Size, all_of, at_least, judged, number, part

LENGTH = 512
SAMPLED = {"metric": "samples", "language": "paper-2gram", "length": LENGTH, "pruned": True}
FEW, MANY = (8, 16, 32, 64), (512, 1024, 1536, 2048)
COMMAND = "unmask generate --language paper-2gram --length 512 --steps {} --rows 200 --out rows.npy"


def _cells(size: Size) -> list[dict[str, Any]]:
    rows = 2000 if size.full else 400
    where = {"language": "paper-2gram", "length": LENGTH, "rows": rows}
    return [
        part("samples", steps=[*FEW, 2048], **where),
        part("samples", sampler="as-published-mdlm", steps=32, **where),
        part("valid_rounds", length=LENGTH, steps=[*FEW, *MANY]),
    ]


ITEM = Item("ddpm-cache", "Appendix D: the cached sampler, its two regimes, and the theorems", _cells)


@ITEM.claim(
    "few",
    "Appendix D, case 1",
    "With far fewer rounds than positions, the cost is nearly linear in the number of rounds.",
    COMMAND.format(32),
)
def few(seen: Seen) -> Finding:
    shares = {}
    for steps in FEW:
        needed = seen.one("evaluations", steps=steps, sampler="ancestral", **SAMPLED)
        shares[steps] = number(needed.value / steps, needed.map(lambda value, steps=steps: value / steps))
    ours = [(f"evaluations / N, N = {steps}", share) for steps, share in shares.items()]
    test = all_of(*(at_least(share, 0.99) for share in shares.values()))
    return judged(test, ours, "Up to L/8 rounds every round reveals something.", "Rounds are empty already.")


@ITEM.claim(
    "many",
    "Appendix D, case 2",
    "With many rounds the cost is that of the valid ones, whose number grows with N; at most it is N.",
    COMMAND.format(2048),
    "maximum: the number of sampling steps",
)
def many(seen: Seen) -> Finding:
    measured = seen.one("evaluations", steps=2048, sampler="ancestral", **SAMPLED)
    exact = {n: seen.one("valid_rounds", steps=n, batch=1, length=LENGTH) for n in MANY}
    ours = [("evaluations a row at N = 2048, L = 512, sampled", measured)]
    ours += [(f"the same by sum_k 1 - (1 - delta_k)^L, N = {n}", value) for n, value in exact.items()]
    grows = all(exact[a].value < exact[b].value for a, b in pairwise(MANY))
    fits = measured.low - 1 <= exact[2048].value <= measured.high + 1
    if not (grows and fits):
        return judged(False, ours, "", "The number of valid rounds does not follow the formula.")
    return judged(
        measured.high > LENGTH,
        ours,
        "The number of valid rounds goes beyond the number of positions.",
        "The number grows as told, and each valid round reveals a position: so the maximum is min(N, L), not N, and "
        "an MDM with a cache never needs more evaluations than AR writes tokens.",
    )


@ITEM.claim(
    "faster",
    "Appendix D",
    "The cache makes sampling 3 to 4 times faster where the number of rounds is large.",
    COMMAND.format(1536),
    "3 to 4 times",
)
def faster(seen: Seen) -> Finding:
    gains = {n: n / seen.one("valid_rounds", steps=n, batch=1, length=LENGTH).value for n in MANY}
    ours = [(f"rounds for each evaluation, N = {n}, L = 512", number(gain)) for n, gain in gains.items()]
    test = any(3 <= gain <= 4 for gain in gains.values())
    why = "N of the order of three lengths has this factor, 1/(1 - e^(-L/N)) L/N in general; it has no limit in N."
    return judged(test, ours, why, "No number of rounds up to 2048 has such a factor at L = 512.")


@ITEM.claim(
    "law",
    "Appendix D",
    "The cache changes nothing of what is sampled, so the theorems hold with it.",
    "unmask generate --language paper-2gram --sampler as-published-mdlm --steps 32 --rows 400 --out rows.npy",
)
def law(seen: Seen) -> Finding:
    at = SAMPLED | {"steps": 32}
    ours = [
        (f"SER at N = 32, {what}", seen.one("ser", sampler=name, **at))
        for what, name in (("the published loop with its cache", "as-published-mdlm"), ("without", "ancestral"))
    ]
    (_, one), (_, other) = ours
    test = one.low <= other.high and other.low <= one.high
    return judged(test, ours, "The intervals overlap; the rule itself is the same.", "The intervals are apart.")
