"""Figure 1: languages with a known distribution, with the ideal denoiser and with networks."""

from __future__ import annotations

from typing import Any

from reproduction.judge import Fields, Size, claim, own, part, shown
from reproduction.records import Absent, Records
from unmask import Estimate

NGRAMS = ("paper-2gram", "paper-3gram", "paper-4gram")
PRINTED = "paper-hmm"  # that of Table 1: for TER, since it accepts practically every string
HMM = "sparse-hmm"  # ours, for SER: without pruning it would be nearly noise, of TER 7.6 out of 8
FLUENT, ALL = (*NGRAMS, PRINTED), (*NGRAMS, HMM)
OPEN = "{}(pruned=False)"  # a language without impossible strings
OPEN_ENDED = {"language": [OPEN.format(name) for name in FLUENT], "length": 512}
CHAIN = {"language": "paper-2gram"}
CONFIDENT = {"sampler": "low-confidence", "steps": 64}
EVERY = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
ERRORS = {"job": "samples", "sampler": "ancestral", "length": 512, "prompt_length": 0}
LEARNED = "paper-2gram"  # the language of the networks that are trained here


def network(size: Size) -> dict[str, Any]:
    """The network of the 2-gram: trained for a minute, or the paper's."""
    if size.full:
        return {"language": LEARNED, "preset": "paper", "length": 512, "device": size.device}
    return {"language": LEARNED, "preset": "quick", "training_steps": 250, "length": 64, "device": size.device}


def longest(records: Records) -> int | None:
    """The largest number of training steps of a network; None is the recipe's number."""
    steps = [record["training_steps"] for record in records.all("excess_percent", kind="mdm", language=LEARNED)]
    if not steps:
        raise Absent(f"a network trained on {LEARNED}")
    longest: int | None = max(steps, key=lambda n: n or 10**9)
    return longest


def trained_length(records: Records) -> int:
    """The length of this network's sequences."""
    at = LEARNED_BY | {"training_steps": longest(records)}
    return int(records.record("ser", sampler="ancestral", steps=8, **at)["length"])


TRAINED: dict[str, Any] = {"language": LEARNED, "training_steps": longest, "layers": None}
TRAINING, LEARNED_BY = TRAINED | {"job": "training"}, TRAINED | {"job": "learned"}
IDEAL_TWIN = {"job": "samples", "language": LEARNED, "length": trained_length}
CLOCK = {"job": "clock", "length": 512, "batch": 16}  # Appendix E.2 measures batches of 16 sequences


def at_steps(steps: int) -> dict[str, Any]:
    return {"sampler": "ancestral", "steps": steps}


def cells(size: Size) -> list[dict[str, Any]]:
    rows, steps = size.rows, EVERY if size.full else (8, 64, 2048)
    learned = network(size) | {"rows": rows}
    clocked = {name: learned[name] for name in ("language", "preset", "device")}
    return [
        part("training", kind=["mdm", "ar"], **network(size)),
        part("samples", language=ALL, length=512, steps=steps, rows=rows),
        part("samples", steps=steps, rows=rows, **OPEN_ENDED),
        part("autoregressive", **OPEN_ENDED),
        part("ter_upper", steps=steps, rows=40, **OPEN_ENDED),
        part("samples", rows=rows, length=512, language=OPEN.format(NGRAMS[0]), **CONFIDENT),
        part("samples", language=PRINTED, length=512, steps=8, rows=2000),
        own("support", language=[PRINTED, HMM], length=512, rows=2000),
        part("clock", kind=["mdm", "ar"], length=512, batch=16, **clocked),
        own("valid_steps", length=512, steps=64),
        part("learned", steps=[8, 64], **learned),
        part("learned", sampler="autoregressive", **learned),
        part("samples", steps=[8, 64], language=LEARNED, length=learned["length"], rows=rows),
    ]


def perplexity(records: Records, at: Fields) -> Estimate:
    """Generative perplexity divided by the language's TER, without impossible strings."""
    where = {"language": OPEN.format(at["language"]), "length": 512}
    own = records.one("ter", job="autoregressive", **where).value
    sampled = records.one("generative_perplexity", job="samples", **{**at, **where})
    return sampled.map(lambda value: value / own)


def _nats(records: Records, at: Fields) -> Estimate:
    entropy = records.one("entropy_nats_per_token", **at).value
    return records.one("excess_percent", **at).map(lambda percent: percent / 100 * entropy)


def gain(records: Records, at: Fields) -> float:
    valid = records.one("valid_steps", length=512, steps=64, batch=1).value
    evaluation, token = (records.one("milliseconds", kind=kind, **at).value for kind in ("mdm", "ar"))
    return 512 * token / (valid * evaluation)


CLAIMS = {
    "ter": claim(
        "Figure 1, upper; Section 5.2",
        "About 64 steps are enough for the generative perplexity of AR.",
        shown("generative perplexity / TER of {language}, N = 64", perplexity, language=FLUENT, **at_steps(64)),
        test=lambda ratio: ratio <= 1.1,
        agrees="Within 10% for each language of Table 1, with the ideal denoiser and the paper's length of 512.",
        figure="64 steps",
    ),
    "converges": claim(
        "Figure 1, upper",
        "With more steps the generative perplexity approaches that of AR.",
        shown("{language}, N = 8", perplexity, language=FLUENT, **at_steps(8)),
        shown("{language}, N = 2048", perplexity, language=FLUENT, **at_steps(2048)),
        test=lambda few, many: (many <= 1.02, few > many),
        agrees="It is within 2% of the language's own perplexity at 2048 steps, and higher at 8.",
    ),
    "name": claim(
        "Section 5.1 and Figure 1: the axis that represents TER",
        "Generative perplexity under the true language measures TER.",
        shown("generative perplexity / TER(q), {sampler}, N = 8", perplexity, **CHAIN, **at_steps(8)),
        shown(
            "TER(p)/TER(q) by definition, at most, N = 8",
            "ter_upper_ratio",
            steps=8,
            length=512,
            language=OPEN.format(NGRAMS[0]),
        ),
        shown("generative perplexity / TER(q), {sampler}, N = 64", perplexity, **CHAIN, **CONFIDENT),
        test=lambda ancestral, by_definition, low_confidence: low_confidence >= 1,
        differs="TER is defined by E_q[-log p] and cannot be below TER(q). Figure 1 plots another quantity, E_p[-log "
        "q]. It falls below that of the language if a sampler repeats likely tokens.",
    ),
    "ser-slower": claim(
        "Figure 1, lower; Section 5.2",
        "SER falls more slowly than perplexity: a low SER takes far more steps.",
        shown("SER of {language}, N = 64", "ser", language=ALL, steps=64, **ERRORS),
        test=lambda ser: ser >= 0.1,
        agrees="At N = 64 perplexity is near that of the language, but many sequences are impossible.",
    ),
    "gap": claim(
        "Figure 1, lower; Section 5.2",
        "Even at 2048 steps SER stays above that of AR.",
        shown("SER of {language}, N = 2048", "ser", language=ALL, steps=2048, **ERRORS),
        test=lambda ser: ser > 0,
        agrees="The ideal denoiser has this gap too: 512 positions draw from 2048 steps, so some steps reveal two.",
        figure="SER > 0 at N = 2048, L = 512",
    ),
    "ar-zero": claim(
        "Figure 1, lower; Section 5.2",
        "AR has an SER of zero.",
        shown("SER of the ideal AR", 0.0),
        shown("SER of a trained AR model", "ser", sampler="autoregressive", **LEARNED_BY),
        test=lambda ideal, ar: True if ar.value == 0 else False if ar.record["preset"] == "paper" else None,
        agrees="No sequence is impossible.",
        untested="The test needs the paper's networks and a GPU. The ideal AR model samples from the language and has "
        "no errors. A network of 200,000 parameters, trained for a minute, sometimes leaves the support.",
        figure="0",
    ),
    "learned": claim(
        "Section 5.1",
        "Trained MDMs and AR models reach the optimal perplexity on validation sets.",
        shown("loss above the entropy in percent, {kind}", "excess_percent", kind=["mdm", "ar"], **TRAINING),
        untested="The test needs the paper's networks and training, in all four languages. A small MDM on 64 tokens "
        "comes within 0.1% of the entropy of the 2-gram alone; others of docs/networks.md are 2 to 11% above it.",
        figure="optimal",
    ),
    "assumption": claim(
        "Assumption 4.1, Theorem 4.4",
        "A well-trained MDM has a small error in every context; Theorem 4.4 assumes less than 1/128 nats per token.",
        shown("mean learning error of the MDM in nats per token", _nats, kind="mdm", **TRAINING),
        untested="The assumption is about every context. A mean over contexts is well below 1/128 on the 2-gram, and "
        "cannot show the largest error; `unmask model learning` examines contexts.",
        figure="eps_learning < 1/128 = 0.0078",
    ),
    "whose-fault": claim(
        "Section 5.2",
        "At few steps the errors come from parallel sampling.",
        shown("SER, ideal denoiser, N = {steps}, L = {length}", "ser", steps=[8, 64], **IDEAL_TWIN),
        shown("SER, trained MDM, N = {steps}", "ser", steps=[8, 64], sampler="ancestral", **LEARNED_BY),
        test=lambda ideal, trained: ideal[8] >= 0.5 * max(e.high for e in trained[8].estimates()),
        agrees="At few steps the ideal denoiser makes most of the errors of a trained MDM. At many steps the other "
        "errors are learning errors of a small network.",
    ),
    "hmm": claim(
        "Table 1, HMM",
        "The HMM of Table 1, pruned at 0.003, has impossible strings, so SER can be measured on it.",
        shown("SER of the printed HMM, N = 8", "ser", job="samples", language="paper-hmm", steps=8),
        shown("fraction of random strings that {language} accepts", "possible", language=["paper-hmm", HMM]),
        untested="The body of Algorithm 2 is illegible. In our reading 32 states keep a third of their transitions and "
        "accept practically every string, so SER is 0. The paper plots a positive one: our reading is not its "
        "algorithm. The rebuttal mentions an HMM with sparse transitions; `sparse-hmm` is one.",
        figure="S = 32, V = 8, temperature 3.2, threshold 0.003",
    ),
    "speed": claim(
        "Figure 1 and Section 5.2; Appendix E.2",
        "64 steps are faster than AR at batch 16 and L = 512: 1.57 times on an RTX 4090.",
        shown("time of AR / time of 64 steps, here", gain, **CLOCK),
        shown("milliseconds of an MDM model call, here", "milliseconds", kind="mdm", **CLOCK),
        test=lambda gain, evaluation: gain > 1 if evaluation.on_gpu else None,
        agrees="Faster than AR, by another factor on another GPU.",
        untested="The test needs a GPU, since times depend on the machine. A CPU core has no idle units, so 64 model "
        "calls on all tokens take longer than AR with its cache.",
        figure="1.57 times",
    ),
    "architecture": claim(
        "Summary of the paper",
        "The findings are validated across diverse architectures and datasets.",
        untested="The test needs networks of several architectures. The paper trains one, a Transformer (Table 2, with "
        "10 layers for the 4-gram), and so do we; the large models of its Section 6 are Transformers too.",
    ),
}
