"""The reviewers' questions, answered by measurement; `where` names the reviewer."""

from __future__ import annotations

from typing import Any

from reproduction.figure_1 import LEARNED_BY, longest, network
from reproduction.judge import Size, claim, own, part, shown
from reproduction.records import Absent, Records
from reproduction.theorems import NATS

CHAIN = {"language": "paper-2gram", "length": 128}
TINY = {"language": "paper-2gram", "length": 4, "steps": 300}
TILT = {"kind": "tilt", "epsilon": 0.3, **TINY}
LEAK = {"kind": "leak", "epsilon": 0.003, **TINY}
SUMS = {"language": "modular-sum", "length": 65, "steps": 16}
PROMPT = 64
GIVEN = CHAIN | {"prompt_length": PROMPT, "steps": [8, 64]}
GAP = {"job": "infilling", "language": ["paper-2gram", "sparse-hmm"]}
SPECULATIVE = {"job": "samples", "sampler": "speculative", "language": "paper-2gram"}
ORDERS = [f"paper-{n}gram" for n in (2, 3, 4)]
EQUAL_STEPS = {"schedule": "linear", "steps": 4, "language": ORDERS[:2], "length": 512}
SAMPLED = {"job": "samples", "sampler": "ancestral"}
MANY_ROWS = SAMPLED | {"language": "paper-2gram", "length": 512, "steps": 64, "prompt_length": 0}
MDM = LEARNED_BY | {"sampler": "ancestral"}


def shortest(records: Records) -> int:
    """The smallest number of training steps, of networks with several numbers."""
    at = {name: value for name, value in MDM.items() if name != "training_steps"}
    counts = {record["training_steps"] for record in records.all("ser", **at)} - {longest(records)}
    if not counts:
        raise Absent("ser of networks after two numbers of training steps")
    return int(min(counts))


SMALL_AR = LEARNED_BY | {"sampler": "autoregressive", "layers": 1}
BRIEF = MDM | {"training_steps": shortest, "steps": [8, 64]}


def cells(size: Size) -> list[dict[str, Any]]:
    rows = size.rows
    learned = network(size) | {"rows": rows}
    brief = learned | {"training_steps": 2000 if size.full else 50}
    return [
        part("samples", rows=4 * rows, rows_per_prompt=4, **GIVEN),
        part("ter_upper", rows=100, **GIVEN),
        own("infilling", language=GAP["language"], length=64, hidden=16, steps=[4, 64], rows=rows),
        part("samples", sampler="speculative", rows=rows, **CHAIN),
        own("erring", **TILT),
        own("erring", **LEAK),
        part("steps_for_ter", language=ORDERS, length=512, rows=40),
        part("ter_upper", rows=40, **EQUAL_STEPS),
        part("samples", rows=4 * rows, **SUMS),
        own("passes", prompt_length=3, rows=4 * rows, rows_per_prompt=8, **SUMS),
        part("samples", language="paper-2gram", length=512, steps=64, rows=2000),
        part("samples", language="paper-2gram", length=512, steps=64, rows=20_000),
        part("training", kind="mdm", **{n: v for n, v in brief.items() if n != "rows"}),
        part("learned", steps=[8, 64], **brief),
        part("learned", sampler="autoregressive", layers=1, **learned),
        part("learned", steps=[4, 8, 64], **learned),
        own("valid_steps", length=512, steps=512),
    ]


CLAIMS = {
    "conditional": claim(
        "Reviewer Gs9S",
        "TER and SER extend to conditional generation with minor changes.",
        shown("SER given 64 of 128 tokens, N = {steps}", "ser", job="samples", **GIVEN),
        shown("TER(p)/TER(q) of the rest, at most, N = {steps}", "ter_upper_ratio", **GIVEN),
        test=lambda ser, ter: (ser[64] < ser[8], ter[64] < ter[8], ter[64] <= 1.02),
        agrees="With a prompt as without one, at N = 64 TER is near that of the language, and SER is not.",
    ),
    "infilling": claim(
        "Reviewer AskR",
        "Diffusion may help with infilling; the authors leave this to others.",
        shown("SER of {language}, 16 of 64 hidden, MDM, N = 64", "ser", steps=64, **GAP),
        shown("SER of {language}, MDM, N = 4", "ser", steps=4, **GAP),
        shown("SER of {language}, AR, which sees only the left side", "ser_left_to_right", steps=64, **GAP),
        test=lambda mdm, few, ar: mdm < ar,
        agrees="Both models are ideal. AR cannot see the right side of the gap and contradicts it, at any number of "
        "model calls. The MDM sees it and is correct more often with enough steps; 4 are too few.",
    ),
    "hybrid": claim(
        "Reviewer AskR",
        "An MDM that drafts and an AR model that verifies may repair sequence-level errors.",
        shown("SER of the 2-gram, speculative, L = 128", "ser", **SPECULATIVE),
        shown("model calls of both models", "model_calls", **SPECULATIVE),
        test=lambda ser, model_calls: (ser <= 0.02, model_calls < 128),
        agrees="Together they have the distribution of AR, so no sequence is impossible, with fewer model calls than "
        "tokens. Independent sampling within a step limits an MDM, and verification repairs it.",
    ),
    "finer": claim(
        "Reviewer t8kS",
        "SER prefers a model with exact support and poor probabilities to a nearly perfect one that leaks.",
        shown("SER, exact support, poor probabilities", "ser", **TILT),
        shown("KL(q || p) in nats, exact support, poor probabilities", "divergence_nats", **TILT),
        shown("SER, nearly perfect, leaks", "ser", **LEAK),
        shown("KL(q || p) in nats, nearly perfect, leaks", "divergence_nats", **LEAK),
        test=lambda tilt, tilt_nats, leak, leak_nats: (tilt < leak, tilt_nats > leak_nats),
        agrees="It does: SER and KL, which TER measures, rank the models in opposite ways. Neither number is enough; "
        "SER <= 1 - exp(-KL) relates them, and `unmask` reports both everywhere.",
        figure="SER 0, but the theorem allows delta",
    ),
    "order": claim(
        "Reviewer AskR",
        "The number of steps for TER is constant in the length (`length.ter`), but grows with the order n.",
        shown("N for TER within 1%, {language}, L = 512", "steps_for_ter", language=ORDERS, length=512),
        shown("excess of log TER in nats per token, {language}, 4 equal steps", NATS, **EQUAL_STEPS),
        test=lambda steps, nats: (
            steps[ORDERS[0]] < steps[ORDERS[1]].value,
            steps[ORDERS[1]] < steps[ORDERS[2]].value,
        ),
        agrees="It grows with n, far less than the (n-1)/eps^n of Theorem 4.2, an upper bound: 4 equal steps give its "
        "guarantee at eps = 1/4 for both orders. TC + DTC of the language decides.",
        differs="It does not grow with the order: TC + DTC of the language decides, not n.",
    ),
    "steps-of-reasoning": claim(
        "Reviewer t8kS",
        "Accuracy is an upper bound of 1 - SER: incorrect steps may give a correct answer.",
        shown("SER: some step is incorrect", "ser", **SAMPLED, **SUMS),
        shown("incorrect answers", "answer_error", **SAMPLED, **SUMS),
        shown("correct answers by incorrect steps", "right_by_wrong_steps", **SAMPLED, **SUMS),
        test=lambda ser, answers, cancelled: cancelled >= 0.001,
        agrees="Each step of chains of sums is verified (N = 16, L = 65): some incorrect chains have correct answers.",
        figure="1+2+3=4+3=6",
    ),
    "pass-at-k": claim(
        "Rebuttal to reviewer t8kS",
        "Correctness is estimated by samples: pass@k, and a verifier.",
        shown("SER given a prompt", "ser_given_prompt", job="passes"),
        shown("pass@1", "pass_at_1", job="passes"),
        shown("pass@8", "pass_at_k", job="passes"),
        test=lambda ser, one, eight: (eight > one, one.contains(1 - ser.value)),
        agrees="pass@1 is 1 - SER. pass@8 is far higher: it measures chance as well as skill, at 8 times the cost.",
    ),
    "samples": claim(
        "Rebuttal to reviewer t8kS",
        "With 20000 samples SER is the same as with 2000.",
        shown("SER at N = 64, {rows} rows", "ser", rows=[2000, 20_000], **MANY_ROWS),
        test=lambda ser: ser[2000].contains(ser[20_000].value),
        agrees="The interval of 2000 rows, about two points to each side at 50%, contains the value of 20000 rows.",
        figure="negligible differences",
    ),
    "more-training": claim(
        "Reviewer 4VkA",
        "Would more training of the MDM change the results? The authors trained both until convergence.",
        shown("SER at N = {steps}, {training_steps} training steps", "ser", **BRIEF),
        shown("SER at N = {steps}, longest training", "ser", steps=[8, 64], **MDM),
        test=lambda short, long: short[64].value - long[64].value > short[8].value - long[8].value,
        agrees="More training helps at many steps. At few steps the errors come from parallel sampling, which training "
        "does not remove.",
    ),
    "smaller-ar": claim(
        "Reviewer 4VkA",
        "An MDM with fewer steps than tokens should be compared with a smaller AR model of the same FLOPs.",
        shown("SER of an AR model of 1 layer", "ser", **SMALL_AR),
        shown("SER of an MDM of 4 layers, N = {steps}", "ser", steps=[4, 8], **MDM),
        shown("FLOPs of that AR model / FLOPs of the MDM's 4 steps, about", 1 / (4 * 4)),
        test=lambda ar, mdm, flops: ar < mdm,
        agrees="With a sixteenth of the FLOPs the small AR model is correct more often. One model call of an MDM costs "
        "as much as all of AR, so N steps would pay for an AR model N times as large.",
    ),
    "multiple": claim(
        "Reviewer t8kS",
        "Both scale linearly with the length; does AR have the smaller constant? The authors: by a factor of L.",
        shown("FLOPs of 512 steps for 512 tokens / FLOPs of AR", "flop_ratio", length=512, steps=512, batch=1),
        test=lambda ratio: ratio >= 100,
        arithmetic=True,
        agrees="Counted, with the cache of Appendix D: each model call costs about as much as all of AR.",
        figure="O(L^3) against O(L^2)",
    ),
    "math500": claim(
        "Reviewer AskR",
        "More models and benchmarks: Math500, HumanEval, MBPP.",
        untested="The test needs weights and a GPU. The authors added HumanEval; `unmask eval lm-eval` runs such "
        "tasks.",
    ),
    "continuous": claim(
        "Reviewer 4VkA",
        "Theorem 4.4 does not extend to continuous diffusion language models.",
        untested="The test needs a continuous model; `unmask` measures masked ones.",
    ),
}
