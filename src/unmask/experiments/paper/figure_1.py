"""Figure 1: languages with a known distribution, by the ideal denoiser and by networks."""

from __future__ import annotations

from typing import Any

from unmask.core.estimates import Estimate
from unmask.experiments.paper.judge import Claim, Fields, Size, item, part, shown
from unmask.experiments.paper.records import Absent, Seen

NGRAMS = ("paper-2gram", "paper-3gram", "paper-4gram")
HMM = "sparse-hmm"  # ours; the paper's accepts practically every string
ALL = (*NGRAMS, HMM)
CHAIN = {"language": "paper-2gram"}
CONFIDENT = {"sampler": "low-confidence", "steps": 64}
EVERY = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
ERRORS = {"metric": "samples", "sampler": "ancestral", "length": 512, "pruned": True, "prompt_length": 0}
OPEN_ENDED = {"length": 512, "pruned": False}
LEARNED = "paper-2gram"  # the language of the networks that are trained here
SAMPLE = "unmask generate --language {} --length 512 --steps {} --rows 2000 --out rows.npy"


def network(size: Size) -> dict[str, Any]:
    """The network of the 2-gram: a minute of training, or the paper's."""
    if size.full:
        return {"language": LEARNED, "preset": "paper", "length": 512, "device": size.device}
    return {"language": LEARNED, "preset": "quick", "training_steps": 250, "length": 64, "device": size.device}


def longest(seen: Seen) -> int | None:
    """The training steps of the network that was trained longest; None is the recipe's number."""
    steps = [record["training_steps"] for record in seen.all("excess_percent", kind="mdm", language=LEARNED)]
    if not steps:
        raise Absent(f"a network trained on {LEARNED}")
    longest: int | None = max(steps, key=lambda n: n or 10**9)
    return longest


def trained_length(seen: Seen) -> int:
    """The length of its sequences."""
    at = LEARNED_BY | {"training_steps": longest(seen)}
    return int(seen.record("ser", sampler="ancestral", steps=8, **at)["length"])


TRAINED: dict[str, Any] = {"language": LEARNED, "training_steps": longest, "layers": None}
TRAINING, LEARNED_BY = TRAINED | {"metric": "training"}, TRAINED | {"metric": "learned"}
IDEAL_TWIN = {"metric": "samples", "language": LEARNED, "length": trained_length, "pruned": True}
CLOCK = {"metric": "clock", "length": 512, "batch": 16}  # Appendix E.2 times 16 rows together


def at_steps(steps: int) -> dict[str, Any]:
    return {"sampler": "ancestral", "steps": steps}


def _figure_1(size: Size) -> list[dict[str, Any]]:
    rows, steps = (2000, EVERY) if size.full else (400, (8, 64, 2048))
    learned = network(size) | {"rows": rows}
    clocked = {name: learned[name] for name in ("language", "preset", "device")}
    return [
        part("training", kind=["mdm", "ar"], **network(size)),
        part("samples", language=ALL, length=512, steps=steps, rows=rows),
        part("samples", language=ALL, steps=steps, rows=rows, **OPEN_ENDED),
        part("autoregressive", language=ALL, **OPEN_ENDED),
        part("ter_upper", language=ALL, steps=steps, rows=40, **OPEN_ENDED),
        part("samples", sampler="low-confidence", language=NGRAMS[0], steps=64, rows=rows, **OPEN_ENDED),
        part("samples", language="paper-hmm", length=512, steps=8, rows=2000),
        part("support", language=["paper-hmm", HMM], length=512, rows=2000),
        part("clock", kind=["mdm", "ar"], length=512, batch=16, **clocked),
        part("valid_rounds", length=512, steps=64),
        part("learned", steps=[8, 64], **learned),
        part("learned", sampler="autoregressive", **learned),
        part("samples", steps=[8, 64], language=LEARNED, length=learned["length"], rows=rows),
    ]


def perplexity(seen: Seen, at: Fields) -> Estimate:
    """Generative perplexity divided by the TER of the language itself, where every string is possible."""
    own = seen.one("ter", metric="autoregressive", language=at["language"], **OPEN_ENDED).value
    found = seen.one("generative_perplexity", metric="samples", **at, **OPEN_ENDED)
    return found.map(lambda value: value / own)


def _nats(seen: Seen, at: Fields) -> Estimate:
    entropy = seen.one("entropy_nats_per_token", **at).value
    return seen.one("excess_percent", **at).map(lambda percent: percent / 100 * entropy)


def _gain(seen: Seen, at: Fields) -> float:
    valid = seen.one("valid_rounds", length=512, steps=64, batch=1).value
    evaluation, token = (seen.one("milliseconds", kind=kind, **at).value for kind in ("mdm", "ar"))
    return 512 * token / (valid * evaluation)


FIGURE_1 = item(
    "figure-1",
    "Figure 1: TER and SER by the number of steps, with AR last",
    _figure_1,
    {
        "ter": Claim(
            "Figure 1, upper; Section 5.2",
            "About 64 steps are enough for the generative perplexity of AR.",
            SAMPLE.format("'paper-3gram(pruned=False)'", 64),
            [shown("generative perplexity / TER of {language}, N = 64", perplexity, language=ALL, **at_steps(64))],
            lambda ratio: ratio <= 1.1,
            "Within 10% for every language, with the ideal denoiser at the paper's length of 512.",
            figure="64 steps",
        ),
        "converges": Claim(
            "Figure 1, upper",
            "With more steps the generative perplexity approaches that of AR.",
            SAMPLE.format("'paper-3gram(pruned=False)'", 2048),
            [
                shown("{language}, N = 8", perplexity, language=ALL, **at_steps(8)),
                shown("{language}, N = 2048", perplexity, language=ALL, **at_steps(2048)),
            ],
            lambda few, many: (many <= 1.02, few > many),
            "At 2048 steps it is within 2% of the language's own; at 8 steps it is higher.",
        ),
        "name": Claim(
            "Section 5.1 and Figure 1: the axis that represents TER",
            "The generative perplexity, by the true language, is the measure of TER.",
            "unmask frontier --language 'paper-2gram(pruned=False)' --steps 64 --length 128",
            [
                shown("generative perplexity / TER(q), {sampler}, N = 8", perplexity, **CHAIN, **at_steps(8)),
                shown(
                    "TER(p)/TER(q) by its definition, at most, N = 8", "ter_upper_ratio", steps=8, **CHAIN, **OPEN_ENDED
                ),
                shown("generative perplexity / TER(q), {sampler}, N = 64", perplexity, **CHAIN, **CONFIDENT),
            ],
            lambda ancestral, by_definition, low_confidence: low_confidence >= 1,
            differs="TER by its definition is E_q[-log p] and cannot be below TER(q). The plotted quantity is another "
            "one, E_p[-log q]. It is below the optimum for a sampler that repeats likely tokens.",
        ),
        "ser-slower": Claim(
            "Figure 1, lower; Section 5.2",
            "SER falls more slowly than perplexity: a low SER takes far more steps.",
            SAMPLE.format("sparse-hmm", 512),
            [shown("SER of {language}, N = 64", "ser", language=ALL, steps=64, **ERRORS)],
            lambda ser: ser >= 0.1,
            "At N = 64 perplexity is near its optimum, and many sequences are still impossible.",
        ),
        "gap": Claim(
            "Figure 1, lower; Section 5.2",
            "Even at 2048 steps a gap in SER to AR remains.",
            SAMPLE.format("paper-4gram", 2048),
            [shown("SER of {language}, N = 2048", "ser", language=ALL, steps=2048, **ERRORS)],
            lambda ser: ser > 0,
            "The ideal denoiser has this gap, too: with 2048 random steps for 512 positions, many steps reveal two.",
            figure="SER > 0 at N = 2048, L = 512",
        ),
        "ar-zero": Claim(
            "Figure 1, lower; Section 5.2",
            "AR has an SER of zero.",
            "unmask figure-1 --device cuda --out figure-1",
            [
                shown("SER of the ideal AR", 0.0),
                shown("SER of a trained AR model", "ser", sampler="autoregressive", **LEARNED_BY),
            ],
            lambda ideal, ar: True if ar.value == 0 else False if ar.record["preset"] == "paper" else None,
            "None of the sequences is impossible.",
            untested="It needs the paper's networks and a GPU: the ideal AR draws from the language and is never "
            "wrong, but a network of 200,000 parameters after a minute of training sometimes leaves the support.",
            figure="0",
        ),
        "learned": Claim(
            "Section 5.1",
            "Trained MDMs and AR models reach the optimal perplexity on validation sets.",
            "unmask paper figure-1",
            [shown("loss above the entropy in percent, {kind}", "excess_percent", kind=["mdm", "ar"], **TRAINING)],
            lambda excess: excess <= 0.5,
            "Within half a percent of the entropy; the size quick trains small networks.",
            "More than half a percent above the entropy; the size quick trains small networks.",
            figure="optimal",
        ),
        "assumption": Claim(
            "Assumption 4.1, Theorem 4.4",
            "A well-trained MDM errs little in every context; Theorem 4.4 takes less than 1/128 nats a token.",
            "unmask paper figure-1",
            [shown("mean learning error of the MDM in nats a token", _nats, kind="mdm", **TRAINING)],
            lambda nats: nats <= 1 / 128,
            "The mean over contexts is well below it. The assumption asks it of each context, which no mean can show: "
            "`unmask learning` looks at contexts.",
            figure="eps_learning < 1/128 = 0.0078",
        ),
        "whose-fault": Claim(
            "Section 5.2",
            "The errors at few steps are those of sampling in parallel.",
            "unmask figure-1 --quick --languages paper-2gram --out figure-1",
            [
                shown("SER, ideal denoiser, N = {steps}, L = {length}", "ser", steps=[8, 64], **IDEAL_TWIN),
                shown("SER, trained MDM, N = {steps}", "ser", steps=[8, 64], sampler="ancestral", **LEARNED_BY),
            ],
            lambda ideal, trained: ideal[8].value >= 0.5 * trained[8].value,
            "At few steps the ideal denoiser makes most of the errors of a trained MDM, too; at many steps the other "
            "errors are learning errors of a small network.",
        ),
        "hmm": Claim(
            "Table 1, HMM",
            "The HMM of Table 1, pruned at 0.003, has impossible strings, so that an SER can be measured on it.",
            "unmask show language paper-hmm --length 512",
            [
                shown("SER of the printed HMM, N = 8", "ser", metric="samples", language="paper-hmm", steps=8),
                shown("fraction of random strings that {language} accepts", "possible", language=["paper-hmm", HMM]),
            ],
            lambda ser, accepted: accepted["paper-hmm"] < 0.99,
            differs="The body of Algorithm 2 is illegible. As we read it, 32 states with a third of their transitions "
            "left accept practically every string of 8 symbols, so that SER is 0 for every sampler. The rebuttal "
            "mentions an HMM with sparse transitions; `sparse-hmm` is one.",
            figure="S = 32, V = 8, temperature 3.2, threshold 0.003",
        ),
        "speed": Claim(
            "Figure 1 and Section 5.2; Appendix E.2",
            "64 steps are 1.57 times as fast as AR (RTX 4090, batch 16, L = 512).",
            "unmask time --preset paper --lengths 512 --batch 16 --steps 64 --device cuda",
            [
                shown("time of AR / time of 64 steps, here", _gain, **CLOCK),
                shown("milliseconds of an evaluation by the MDM, here", "milliseconds", kind="mdm", **CLOCK),
            ],
            lambda gain, evaluation: gain > 1 if evaluation.on_gpu else None,
            "Faster than AR, by another factor on another GPU.",
            untested="It needs a GPU, since times depend on the machine. A CPU core has no idle units, so that 64 "
            "evaluations of all tokens take longer than AR with its cache.",
            figure="1.57 times",
        ),
    },
)
