"""Whether other orders than the random one change the conclusion, by ideal denoisers."""

from __future__ import annotations

from typing import Any

from unmask.experiments.paper.claims import (
    Finding,
    Item,
    Seen,
    Size,
    all_of,
    at_least,
    at_most,
    judged,
    negated,
    number,
    part,
)


def _strategies(size: Size) -> list[dict[str, Any]]:
    rows = 2000 if size.full else 400
    common = {"length": 512, "rows": rows}
    return [
        part("samples", sampler=RULES, steps=64, language=["paper-2gram", "sparse-hmm"], **common),
        part("samples", sampler="dyadic", steps=6, language="paper-2gram", **common),
        part("samples", sampler="strided", steps=5, language="interval-5", length=510, rows=rows),
        part("samples", sampler="entropy-bounded(gamma=0.1)", language="paper-2gram", **(common | {"rows": rows // 4})),
    ]


RULES = ("ancestral", "low-confidence", "entropy", "margin", "left-to-right")
ITEM = Item("sampling-strategies", "do other orders change the conclusion? (poster, Appendix D)", _strategies)
COMPARE = "unmask board --samplers ancestral low-confidence dyadic --languages paper-2gram --lengths 512 --quick"


@ITEM.claim(
    "confidence",
    "Poster: GSM8K by sampling strategies",
    "With other sampling strategies, too, few rounds mean many wrong sequences.",
    COMPARE,
)
def confidence(seen: Seen) -> Finding:
    ours, tests = [], []
    for q in ("paper-2gram", "sparse-hmm"):
        for rule in RULES:
            found = seen.one("ser", metric="samples", language=q, sampler=rule, steps=64, length=512, pruned=True)
            ours.append((f"SER of {q}, N = 64, {rule}", found))
            tests.append(at_least(found, 0.05))
    return judged(
        all_of(*tests),
        ours,
        "Each of these rules is wrong often at 8 tokens a round, with an ideal denoiser.",
        "Some of these rules are hardly ever wrong at 8 tokens a round, with an ideal denoiser: which positions share "
        "a round matters more than how many.",
    )


@ITEM.claim(
    "none",
    "Section 4.3, Section 7",
    "An MDM that is as correct as AR takes as many evaluations.",
    COMPARE,
)
def none(seen: Seen) -> Finding:
    dyadic = {"language": "paper-2gram", "sampler": "dyadic", "steps": 6}
    strided = {"language": "interval-5", "sampler": "strided", "steps": 5, "length": 510}
    errors = [seen.one("ser", metric="samples", **case) for case in (dyadic, strided)]
    costs = [seen.one("evaluations", metric="samples", **case) for case in (dyadic, strided)]
    ours = [
        ("SER of the 2-gram, dyadic order, L = 512", errors[0]),
        ("its evaluations", costs[0]),
        ("SER of the interval language, strided order, L = 510", errors[1]),
        ("its evaluations", costs[1]),
    ]
    test = all_of(*(at_most(error, 0.01) for error in errors))
    return judged(
        negated(test),
        ours,
        "Chosen orders are wrong as often.",
        "Positions that are far apart hardly depend on each other: an order that reveals those together is right in "
        "a number of evaluations that grows with log L or not at all. That holds for languages whose dependencies "
        "are known and local, and for an ideal denoiser.",
    )


@ITEM.claim(
    "adaptive",
    "Section 1",
    "To be free of errors an MDM must sample only a few tokens a step.",
    "unmask generate --language paper-2gram --sampler 'entropy-bounded(gamma=0.1)' --rows 400 --out rows.npy",
)
def adaptive(seen: Seen) -> Finding:
    at = {"metric": "samples", "language": "paper-2gram", "sampler": "entropy-bounded(gamma=0.1)"}
    wrong, cost = seen.one("ser", **at), seen.one("evaluations", **at)
    tokens = number(512 / cost.value)
    ours = [("SER, entropy-bounded, gamma = 0.1", wrong), ("its evaluations", cost), ("tokens an evaluation", tokens)]
    return judged(
        all_of(tokens.value < 2, at_most(wrong, 0.2)),
        ours,
        "A rule that bounds what a round can lose reveals few tokens a round.",
        "The rule reveals several tokens a round, or is wrong.",
    )
