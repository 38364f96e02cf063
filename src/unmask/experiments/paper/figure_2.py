"""Figure 2: what large models do, in miniature, with networks trained here."""

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
    part,
)

TEXT = {"text": "kjv", "tokenizer": "bpe:1024"}
TEXT_LENGTH = 64
SIMILAR = 1.1  # a perplexity over another that is about the same
UNLEARNED = 0.5  # of answers that are wrong at any number of rounds
TEXT_STEPS = (4, 16, 64)
OPEN_TEXT = "unmask sweep run recipes/open-text.yaml --store open-text"
FIGURE_2 = "unmask figure-2 --quick --out figure-2"
CHAINS = {"language": "modular-sum", "length": 65}
ROUNDS = (1, 4, 16, 64, 256)
QUESTIONS = {"language": "modular-sum(terms=4)", "length": 19, "preset": "questions", "prompt_length": 8}
REASONING = "unmask reasoning --quick --out reasoning"


def _text(size: Size) -> list[dict[str, Any]]:
    learned = TEXT | {"length": 128 if size.full else TEXT_LENGTH, "device": size.device}
    learned |= {} if size.full else {"training_steps": 160}
    rows = 200 if size.full else 64
    return [
        part("text_training", kind=["mdm", "ar"], **learned),
        part("written", steps=TEXT_STEPS, rows=rows, **learned),
        part("written", sampler="autoregressive", rows=rows, **learned),
        part("text_clock", steps=TEXT_STEPS, **learned),
        part("text_clock", kind="ar", **learned),
    ]


OPEN = Item("figure-2-left", "Figure 2, left: open text, MDLM-OWT against GPT-2 medium", _text)


@OPEN.claim(
    "mdlm-owt",
    "Figure 2, left; Section 6",
    "MDLM-OWT matches the generative perplexity of GPT-2 medium with 32 of up to 2048 steps, L = 1024.",
    OPEN_TEXT,
    "32 steps",
)
def mdlm_owt(seen: Seen) -> Finding:
    why = (
        "The weights of mdlm-owt, gpt2-medium and gpt2-large, and a GPU: 2000 texts of 1024 tokens each. The recipe is "
        "the paper's setting, and its judge is named in it; the miniature stands below."
    )
    return Finding("needs", why)


@OPEN.claim(
    "speed-up",
    "Figure 2, left",
    "At 32 steps it is 2.28 times as fast.",
    OPEN_TEXT,
    "2.28 times",
)
def speed_up(seen: Seen) -> Finding:
    return Finding("needs", "The same weights, and a GPU: times are of a machine.")


@OPEN.claim(
    "few-rounds",
    "Section 6, in miniature",
    "An MDM matches the generative perplexity of its AR twin with rounds well below the length.",
    FIGURE_2,
)
def few_rounds(seen: Seen) -> Finding:
    theirs, by = _texts(seen)
    length = seen.record("ngram_perplexity", metric="written", sampler="autoregressive")["length"]
    ours = [("n-gram perplexity, AR", theirs), *((f"n-gram perplexity, MDM, N = {n}", e) for n, e in by.items())]
    if at_most(by[max(by)], SIMILAR * theirs.value) is False:
        why = (
            "Networks that have learned more: with a round for each token this MDM, after a minute of training, is not "
            "as good as its twin, so that no number of rounds can be. An MDM learns more slowly than AR."
        )
        return Finding("needs", why, tuple(ours))
    enough = [n for n, e in by.items() if n <= length / 2 and at_most(e, SIMILAR * theirs.value)]
    maybe = [n for n, e in by.items() if n <= length / 2 and e.low <= SIMILAR * theirs.value]
    return judged(
        True if enough else None if maybe else False,
        ours,
        f"Within a tenth of AR's at {min(enough, default=0)} rounds of {length} tokens; the judge is an n-gram of the "
        "text, which has written none of them.",
        "With half as many rounds as tokens the MDM does not come within a tenth of its twin.",
    )


def _texts(seen: Seen) -> tuple[Estimate, dict[int, Estimate]]:
    measure = "ngram_perplexity"  # of a judge that writes nothing itself: the AR twin would judge its own text
    theirs = seen.one(measure, metric="written", sampler="autoregressive")
    return theirs, seen.by("steps", measure, metric="written", sampler="ancestral")


@OPEN.claim(
    "converges",
    "Section 6, in miniature",
    "Its perplexity goes on falling with the number of rounds, and converges.",
    FIGURE_2,
)
def falls(seen: Seen) -> Finding:
    _, by = _texts(seen)
    if len(by) < 3:
        raise Absent("perplexity at several numbers of rounds")
    values = list(by.values())
    ours = [(f"n-gram perplexity, MDM, N = {n}", estimate) for n, estimate in by.items()]
    falls = True if values[-1].high < values[0].low else None if values[-1].low < values[0].high else False
    settles = abs(values[-1].value / values[-2].value - 1) < abs(values[1].value / values[0].value - 1)
    return judged(
        all_of(falls, settles),
        ours,
        "The first rounds bring most, the last next to nothing.",
        "It does not fall, or not less and less.",
    )


@OPEN.claim(
    "faster",
    "Section 6, in miniature",
    "With few rounds an MDM is faster than AR with its cache.",
    FIGURE_2,
)
def faster(seen: Seen) -> Finding:
    theirs = seen.one("seconds", metric="text_clock", kind="ar")
    by = seen.by("steps", "seconds", metric="text_clock", kind="mdm")
    ours = [("seconds of a batch, AR", theirs), *((f"seconds of a batch, MDM, N = {n}", e) for n, e in by.items())]
    least = min(by)
    return judged(
        True if by[least].high < theirs.low else False if by[least].low > theirs.high else None,
        ours,
        f"At {least} rounds, on one core of a CPU; how many rounds break even is a matter of the machine.",
        "On one core of a CPU an evaluation of all tokens costs as much as all of AR's tokens: what makes an MDM "
        "faster is that a GPU is idle while AR writes.",
    )


def _sums(size: Size) -> list[dict[str, Any]]:
    learned = QUESTIONS | {"device": size.device}
    network = {name: value for name, value in learned.items() if name != "prompt_length"}
    rows = 2000 if size.full else 400
    return [
        part("training", kind=["mdm", "ar"], **network),
        part("learned", steps=[1, 4, 16], rows=rows, **learned),
        part("learned", sampler="autoregressive", rows=rows, **learned),
        part("samples", sampler=["ancestral", "low-confidence", "left-to-right"], steps=ROUNDS, rows=rows, **CHAINS),
    ]


SUMS = Item("figure-2-right", "Figure 2, right: reasoning, SMDM 1.1B on GSM8K", _sums)


@SUMS.claim(
    "gsm8k",
    "Figure 2, right; Section 6",
    "A 1.1B MDM that was fine-tuned on GSM8K, 1 to 256 steps of 256 tokens, beside Qwen2-Math-1.5B.",
    "unmask eval run --model smdm-gsm8k --card smdm-1.1b --task gsm8k --length 256 --steps 1 4 16 64 256",
)
def gsm8k(seen: Seen) -> Finding:
    return Finding(
        "needs", "The weights of the fine-tuned SMDM, in the directory smdm-gsm8k, those of Qwen2-Math-1.5B, and a GPU."
    )


@SUMS.claim(
    "lengths",
    "Section 6",
    "The MDM's answers are about 30 tokens long at every number of steps, the AR model's about 105.",
    "unmask eval run --model smdm-gsm8k --card smdm-1.1b --task gsm8k --length 256 --steps 1 4 16 64 256",
    "30 and 105 tokens",
)
def lengths(seen: Seen) -> Finding:
    why = (
        "The same weights. `unmask eval` counts the tokens of each answer: two models that answer at such different "
        "lengths were not asked for the same amount of work."
    )
    return Finding("needs", why)


@SUMS.claim(
    "below",
    "Figure 2, right; Section 6, in miniature",
    "Accuracy falls sharply where there are fewer steps than tokens.",
    REASONING,
)
def below(seen: Seen) -> Finding:
    found = _chains(seen, "answer_error", "ancestral")
    ours = [(f"wrong answers, chains of sums, N = {n}, L = 65", estimate) for n, estimate in found.items()]
    return judged(
        True if found[16].low > found[64].high else None if found[16].high > found[64].low else False,
        ours,
        "Even with the ideal denoiser, in random order.",
        "Fewer steps cost nothing.",
    )


def _chains(seen: Seen, measure: str, sampler: str) -> dict[int, Estimate]:
    found = seen.by("steps", measure, metric="samples", language="modular-sum", sampler=sampler)
    if not {16, 64, 256} <= set(found):
        raise Absent(f"{measure} of chains at 16, 64 and 256 steps")
    return found


@SUMS.claim(
    "above",
    "Figure 2, right; Section 6, in miniature",
    "More steps than tokens bring only a little.",
    REASONING,
)
def above(seen: Seen) -> Finding:
    found = _chains(seen, "answer_error", "ancestral")
    ours = [(f"wrong answers, chains of sums, N = {n}, L = 65", found[n]) for n in (16, 64, 256)]
    gained, before = found[64].value - found[256].value, found[16].value - found[64].value
    return judged(
        gained <= 0.25 * before,
        ours,
        "What four times as many steps still bring is less than a quarter of what the steps up to the length brought.",
        "In random order steps beyond the length still bring much: at N = L only 1 - 1/e of the rounds reveal "
        "anything, and many of those two tokens or more. Where the paper's curve is flat, decoding by confidence, "
        "with a fixed number of tokens a step, or the model's own limits are the likelier reasons.",
    )


@SUMS.claim(
    "order",
    "Section 6, in miniature",
    "The decline is due to insufficient sampling.",
    REASONING,
)
def by_order(seen: Seen) -> Finding:
    rules = ("ancestral", "low-confidence", "left-to-right")
    found = {rule: _chains(seen, "answer_error", rule)[16] for rule in rules}
    ours = [(f"wrong answers, chains of sums, N = 16, {rule}", estimate) for rule, estimate in found.items()]
    return judged(
        all_of(*(at_least(estimate, 0.1) for estimate in found.values())),
        ours,
        "In every order, with an ideal denoiser, where nothing but sampling can err.",
        "Not in every order.",
    )


@SUMS.claim(
    "learned",
    "Section 6, in miniature",
    "On reasoning an MDM has no advantage over AR.",
    REASONING,
)
def learned(seen: Seen) -> Finding:
    at = {"metric": "learned", "language": QUESTIONS["language"]}
    theirs = seen.one("answer_error", sampler="autoregressive", **at)
    by = seen.by("steps", "answer_error", sampler="ancestral", **at)
    ours = [("wrong answers to questions, AR", theirs), *((f"wrong answers, MDM, N = {n}", e) for n, e in by.items())]
    best = min(by.values(), key=lambda estimate: estimate.value)
    if best.value > UNLEARNED:
        return Finding(
            "needs", "A longer training: this MDM has not learned to answer at any number of steps.", tuple(ours)
        )
    test = True if best.low >= theirs.high else False if best.high < theirs.low else None
    if test is None and best.value <= theirs.value + 0.02 and best.high - best.low <= 0.1:
        test = True
    return judged(
        test,
        ours,
        "Twins of 200,000 weights that have learned sums modulo ten: at no number of steps is the MDM better.",
        "Twins of 200,000 weights that have learned sums modulo ten: at some number of steps the MDM is better.",
    )


ITEMS = (OPEN, SUMS)
