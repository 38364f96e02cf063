"""What the reviewers asked, answered by measurement. Of whom a question is stands in `where`."""

from __future__ import annotations

from typing import Any

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
    number,
    part,
)
from unmask.experiments.paper.figure_1 import longest, network

CONDITIONAL = {"language": "paper-2gram", "length": 128}
PROMPT = 64
SMALL_LAYERS = 1
STEPS = "training_steps"
SHORT = 50  # steps of a training that has not gone far


def _cells(size: Size) -> list[dict[str, Any]]:
    rows = 2000 if size.full else 400
    given = {"prompt_length": PROMPT, "rows_per_prompt": 4}
    learned = network(size) | {"rows": rows}
    brief = learned | {"training_steps": 2000 if size.full else SHORT}
    tiny = {"language": "paper-2gram", "length": 4, "steps": 300}
    return [
        part("samples", steps=[8, 64], rows=4 * rows, **CONDITIONAL, **given),
        part("ter_upper", steps=[8, 64], rows=100, **CONDITIONAL, prompt_length=PROMPT),
        part("infilling", language=["paper-2gram", "sparse-hmm"], length=64, hidden=16, steps=[4, 64], rows=rows),
        part("samples", sampler="speculative", rows=rows, **CONDITIONAL),
        part("erring", kind="tilt", epsilon=0.3, **tiny),
        part("erring", kind="leak", epsilon=0.003, **tiny),
        part("steps_for_ter", language=[f"paper-{n}gram" for n in (2, 3, 4)], length=512, rows=40),
        part("samples", language="modular-sum", length=65, steps=16, rows=4 * rows),
        part("passes", language="modular-sum", length=65, prompt_length=3, steps=16, rows=4 * rows, rows_per_prompt=8),
        part("samples", language="paper-2gram", length=512, steps=64, rows=2000),
        part("samples", language="paper-2gram", length=512, steps=64, rows=20_000),
        part("training", kind="mdm", **{n: v for n, v in brief.items() if n != "rows"}),
        part("learned", steps=[8, 64], **brief),
        part("learned", sampler="autoregressive", layers=SMALL_LAYERS, **learned),
        part("learned", steps=[4, 8, 64], **learned),
        part("valid_rounds", length=512, steps=512),
    ]


ITEM = Item("reviews", "the reviewers' questions, answered by measurement", _cells)
GENERATE = "unmask generate --language paper-2gram --length 128 "


@ITEM.claim(
    "conditional",
    "Reviewer Gs9S",
    "TER and SER extend to conditional generation with minor changes.",
    GENERATE + "--prompt-length 64 --rows-per-prompt 4 --steps 64 --out rows.npy",
)
def conditional(seen: Seen) -> Finding:
    at = {"prompt_length": PROMPT, "language": "paper-2gram"}
    sers = [seen.one("ser", metric="samples", steps=steps, **at) for steps in (8, 64)]
    ters = [seen.one("ter_upper_ratio", metric="ter_upper", steps=steps, **at) for steps in (8, 64)]
    ours = [(f"SER given 64 of 128 tokens, N = {n}", e) for n, e in zip((8, 64), sers, strict=True)]
    ours += [(f"TER(p)/TER(q) of the rest, at most, N = {n}", e) for n, e in zip((8, 64), ters, strict=True)]
    test = all_of(sers[1].high < sers[0].low, ters[1].high < ters[0].low, at_most(ters[1], 1.02))
    why = "All that is said without a prompt is measured with one: TER is near its best while SER is not, at N = 64."
    return judged(test, ours, why, "With a prompt it is otherwise.")


@ITEM.claim(
    "infilling",
    "Reviewer AskR",
    "Infilling may be where diffusion helps; the authors leave it to others.",
    "unmask paper reviews",
)
def infilling(seen: Seen) -> Finding:
    ours, tests = [], []
    for language in ("paper-2gram", "sparse-hmm"):
        at = {"metric": "infilling", "language": language}
        both, left = seen.one("ser", steps=64, **at), seen.one("ser_left_to_right", steps=64, **at)
        few = seen.one("ser", steps=4, **at)
        ours += [(f"SER of {language}, 16 of 64 hidden, MDM, N = 64", both), ("the same, N = 4", few)]
        ours.append((f"SER of {language}, AR that has read what stands before", left))
        tests.append(True if both.high < left.low else False if both.low > left.high else None)
    why = (
        "Ideal models on both sides: what AR cannot see behind the gap it contradicts, at any number of evaluations; "
        "an MDM knows it, and with enough rounds is right more often. With 4 rounds it is not."
    )
    return judged(all_of(*tests), ours, why, "AR is not worse where both sides are given.")


@ITEM.claim(
    "hybrid",
    "Reviewer AskR",
    "An MDM that drafts and an AR model that verifies may repair the sequence-level errors.",
    GENERATE + "--sampler speculative --rows 400 --out rows.npy",
)
def hybrid(seen: Seen) -> Finding:
    at = {"metric": "samples", "sampler": "speculative", "language": "paper-2gram"}
    wrong, cost = seen.one("ser", **at), seen.one("evaluations", **at)
    ours = [("SER of the 2-gram, speculative, L = 128", wrong), ("evaluations of both models", cost)]
    why = (
        "Its law is that of AR, so that nothing is wrong, in fewer evaluations than tokens: the limit is one of "
        "sampling independently in a round, and verification repairs it."
    )
    return judged(all_of(at_most(wrong, 0.02), cost.high < 128), ours, why, "Wrong, or dearer than AR.")


@ITEM.claim(
    "finer",
    "Reviewer t8kS",
    "SER prefers a model of the right support and wrong probabilities to a nearly perfect one that leaks.",
    "unmask paper reviews",
    "SER 0 against delta",
)
def finer(seen: Seen) -> Finding:
    models = {"right support, wrong probabilities": ("tilt", 0.3), "nearly perfect, leaks": ("leak", 0.003)}
    ours, found = [], {}
    for name, (kind, epsilon) in models.items():
        at = {"metric": "erring", "kind": kind, "epsilon": epsilon}
        found[kind] = seen.one("ser", **at), seen.one("divergence_nats", **at)
        ours += [(f"SER, {name}", found[kind][0]), (f"KL(q || p) in nats, {name}", found[kind][1])]
    tilt, leak = found["tilt"], found["leak"]
    test = tilt[0].value < leak[0].value and tilt[1].value > leak[1].value
    why = (
        "So it is: SER ranks them one way, and KL, which is what TER measures, the other. Neither number says all; SER "
        "<= 1 - exp(-KL) ties them together, and both are shown everywhere here."
    )
    return judged(test, ours, why, "Both numbers rank the two alike.")


@ITEM.claim(
    "order",
    "Reviewer AskR",
    "The number of steps for TER depends on the order n of the language; it is constant in the length alone.",
    "unmask sweep run recipes/lengths.yaml --store lengths",
)
def by_order(seen: Seen) -> Finding:
    found = {n: seen.one("steps_for_ter", language=f"paper-{n}gram", length=512) for n in (2, 3, 4)}
    ours = [(f"N for a TER within 1%, n = {n}, L = 512", estimate) for n, estimate in found.items()]
    (first, *_, last) = found.values()
    return judged(
        last.low > first.high or last.high < first.low,
        ours,
        "It depends on the language, and far less than (n-1)/eps^n: what counts is TC + DTC, not n.",
        "The same for all orders, within the intervals: what counts is TC + DTC of the language, not n.",
    )


@ITEM.claim(
    "steps-of-reasoning",
    "Reviewer t8kS",
    "Accuracy is an upper bound of 1 - SER: an answer may be right by wrong steps.",
    "unmask reasoning --quick --out reasoning",
    "1+2+3=4+3=6",
)
def lucky(seen: Seen) -> Finding:
    at = {"metric": "samples", "language": "modular-sum", "steps": 16, "sampler": "ancestral"}
    ser, answer, lucky = (seen.one(measure, **at) for measure in ("ser", "answer_error", "lucky_answers"))
    ours = [("SER: some step is wrong", ser), ("wrong answers", answer), ("right answers by wrong steps", lucky)]
    why = "Each step of chains of sums is verified, N = 16, L = 65: some rows are wrong, and their answers right."
    return judged(at_least(lucky, 0.001), ours, why, "Answers tell as much as steps.")


@ITEM.claim(
    "pass-at-k",
    "Rebuttal to reviewer t8kS",
    "Correctness is estimated by samples: pass@k, and a verifier.",
    "unmask paper reviews",
)
def pass_at_k(seen: Seen) -> Finding:
    one, many = (seen.one(measure, metric="passes") for measure in ("pass_at_1", "pass_at_k"))
    ser = seen.one("ser_given_prompt", metric="passes")
    ours = [("SER given a prompt", ser), ("pass@1", one), ("pass@8", many)]
    test = many.low > one.high
    why = "pass@1 is 1 - SER; pass@8 is far above it: who counts it measures luck beside skill, and 8 times the cost."
    return judged(test and one.low <= 1 - ser.value <= one.high, ours, why, "pass@8 says what pass@1 says.")


@ITEM.claim(
    "samples",
    "Rebuttal to reviewer t8kS",
    "With 20000 samples SER is as with 2000.",
    "unmask generate --language paper-2gram --length 512 --steps 64 --rows 20000 --out rows.npy",
    "negligible differences",
)
def samples(seen: Seen) -> Finding:
    at = {"metric": "samples", "language": "paper-2gram", "length": 512, "steps": 64, "prompt_length": 0}
    found = {rows: seen.one("ser", rows=rows, sampler="ancestral", pruned=True, **at) for rows in (2000, 20_000)}
    ours = [(f"SER at N = 64, {rows} rows", estimate) for rows, estimate in found.items()]
    few, many = found.values()
    test = few.low <= many.value <= few.high
    why = "Both intervals hold the same values; that of 2000 rows is about two points to each side in the middle."
    return judged(test, ours, why, "The larger sample is outside the interval of the smaller one.")


@ITEM.claim(
    "more-training",
    "Reviewer 4VkA",
    "Would more training of the MDM change the results? The authors: both are trained until convergence.",
    "unmask figure-1 --quick --languages paper-2gram --training-steps 2400 --out longer",
)
def more_training(seen: Seen) -> Finding:
    own = longest(seen)
    at = own | {"metric": "learned", "sampler": "ancestral"}
    counts = {record["training_steps"] for record in seen.all("ser", **{n: v for n, v in at.items() if n != STEPS})}
    if len(counts) < 2:
        raise Absent("ser of networks after two numbers of training steps")
    long, short = own[STEPS], min(counts - {own[STEPS]})
    ours, gains = [], {}
    for steps in (8, 64):
        before, after = seen.one("ser", steps=steps, **(at | {STEPS: short})), seen.one("ser", steps=steps, **at)
        many = "the recipe's" if long is None else long
        ours += [(f"SER at N = {steps}, {short} training steps", before), (f"the same, {many} training steps", after)]
        gains[steps] = before.value - after.value
    return judged(
        gains[64] > gains[8],
        ours,
        "More training helps where there are many rounds. Where there are few the errors are those of sampling in "
        "parallel, which no training removes.",
        "More training helps as much at few rounds as at many.",
    )


@ITEM.claim(
    "smaller-ar",
    "Reviewer 4VkA",
    "An MDM with fewer steps than tokens should be held against a smaller AR model of the same arithmetic.",
    "unmask paper reviews",
)
def smaller_ar(seen: Seen) -> Finding:
    at = longest(seen) | {"metric": "learned"}
    ar = seen.one("ser", sampler="autoregressive", **(at | {"layers": SMALL_LAYERS}))
    mdm = {n: seen.one("ser", sampler="ancestral", steps=n, **at) for n in (4, 8)}
    ours = [(f"SER of an AR model of {SMALL_LAYERS} layer", ar)]
    ours += [(f"SER of an MDM of 4 layers, N = {n}", estimate) for n, estimate in mdm.items()]
    ours += [("arithmetic of that AR model over that of the MDM's rounds, about", number(SMALL_LAYERS / (4 * 4)))]
    test = (
        True
        if all(ar.high < e.low for e in mdm.values())
        else False
        if any(ar.low > e.high for e in mdm.values())
        else None
    )
    why = (
        "With a sixteenth of the arithmetic the small AR model is right more often: since one evaluation of an MDM "
        "costs as much as all of AR, N rounds would pay for an AR model N times as large."
    )
    return judged(test, ours, why, "The small AR model is wrong more often.")


@ITEM.claim(
    "multiple",
    "Reviewer t8kS",
    "Both scale linearly with the length: does AR have the smaller constant? The authors: by a factor of the length.",
    "unmask time --preset paper --lengths 512 --steps 512 --batch 1",
    "O(L^3) against O(L^2)",
)
def multiple(seen: Seen) -> Finding:
    ratio = seen.one("flop_ratio", length=512, steps=512, batch=1)
    ours = [("arithmetic of 512 rounds for 512 tokens over that of AR", ratio)]
    return judged(
        at_least(ratio, 100),
        ours,
        "By counting, with the cache of Appendix D: each evaluation is about all of AR.",
        "The factor is small.",
    )


@ITEM.claim(
    "math500",
    "Reviewer AskR",
    "More models and benchmarks: Math500, HumanEval, MBPP.",
    "unmask eval run --recipe llada-math-semi-ar",
)
def math500(seen: Seen) -> Finding:
    why = "Weights and a GPU. The authors added HumanEval; Math500 is a task here, and LLaDA's own report a recipe."
    return Finding("needs", why)


@ITEM.claim(
    "continuous",
    "Reviewer 4VkA",
    "Theorem 4.4 does not extend to continuous diffusion language models.",
    "unmask theory list",
)
def continuous(seen: Seen) -> Finding:
    return Finding("needs", "A model of that kind: this instrument is about masked ones.")
