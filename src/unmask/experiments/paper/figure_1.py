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
BATCH = 16  # rows that are timed together, in Appendix E.2
ASSUMED = 1 / 128  # nats a token that an MDM may err by, in Theorem 4.4
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
    clocked = {name: learned[name] for name in ("language", "preset", "device")}
    return [
        part("training", kind=["mdm", "ar"], **network(size)),
        part("samples", language=ALL, length=512, steps=steps, rows=rows),
        part("samples", language=ALL, steps=steps, rows=rows, **open_ended),
        part("autoregressive", language=ALL, **open_ended),
        part("ter_upper", language=ALL, steps=steps, rows=40, **open_ended),
        part("samples", sampler="low-confidence", language=NGRAMS[0], steps=64, rows=rows, **open_ended),
        part("samples", language="paper-hmm", length=512, steps=8, rows=2000),
        part("support", language=["paper-hmm", "sparse-hmm"], length=512, rows=2000),
        part("clock", kind=["mdm", "ar"], length=512, batch=BATCH, **clocked),
        part("valid_rounds", length=512, steps=64),
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
    "unmask paper figure-1",
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
    "assumption",
    "Assumption 4.1, Theorem 4.4",
    "A well-trained MDM errs little in every context; Theorem 4.4 takes less than 1/128 nats a token.",
    "unmask paper figure-1",
    "eps_learning < 1/128 = 0.0078",
)
def assumption(seen: Seen) -> Finding:
    at = longest(seen) | {"metric": "training", "kind": "mdm"}
    entropy = seen.one("entropy_nats_per_token", **at).value
    nats = seen.one("excess_percent", **at).map(lambda percent: percent / 100 * entropy)
    return judged(
        at_most(nats, ASSUMED),
        [("learning error of the MDM in nats a token, in the mean", nats)],
        "In the mean over contexts it is well below. The assumption asks it of each, which no mean can show: `unmask "
        "learning` looks at contexts.",
        "In the mean over contexts it is above.",
    )


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
    "unmask show language paper-hmm --length 512",
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
    valid = seen.one("valid_rounds", length=512, steps=64, batch=1).value
    at = {"metric": "clock", "length": 512, "batch": BATCH}
    evaluation, token = (seen.one("milliseconds", kind=kind, **at) for kind in ("mdm", "ar"))
    gain = number(512 * token.value / (valid * evaluation.value))
    ours = [("time of AR over that of 64 rounds, here", gain)]
    if not seen.record("milliseconds", kind="mdm", **at)["device"].startswith("cuda"):
        why = (
            "A GPU: times are of a machine. On a core of a CPU, which has no idle units to give, 64 evaluations of all "
            "tokens are dearer than AR with its cache."
        )
        return Finding("needs", why, tuple(ours))
    return judged(gain.value > 1, ours, "Faster than AR, by another factor on another GPU.", "Slower than AR.")
