"""The reviewers' questions, answered by measurement. `where` names the reviewer."""

from __future__ import annotations

from typing import Any

from unmask.experiments.paper.figure_1 import LEARNED_BY, longest, network
from unmask.experiments.paper.judge import Claim, Size, item, part, shown
from unmask.experiments.paper.records import Absent, Seen

CHAIN = {"language": "paper-2gram", "length": 128}
TINY = {"language": "paper-2gram", "length": 4, "steps": 300}
TILT = {"metric": "erring", "kind": "tilt", "epsilon": 0.3, **TINY}
LEAK = {"metric": "erring", "kind": "leak", "epsilon": 0.003, **TINY}
SUMS = {"language": "modular-sum", "length": 65, "steps": 16}
PROMPT = 64
GIVEN = CHAIN | {"prompt_length": PROMPT, "steps": [8, 64]}
GAP = {"metric": "infilling", "language": ["paper-2gram", "sparse-hmm"]}
SPECULATIVE = {"metric": "samples", "sampler": "speculative", "language": "paper-2gram"}
ORDERS = [f"paper-{n}gram" for n in (2, 3, 4)]
SAMPLED = {"metric": "samples", "sampler": "ancestral"}
MANY_ROWS = SAMPLED | {"language": "paper-2gram", "length": 512, "steps": 64, "prompt_length": 0, "pruned": True}
MDM = LEARNED_BY | {"sampler": "ancestral"}
GENERATE = "unmask generate --language paper-2gram --length 128 "


def shortest(seen: Seen) -> int:
    """The training steps of the network that was trained shortest, of several."""
    at = {name: value for name, value in MDM.items() if name != "training_steps"}
    counts = {record["training_steps"] for record in seen.all("ser", **at)} - {longest(seen)}
    if not counts:
        raise Absent("ser of networks after two numbers of training steps")
    return int(min(counts))


BRIEF = MDM | {"training_steps": shortest, "steps": [8, 64]}


def _cells(size: Size) -> list[dict[str, Any]]:
    rows = 2000 if size.full else 400
    learned = network(size) | {"rows": rows}
    brief = learned | {"training_steps": 2000 if size.full else 50}
    return [
        part("samples", rows=4 * rows, rows_per_prompt=4, **GIVEN),
        part("ter_upper", rows=100, **GIVEN),
        part("infilling", language=GAP["language"], length=64, hidden=16, steps=[4, 64], rows=rows),
        part("samples", sampler="speculative", rows=rows, **CHAIN),
        part("erring", kind="tilt", epsilon=0.3, **TINY),
        part("erring", kind="leak", epsilon=0.003, **TINY),
        part("steps_for_ter", language=ORDERS, length=512, rows=40),
        part("samples", rows=4 * rows, **SUMS),
        part("passes", prompt_length=3, rows=4 * rows, rows_per_prompt=8, **SUMS),
        part("samples", language="paper-2gram", length=512, steps=64, rows=2000),
        part("samples", language="paper-2gram", length=512, steps=64, rows=20_000),
        part("training", kind="mdm", **{n: v for n, v in brief.items() if n != "rows"}),
        part("learned", steps=[8, 64], **brief),
        part("learned", sampler="autoregressive", layers=1, **learned),
        part("learned", steps=[4, 8, 64], **learned),
        part("valid_rounds", length=512, steps=512),
    ]


ITEM = item(
    "reviews",
    "the reviewers' questions, answered by measurement",
    _cells,
    {
        "conditional": Claim(
            "Reviewer Gs9S",
            "TER and SER extend to conditional generation with minor changes.",
            GENERATE + "--prompt-length 64 --rows-per-prompt 4 --steps 64 --out rows.npy",
            [
                shown("SER given 64 of 128 tokens, N = {steps}", "ser", metric="samples", **GIVEN),
                shown("TER(p)/TER(q) of the rest, at most, N = {steps}", "ter_upper_ratio", **GIVEN),
            ],
            lambda ser, ter: (ser[64] < ser[8], ter[64] < ter[8], ter[64] <= 1.02),
            "With a prompt the results are those without one: at N = 64 TER is near its optimum and SER is not.",
        ),
        "infilling": Claim(
            "Reviewer AskR",
            "Infilling may be where diffusion helps; the authors leave it to others.",
            "unmask paper reviews",
            [
                shown("SER of {language}, 16 of 64 hidden, MDM, N = 64", "ser", steps=64, **GAP),
                shown("SER of {language}, MDM, N = 4", "ser", steps=4, **GAP),
                shown("SER of {language}, AR, which sees only the left side", "ser_left_to_right", steps=64, **GAP),
            ],
            lambda mdm, few, ar: mdm < ar,
            "Both models are ideal. AR cannot see the right side of the gap, and contradicts it at any number of "
            "evaluations; an MDM sees it, and is right more often with enough steps. With 4 steps it is not.",
        ),
        "hybrid": Claim(
            "Reviewer AskR",
            "An MDM that drafts and an AR model that verifies may repair the sequence-level errors.",
            GENERATE + "--sampler speculative --rows 400 --out rows.npy",
            [
                shown("SER of the 2-gram, speculative, L = 128", "ser", **SPECULATIVE),
                shown("evaluations of both models", "evaluations", **SPECULATIVE),
            ],
            lambda ser, evaluations: (ser <= 0.02, evaluations < 128),
            "It has the distribution of AR, so that no sequence is impossible, in fewer evaluations than tokens. "
            "Independent sampling within a step limits an MDM, and verification repairs it.",
        ),
        "finer": Claim(
            "Reviewer t8kS",
            "SER prefers a model of the right support and wrong probabilities to a nearly perfect one that leaks.",
            "unmask paper reviews",
            [
                shown("SER, right support, wrong probabilities", "ser", **TILT),
                shown("KL(q || p) in nats, right support, wrong probabilities", "divergence_nats", **TILT),
                shown("SER, nearly perfect, leaks", "ser", **LEAK),
                shown("KL(q || p) in nats, nearly perfect, leaks", "divergence_nats", **LEAK),
            ],
            lambda tilt, tilt_nats, leak, leak_nats: (tilt < leak, tilt_nats > leak_nats),
            "It does: SER and KL, which TER measures, rank them in opposite ways. Neither number is enough; SER <= 1 "
            "- exp(-KL) relates them, and both are shown everywhere here.",
            figure="SER 0 against delta",
        ),
        "order": Claim(
            "Reviewer AskR",
            "The number of steps for TER depends on the order n of the language; it is constant in the length alone.",
            "unmask sweep run recipes/lengths.yaml --store lengths",
            [shown("N for a TER within 1%, {language}, L = 512", "steps_for_ter", language=ORDERS, length=512)],
            lambda steps: steps[ORDERS[0]].apart(steps[ORDERS[-1]]),
            "It depends on the language, and far less than (n-1)/eps^n: TC + DTC decides, not n.",
            "The same for all orders, within the intervals: TC + DTC of the language decides, not n.",
        ),
        "steps-of-reasoning": Claim(
            "Reviewer t8kS",
            "Accuracy is an upper bound of 1 - SER: an answer may be right by wrong steps.",
            "unmask reasoning --quick --out reasoning",
            [
                shown("SER: some step is incorrect", "ser", language="modular-sum", steps=16, **SAMPLED),
                shown("incorrect answers", "answer_error", language="modular-sum", steps=16, **SAMPLED),
                shown("right answers by wrong steps", "lucky_answers", language="modular-sum", steps=16, **SAMPLED),
            ],
            lambda ser, answers, lucky: lucky >= 0.001,
            "Each step of chains of sums is verified, N = 16, L = 65: some chains are incorrect and their answers "
            "right.",
            figure="1+2+3=4+3=6",
        ),
        "pass-at-k": Claim(
            "Rebuttal to reviewer t8kS",
            "Correctness is estimated by samples: pass@k, and a verifier.",
            "unmask paper reviews",
            [
                shown("SER given a prompt", "ser_given_prompt", metric="passes"),
                shown("pass@1", "pass_at_1", metric="passes"),
                shown("pass@8", "pass_at_k", metric="passes"),
            ],
            lambda ser, one, eight: (eight > one, one.contains(1 - ser.value)),
            "pass@1 is 1 - SER; pass@8 is far higher: it measures chance beside skill, at 8 times the cost.",
        ),
        "samples": Claim(
            "Rebuttal to reviewer t8kS",
            "With 20000 samples SER is as with 2000.",
            "unmask generate --language paper-2gram --length 512 --steps 64 --rows 20000 --out rows.npy",
            [shown("SER at N = 64, {rows} rows", "ser", rows=[2000, 20_000], **MANY_ROWS)],
            lambda ser: ser[2000].contains(ser[20_000].value),
            "The interval of 2000 rows, about two points to each side at one half, contains the value of 20000.",
            figure="negligible differences",
        ),
        "more-training": Claim(
            "Reviewer 4VkA",
            "Would more training of the MDM change the results? The authors: both are trained until convergence.",
            "unmask figure-1 --quick --languages paper-2gram --training-steps 2400 --out longer",
            [
                shown("SER at N = {steps}, {training_steps} training steps", "ser", **BRIEF),
                shown("SER at N = {steps}, longest training", "ser", steps=[8, 64], **MDM),
            ],
            lambda short, long: short[64].value - long[64].value > short[8].value - long[8].value,
            "More training helps at many steps. At few steps the errors come from parallel sampling, and training "
            "does not remove them.",
        ),
        "smaller-ar": Claim(
            "Reviewer 4VkA",
            "An MDM with fewer steps than tokens should be compared with a smaller AR model of the same FLOPs.",
            "unmask paper reviews",
            [
                shown(
                    "SER of an AR model of 1 layer", "ser", **LEARNED_BY | {"sampler": "autoregressive", "layers": 1}
                ),
                shown("SER of an MDM of 4 layers, N = {steps}", "ser", steps=[4, 8], **MDM),
                shown("FLOPs of that AR model / FLOPs of the MDM's 4 steps, about", 1 / (4 * 4)),
            ],
            lambda ar, mdm, flops: ar < mdm,
            "With a sixteenth of the FLOPs the small AR model is right more often. One evaluation of an MDM costs as "
            "much as all of AR, so that N steps would pay for an AR model N times as large.",
        ),
        "multiple": Claim(
            "Reviewer t8kS",
            "Both scale linearly with the length: does AR have the smaller constant? The authors: by a factor of the "
            "length.",
            "unmask time --preset paper --lengths 512 --steps 512 --batch 1",
            [shown("FLOPs of 512 steps for 512 tokens / FLOPs of AR", "flop_ratio", length=512, steps=512, batch=1)],
            lambda ratio: ratio >= 100,
            "By counting, with the cache of Appendix D: each evaluation costs about as much as all of AR.",
            figure="O(L^3) against O(L^2)",
        ),
        "math500": Claim(
            "Reviewer AskR",
            "More models and benchmarks: Math500, HumanEval, MBPP.",
            "unmask eval run --recipe llada-math-semi-ar",
            untested="It needs weights and a GPU. The authors added HumanEval; Math500 is a task here, and the report "
            "of LLaDA is a recipe.",
        ),
        "continuous": Claim(
            "Reviewer 4VkA",
            "Theorem 4.4 does not extend to continuous diffusion language models.",
            "unmask theory list",
            untested="It needs a continuous model: this instrument measures masked ones.",
        ),
    },
)
