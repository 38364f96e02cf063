"""Figure 1 and what is said of it: formal languages, by the ideal denoiser at the paper's length, and by networks."""

from __future__ import annotations

from typing import Any

from unmask.core.estimates import Estimate
from unmask.experiments.paper.claims import (
    Absent,
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

NGRAMS = ("paper-2gram", "paper-3gram", "paper-4gram")
ALL = (*NGRAMS, "sparse-hmm")
STEPS = (8, 64, 2048)
EVERY = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
SIMILAR, NEAR = 0.1, 0.02  # relative: a perplexity that is like another, and one that is the same
ERRORS = {"metric": "samples", "sampler": "ancestral", "length": 512, "pruned": True, "prompt_length": 0}
LEARNED = "paper-2gram"  # what networks learn here
FEW = (8, 64)  # of their numbers of rounds
WEIGHTS = "unmask figure-1 --device cuda --out figure-1"
SAMPLE = "unmask generate --language {} --length 512 --steps {} --rows 2000 --out rows.npy"


def network(size: Size) -> dict[str, Any]:
    """The 2-gram's, of both kinds: a minute of training each, or the paper's."""
    if size.full:
        return {"language": LEARNED, "preset": "paper", "length": 512, "device": size.device}
    return {"language": LEARNED, "preset": "quick", "training_steps": 250, "length": 64, "device": size.device}


def longest(seen: Seen) -> dict[str, Any]:
    """What the cells of that network have in common, where others of it have learned for a shorter time."""
    steps = [record["training_steps"] for record in seen.all("excess_percent", kind="mdm", language=LEARNED)]
    if not steps:
        raise Absent(f"a network that has learned {LEARNED}")
    return {"language": LEARNED, "training_steps": max(steps, key=lambda n: n or 10**9), "layers": None}


def _cells(size: Size) -> list[dict[str, Any]]:
    rows, steps = (2000, EVERY) if size.full else (400, STEPS)
    open_ended = {"length": 512, "pruned": False}
    learned = network(size) | {"rows": rows}
    return [
        part("training", kind=["mdm", "ar"], **network(size)),
        part("samples", language=ALL, length=512, steps=steps, rows=rows),
        part("samples", language=ALL, steps=steps, rows=rows, **open_ended),
        part("autoregressive", language=ALL, **open_ended),
        part("ter_upper", language=ALL, steps=steps, rows=40, **open_ended),
        part("samples", sampler="low-confidence", language=NGRAMS[0], steps=64, rows=rows, **open_ended),
        part("samples", language="paper-hmm", length=512, steps=8, rows=2000),
        part("support", language=["paper-hmm", "sparse-hmm"], length=512, rows=2000),
        part("learned", steps=FEW, **learned),
        part("learned", sampler="autoregressive", **learned),
        part("samples", steps=FEW, language=LEARNED, length=learned["length"], rows=rows),
    ]


ITEM = Item("figure-1", "Figure 1: TER and SER against the number of rounds, AR last", _cells)


def perplexity(seen: Seen, language: str, steps: int) -> Estimate:
    """Generative perplexity over the language's own TER, where nothing is impossible."""
    at = {"language": language, "length": 512, "pruned": False}
    own = seen.one("ter", metric="autoregressive", **at).value
    found = seen.one("generative_perplexity", metric="samples", sampler="ancestral", steps=steps, **at)
    return found.map(lambda value: value / own)


@ITEM.claim(
    "ter",
    "Figure 1, upper; Section 5.2",
    "About 64 rounds are enough for the generative perplexity of AR.",
    SAMPLE.format("paper-3gram", 64) + " --no-pruned",
    "64 steps",
)
def ter(seen: Seen) -> Finding:
    found = {name: perplexity(seen, name, 64) for name in ALL}
    ours = [(f"generative perplexity / TER of {name}, N = 64", estimate) for name, estimate in found.items()]
    test = all_of(*(at_most(estimate, 1 + SIMILAR) for estimate in found.values()))
    return judged(
        test,
        ours,
        f"Within {SIMILAR:.0%} for every language, by the ideal denoiser at the paper's length of 512.",
        f"Some language is more than {SIMILAR:.0%} away.",
    )


@ITEM.claim(
    "converges",
    "Figure 1, upper",
    "With more rounds the generative perplexity approaches that of AR.",
    SAMPLE.format("paper-3gram", 2048) + " --no-pruned",
)
def converges(seen: Seen) -> Finding:
    found = {name: (perplexity(seen, name, 8), perplexity(seen, name, 2048)) for name in ALL}
    ours = [(f"{name}, N = {n}", pair[i]) for name, pair in found.items() for i, n in enumerate((8, 2048))]
    tests = [all_of(at_most(last, 1 + NEAR), first.low > last.high) for first, last in found.values()]
    return judged(
        all_of(*tests),
        ours,
        "At 2048 rounds it is the language's own, to 2%; at 8 it is above.",
        "It stays where it was, or away.",
    )


@ITEM.claim(
    "name",
    "Section 5.1 and Figure 1: the axis that stands for TER",
    "The generative perplexity, by the true language, is the measure of TER.",
    "unmask frontier --language paper-2gram --no-pruned --steps 64 --length 128",
)
def name(seen: Seen) -> Finding:
    at = {"language": NGRAMS[0], "length": 512, "pruned": False}
    own = seen.one("ter", metric="autoregressive", **at).value
    sharp = seen.one("generative_perplexity", sampler="low-confidence", steps=64, **at).map(lambda value: value / own)
    generative, upper = perplexity(seen, NGRAMS[0], 8), seen.one("ter_upper_ratio", steps=8, **at)
    ours = [
        ("generative perplexity / TER(q), ancestral, N = 8", generative),
        ("TER(p)/TER(q) by its definition, at most, N = 8", upper),
        ("generative perplexity / TER(q), low-confidence, N = 64", sharp),
    ]
    test = at_least(sharp, 1.0)
    return judged(
        test,
        ours,
        "No sampler has a generative perplexity below the language's own.",
        "TER as defined is E_q[-log p], and cannot be below TER(q). What is plotted is E_p[-log q], another quantity: "
        "it falls below the best possible for a sampler that repeats what is likely.",
    )


@ITEM.claim(
    "ser-slower",
    "Figure 1, lower; Section 5.2",
    "SER falls more slowly than perplexity: a low SER takes far more rounds.",
    SAMPLE.format("sparse-hmm", 512),
)
def slower(seen: Seen) -> Finding:
    found = {name: seen.one("ser", language=name, steps=64, **ERRORS) for name in ALL}
    ours = [(f"SER of {name}, N = 64", estimate) for name, estimate in found.items()]
    test = all_of(*(at_least(estimate, 0.1) for estimate in found.values()))
    return judged(
        test,
        ours,
        "Where perplexity is near its best, at N = 64, many sequences are still wrong.",
        "At N = 64 few sequences are wrong.",
    )


@ITEM.claim(
    "gap",
    "Figure 1, lower; Section 5.2",
    "Even at 2048 rounds a gap in SER to AR remains.",
    SAMPLE.format("paper-4gram", 2048),
    "SER > 0 at N = 2048, L = 512",
)
def gap(seen: Seen) -> Finding:
    found = {name: seen.one("ser", language=name, steps=2048, **ERRORS) for name in ALL}
    ours = [(f"SER of {name}, N = 2048", estimate) for name, estimate in found.items()]
    return judged(
        all_of(*(at_least(estimate, 1e-12) for estimate in found.values())),
        ours,
        "So it is with the ideal denoiser, too: of 2048 random rounds for 512 positions many hold two.",
        "Some language has no errors left.",
    )


@ITEM.claim(
    "ar-zero",
    "Figure 1, lower; Section 5.2",
    "AR has an SER of zero.",
    WEIGHTS,
    "0",
)
def zero(seen: Seen) -> Finding:
    at = longest(seen) | {"metric": "learned", "sampler": "autoregressive"}
    found = seen.one("ser", **at)
    record = seen.record("ser", **at)
    ours = [("SER of the ideal AR", number(0.0)), ("SER of a trained AR model", found)]
    if found.none_seen:
        return judged(True, ours, "None of the rows is wrong.", "")
    if record["preset"] != "paper":
        why = (
            "The paper's networks, a GPU: the ideal AR draws from the language and is never wrong; a network of "
            "200,000 parameters after a minute of training still leaves the support now and then."
        )
        return Finding("needs", why, tuple(ours))
    return judged(False, ours, "", "A trained AR model leaves the support now and then.")


@ITEM.claim(
    "learned",
    "Section 5.1",
    "Trained MDMs and AR models reach the optimal perplexity on validation sets.",
    WEIGHTS,
    "optimal",
)
def learned(seen: Seen) -> Finding:
    at = longest(seen) | {"metric": "training"}
    preset = seen.record("excess_percent", kind="mdm", **at)["preset"]
    found = {kind: seen.one("excess_percent", kind=kind, **at) for kind in ("mdm", "ar")}
    ours = [(f"loss above the entropy in percent, {kind.upper()}", estimate) for kind, estimate in found.items()]
    test = all_of(*(at_most(estimate, 0.5) for estimate in found.values()))
    where = "in miniature" if preset != "paper" else "with the paper's networks"
    why = f"Within half a percent of the entropy, {where}."
    return judged(test, ours, why, f"More than half a percent above the entropy, {where}.")


@ITEM.claim(
    "whose-fault",
    "Section 5.2",
    "The errors at few rounds are those of sampling in parallel.",
    "unmask figure-1 --quick --languages paper-2gram --out figure-1",
)
def fault(seen: Seen) -> Finding:
    ours, tests = [], []
    for steps in FEW:
        at = longest(seen) | {"metric": "learned", "sampler": "ancestral", "steps": steps}
        network, length = seen.one("ser", **at), seen.record("ser", **at)["length"]
        ideal = seen.one("ser", metric="samples", language=LEARNED, length=length, steps=steps, pruned=True)
        ours += [
            (f"SER, ideal denoiser, N = {steps}, L = {length}", ideal),
            (f"SER, trained MDM, N = {steps}", network),
        ]
        tests.append(ideal.value >= 0.5 * network.value)
    return judged(
        tests[0],
        ours,
        "At few rounds most of a trained MDM's errors are there with the ideal denoiser, too; at many the rest is "
        "what a small network has not learned.",
        "Most of the errors are what the network has not learned.",
    )


@ITEM.claim(
    "hmm",
    "Table 1, HMM",
    "The HMM of Table 1, pruned at 0.003, has impossible strings, so that an SER can be measured on it.",
    "unmask language show paper-hmm --length 512",
    "S = 32, V = 8, temperature 3.2, threshold 0.003",
)
def hmm(seen: Seen) -> Finding:
    wrong = seen.one("ser", metric="samples", language="paper-hmm", steps=8)
    accepted, sparse = (seen.one("possible", language=name) for name in ("paper-hmm", "sparse-hmm"))
    ours = [
        ("SER of the printed HMM, N = 8", wrong),
        ("random strings that it accepts", accepted),
        ("random strings that our sparse HMM accepts", sparse),
    ]
    return judged(
        negated(at_least(accepted, 0.99)),
        ours,
        "It refuses strings.",
        "As we read Algorithm 2, whose body is illegible, 32 states with a third of their transitions left accept "
        "practically every string of 8 symbols, and SER is 0 whatever a sampler does. The rebuttal speaks of an HMM "
        "with sparse transitions; `sparse-hmm` is one.",
    )


@ITEM.claim(
    "speed",
    "Figure 1 and Section 5.2; Appendix E.2",
    "64 rounds are 1.57 times as fast as AR (RTX 4090, batch 16, L = 512).",
    "unmask time --preset paper --lengths 512 --batch 16 --steps 64 --device cuda",
    "1.57 times",
)
def speed(seen: Seen) -> Finding:
    return Finding("needs", "A GPU like that: times are of a machine. The item `timing` has those of this one.")


def _lengths(size: Size) -> list[dict[str, Any]]:
    lengths = (130, 260, 510, 1025, 2050) if size.full else (130, 260, 510, 1025)
    both = {"language": ["paper-2gram", "interval-5"], "length": lengths}
    return [
        part("steps_for_ter", rows=100 if size.full else 40, **both),
        part("steps_for_ser", rows=500 if size.full else 200, **both),
    ]


LENGTH = Item("length", "the dichotomy: rounds for TER and for SER, by the length", _lengths)


def _by_length(seen: Seen, measure: str) -> dict[str, dict[int, Estimate]]:
    found = {name: seen.by("length", measure, language=name) for name in ("paper-2gram", "interval-5")}
    if min(map(len, found.values())) < 2:
        raise Absent(f"{measure} at several lengths")
    return found


@LENGTH.claim(
    "ter",
    "Theorem 4.2; poster, experiments",
    "The rounds at which TER saturates are the same at every length.",
    "unmask sweep run lengths.yaml --store lengths",
)
def ter_by_length(seen: Seen) -> Finding:
    found = _by_length(seen, "steps_for_ter")
    ours = [(f"N for a TER within 1%, {q}, L = {n}", e) for q, by in found.items() for n, e in by.items()]
    tests = [max(e.low for e in by.values()) <= 1.1 * min(e.high for e in by.values()) for by in found.values()]
    return judged(
        all(tests), ours, "The same number, to a tenth, over an eightfold length.", "It grows with the length."
    )


@LENGTH.claim(
    "saturates",
    "Poster, experiments",
    "TER saturates at about 512 steps.",
    "unmask plan --language paper-2gram --length 510 --target 0.1",
    "about 512 steps",
)
def saturates(seen: Seen) -> Finding:
    needed = _by_length(seen, "steps_for_ter")
    ours = [(f"N for a TER within 1%, {q}, L = {n}", e) for q, by in needed.items() for n, e in by.items()]
    test = all_of(*(at_most(e, 512) for by in needed.values() for e in by.values()))
    return judged(test, ours, "To within 1% it is there well before.", "It is not there yet at 512 rounds.")


@LENGTH.claim(
    "ser",
    "Theorem 4.4; poster, experiments",
    "The rounds for a given SER grow with the length.",
    "unmask sweep run lengths.yaml --store lengths",
)
def ser_by_length(seen: Seen) -> Finding:
    found = _by_length(seen, "steps_for_ser")
    ours, tests = [], []
    for q, by in found.items():
        ours += [(f"N for an SER of 1/2, {q}, L = {n}", e) for n, e in by.items()]
        (short, first), *_, (long, last) = by.items()
        growth = (last.low / first.high, last.high / first.low)
        lengths = long / short
        tests.append(True if growth[0] >= 0.6 * lengths else False if growth[1] < 0.6 * lengths else None)
    return judged(all_of(*tests), ours, "In proportion to it.", "More slowly than in proportion.")


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
STRATEGIES = Item("sampling-strategies", "do other orders change the conclusion? (poster, Appendix D)", _strategies)
COMPARE = "unmask board --samplers ancestral low-confidence dyadic --languages paper-2gram --lengths 512 --quick"


@STRATEGIES.claim(
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


@STRATEGIES.claim(
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


@STRATEGIES.claim(
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


ITEMS = (ITEM, LENGTH, STRATEGIES)
