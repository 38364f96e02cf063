"""The dichotomy by the length, other sampling strategies, and the cache of Appendix D, with ideal denoisers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from unmask.experiments.paper.judge import (
    Claim,
    Shown,
    Size,
    Truth,
    Values,
    all_of,
    item,
    negated,
    part,
    scaled,
    shown,
)
from unmask.experiments.paper.records import Absent, Seen

LENGTHS = (130, 260, 510, 1025, 2050)  # only the size full measures the last one
LONG = ("paper-2gram", "interval-5")


def _lengths(size: Size) -> list[dict[str, Any]]:
    both = {"language": LONG, "length": LENGTHS if size.full else LENGTHS[:-1]}
    return [
        part("steps_for_ter", rows=100 if size.full else 40, **both),
        part("steps_for_ser", rows=500 if size.full else 200, **both),
    ]


def recorded_lengths(seen: Seen) -> list[int]:
    found = {record["length"] for record in seen.all("steps_for_ser", language="interval-5")}
    if len(found & {*LENGTHS}) < 2:
        raise Absent("steps_for_ser at several lengths")
    return sorted(found & {*LENGTHS})


def by_length(target: str, measure: str) -> list[Shown]:
    """One line for each language."""
    label = f"N for {target}, {{language}}, L = {{length}}"
    return [shown(label, measure, language=language, length=recorded_lengths) for language in LONG]


def _constant(*languages: Values) -> Truth:
    """Whether a number of steps is the same at every length, to a tenth."""
    return all(max(e.low for e in by) <= 1.1 * min(e.high for e in by) for by in map(Values.estimates, languages))


def _proportional(*languages: Values) -> tuple[Truth, ...]:
    """Whether a number of steps grows at least 0.6 times as fast as the length."""
    tests: list[Truth] = []
    for found in languages:
        first, last = found.estimates()[0], found.estimates()[-1]
        least = 0.6 * max(found.by) / min(found.by)
        tests.append(True if last.low / first.high >= least else False if last.high / first.low < least else None)
    return tuple(tests)


LENGTH = item(
    "length",
    "the dichotomy: steps for TER and for SER, by the length",
    _lengths,
    {
        "ter": Claim(
            "Theorem 4.2; poster, experiments",
            "The number of steps at which TER saturates is the same at every length.",
            "unmask sweep run recipes/lengths.yaml --store lengths",
            by_length("a TER within 1%", "steps_for_ter"),
            _constant,
            "The same number, to a tenth, over an eightfold length.",
        ),
        "saturates": Claim(
            "Poster, experiments",
            "TER saturates at about 512 steps.",
            "unmask plan --language paper-2gram --length 510 --target 0.1",
            by_length("a TER within 1%", "steps_for_ter"),
            lambda chain, interval: (chain <= 512, interval <= 512),
            "It is within 1% well before.",
            figure="about 512 steps",
        ),
        "ser": Claim(
            "Theorem 4.4; poster, experiments",
            "The number of steps for a given SER grows with the length.",
            "unmask sweep run recipes/lengths.yaml --store lengths",
            by_length("an SER of 1/2", "steps_for_ser"),
            _proportional,
            "In proportion to it.",
        ),
    },
)

RULES = ("ancestral", "low-confidence", "entropy", "margin", "left-to-right")
DYADIC = {"metric": "samples", "language": "paper-2gram", "sampler": "dyadic", "steps": 6}
STRIDED = {"metric": "samples", "language": "interval-5", "sampler": "strided", "steps": 5, "length": 510}
BOUNDED = {"metric": "samples", "language": "paper-2gram", "sampler": "entropy-bounded(gamma=0.1)"}
RULED = {"metric": "samples", "sampler": RULES, "steps": 64, "length": 512, "pruned": True}
COMPARE = "unmask board --samplers ancestral low-confidence dyadic --languages paper-2gram --lengths 512 --quick"


def _strategies(size: Size) -> list[dict[str, Any]]:
    rows = 2000 if size.full else 400
    common = {"length": 512, "rows": rows}
    return [
        part("samples", sampler=RULES, steps=64, language=["paper-2gram", "sparse-hmm"], **common),
        part("samples", sampler="dyadic", steps=6, language="paper-2gram", **common),
        part("samples", sampler="strided", steps=5, language="interval-5", length=510, rows=rows),
        part("samples", sampler="entropy-bounded(gamma=0.1)", language="paper-2gram", **(common | {"rows": rows // 4})),
    ]


STRATEGIES = item(
    "sampling-strategies",
    "do other orders change the conclusion? (poster, Appendix D)",
    _strategies,
    {
        "confidence": Claim(
            "Poster: GSM8K by sampling strategies",
            "With other sampling strategies, too, few steps mean many incorrect sequences.",
            COMPARE,
            [
                shown("SER of the 2-gram, N = 64, {sampler}", "ser", language="paper-2gram", **RULED),
                shown("SER of the HMM, N = 64, {sampler}", "ser", language="sparse-hmm", **RULED),
            ],
            lambda chain, hmm: (chain >= 0.05, hmm >= 0.05),
            "Each of these rules often errs at 8 tokens a step, with an ideal denoiser.",
            "Some of these rules rarely err at 8 tokens a step, with an ideal denoiser: it matters more which "
            "positions share a step than how many.",
        ),
        "none": Claim(
            "Section 4.3, Section 7",
            "An MDM that is as correct as AR takes as many evaluations.",
            COMPARE,
            [
                shown("SER of the 2-gram, dyadic order, L = 512", "ser", **DYADIC),
                shown("its evaluations", "evaluations", **DYADIC),
                shown("SER of the interval language, strided order, L = 510", "ser", **STRIDED),
                shown("its evaluations", "evaluations", **STRIDED),
            ],
            lambda dyadic, few, strided, fewer: negated(all_of(dyadic <= 0.01, strided <= 0.01)),
            differs="Distant positions hardly depend on each other. An order that reveals those together is right in "
            "a number of evaluations that grows with log L or not at all. This holds for an ideal denoiser and for "
            "languages whose dependencies are known and local.",
        ),
        "adaptive": Claim(
            "Section 1",
            "To be free of errors an MDM must sample only a few tokens a step.",
            "unmask generate --language paper-2gram --sampler 'entropy-bounded(gamma=0.1)' --rows 400 --out rows.npy",
            [
                shown("SER, entropy-bounded, gamma = 0.1", "ser", **BOUNDED),
                shown("its evaluations for 512 tokens", "evaluations", **BOUNDED),
            ],
            lambda ser, evaluations: (evaluations.value > 512 / 2, ser <= 0.2),
            "A rule that bounds the error of a step reveals fewer than two tokens a step.",
        ),
    },
)

SAMPLED = {"metric": "samples", "language": "paper-2gram", "length": 512, "pruned": True}
ANCESTRAL = SAMPLED | {"sampler": "ancestral"}
VALID = {"batch": 1, "length": 512}
FEW, MANY = (8, 16, 32, 64), (512, 1024, 1536, 2048)
PER_STEP = scaled("evaluations", lambda value, at: value / at["steps"])
STEPS_FOR_EACH = scaled("valid_rounds", lambda value, at: at["steps"] / value)
CACHED = "unmask generate --language paper-2gram --length 512 --steps {} --rows 200 --out rows.npy"


def _cache(size: Size) -> list[dict[str, Any]]:
    where = {"language": "paper-2gram", "length": 512, "rows": 2000 if size.full else 400}
    return [
        part("samples", steps=[*FEW, 2048], **where),
        part("samples", sampler="as-published-mdlm", steps=32, **where),
        part("valid_rounds", length=512, steps=[*FEW, *MANY]),
    ]


def _beyond_length(sampled: Values, exact: Values) -> tuple[Truth, ...]:
    """Whether evaluations exceed the number of positions; the formula must be right, and increase with N."""
    (measured,) = sampled.estimates()
    increases = all(a < b for a, b in pairwise(exact.values))
    return increases, measured.low - 1 <= exact[2048].value <= measured.high + 1, measured.high > 512


CACHE = item(
    "ddpm-cache",
    "Appendix D: the cached sampler, its two regimes, and the theorems",
    _cache,
    {
        "few": Claim(
            "Appendix D, case 1",
            "With far fewer steps than positions, the cost is nearly linear in the number of steps.",
            CACHED.format(32),
            [
                shown("evaluations / N, N = {steps}", PER_STEP, steps=FEW, **ANCESTRAL),
            ],
            lambda fraction: fraction >= 0.99,
            "Up to L/8 steps, every step reveals something.",
        ),
        "many": Claim(
            "Appendix D, case 2",
            "With many steps the cost is that of the valid ones, whose number grows with N; at most it is N.",
            CACHED.format(2048),
            [
                shown("evaluations a row at N = 2048, L = 512, sampled", "evaluations", **ANCESTRAL, steps=2048),
                shown("the same by sum_k 1 - (1 - delta_k)^L, N = {steps}", "valid_rounds", steps=MANY, **VALID),
            ],
            _beyond_length,
            differs="The number grows as described, and each valid step reveals a position. So the maximum is min(N, "
            "L), not N: an MDM with a cache never needs more evaluations than AR generates tokens.",
            figure="maximum: the number of sampling steps",
        ),
        "faster": Claim(
            "Appendix D",
            "The cache makes sampling 3 to 4 times faster where the number of steps is large.",
            CACHED.format(1536),
            [shown("steps for each evaluation, N = {steps}, L = 512", STEPS_FOR_EACH, steps=MANY, **VALID)],
            lambda gain: any(3 <= value <= 4 for value in gain.values),
            "About three lengths of steps have this factor. In general it is 1/(1 - e^(-L/N)) L/N, without a limit in "
            "N.",
            figure="3 to 4 times",
        ),
        "law": Claim(
            "Appendix D",
            "The cache does not change the distribution of samples, so the theorems hold with it.",
            "unmask generate --language paper-2gram --sampler as-published-mdlm --steps 32 --rows 400 --out rows.npy",
            [
                shown(
                    "SER at N = 32, {sampler} with its cache", "ser", sampler="as-published-mdlm", steps=32, **SAMPLED
                ),
                shown("SER at N = 32, without", "ser", steps=32, **ANCESTRAL),
            ],
            lambda cached, plain: not cached.apart(plain),
            "The intervals overlap, and the rule is the same.",
        ),
    },
)
