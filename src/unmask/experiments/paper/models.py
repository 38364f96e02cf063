"""Figure 2 in miniature with networks trained here, and the poster's table of times."""

from __future__ import annotations

from typing import Any

from unmask.experiments.paper.judge import Claim, Fields, Shown, Size, Truth, Values, item, part, scaled, shown
from unmask.experiments.paper.records import Seen

TEXT = {"text": "kjv", "tokenizer": "bpe:1024"}
TEXT_STEPS = (4, 16, 64)
OPEN_TEXT = "unmask sweep run recipes/open-text.yaml --store open-text"
FIGURE_2 = "unmask figure-2 --quick --out figure-2"
CHAINS = {"language": "modular-sum", "length": 65}
ROUNDS = (1, 4, 16, 64, 256)
QUESTIONS = {"language": "modular-sum(terms=4)", "length": 19, "preset": "questions", "prompt_length": 8}
REASONING = "unmask reasoning --quick --out reasoning"
EVAL = "unmask eval run --model smdm-gsm8k --card smdm-1.1b --task gsm8k --length 256 --steps 1 4 16 64 256"
AR = "autoregressive"
ASKED = {"metric": "learned", "language": QUESTIONS["language"]}
TEXT_CLOCK = {"metric": "text_clock", "kind": "mdm", "steps": TEXT_STEPS}
TEXT_MDM = {"metric": "written", "sampler": "ancestral", "steps": TEXT_STEPS}
# The judge is an n-gram of the text, which generates nothing itself; the AR twin would judge its own text.
PERPLEXITY = shown("n-gram perplexity, MDM, N = {steps}", "ngram_perplexity", **TEXT_MDM)


def _text(size: Size) -> list[dict[str, Any]]:
    learned = TEXT | {"length": 128 if size.full else 64, "device": size.device}
    learned |= {} if size.full else {"training_steps": 160}
    rows = 200 if size.full else 64
    return [
        part("text_training", kind=["mdm", "ar"], **learned),
        part("written", steps=TEXT_STEPS, rows=rows, **learned),
        part("written", sampler="autoregressive", rows=rows, **learned),
        part("text_clock", steps=TEXT_STEPS, **learned),
        part("text_clock", kind="ar", **learned),
    ]


def _few_rounds(ar: Values, mdm: Values) -> Truth:
    """Whether half as many steps as tokens are enough; undecided for an MDM that learned too little for any number."""
    similar = 1.1 * ar.value
    if (mdm[max(mdm.by)] <= similar) is False:
        return None
    tests = [mdm[n] <= similar for n in mdm.by if n <= ar.record["length"] / 2]
    return True if True in tests else None if None in tests else False


def _settles(mdm: Values) -> tuple[Truth, Truth]:
    few, more, many = (mdm[n] for n in TEXT_STEPS)
    return many < few, abs(many.value / more.value - 1) < abs(more.value / few.value - 1)


LEFT = item(
    "figure-2-left",
    "Figure 2, left: open text, MDLM-OWT against GPT-2 medium",
    _text,
    {
        "mdlm-owt": Claim(
            "Figure 2, left; Section 6",
            "MDLM-OWT matches the generative perplexity of GPT-2 medium with 32 of up to 2048 steps, L = 1024.",
            OPEN_TEXT,
            untested="It needs the weights of mdlm-owt, gpt2-medium and gpt2-large, and a GPU: 2000 texts of 1024 "
            "tokens each. The recipe has the paper's setting and names its judge; the claims below are a miniature.",
            figure="32 steps",
        ),
        "speed-up": Claim(
            "Figure 2, left",
            "At 32 steps it is 2.28 times as fast.",
            OPEN_TEXT,
            untested="It needs the same weights and a GPU, since times depend on the machine.",
            figure="2.28 times",
        ),
        "few-rounds": Claim(
            "Section 6, in miniature",
            "An MDM matches the generative perplexity of its AR twin with steps well below the length.",
            FIGURE_2,
            [shown("n-gram perplexity, AR", "ngram_perplexity", metric="written", sampler=AR), PERPLEXITY],
            _few_rounds,
            "Within a tenth of AR's with at most half as many steps as tokens; the judge is an n-gram of the text.",
            untested="It needs networks that are trained longer. With a step for each token, this MDM after a minute "
            "of training is not as good as its twin, so that no number of steps can be: an MDM learns more slowly "
            "than AR.",
        ),
        "converges": Claim(
            "Section 6, in miniature",
            "Its perplexity goes on falling with the number of steps, and converges.",
            FIGURE_2,
            [PERPLEXITY],
            _settles,
            "The first steps reduce it most, the last hardly at all.",
        ),
        "faster": Claim(
            "Section 6, in miniature",
            "With few steps an MDM is faster than AR with its cache.",
            FIGURE_2,
            [
                shown("seconds of a batch, AR", "seconds", metric="text_clock", kind="ar"),
                shown("seconds of a batch, MDM, N = {steps}", "seconds", **TEXT_CLOCK),
            ],
            lambda ar, mdm: mdm[min(mdm.by)] < ar,
            "At 4 steps, on one core of a CPU; the break-even number of steps depends on the machine.",
            "On one core of a CPU an evaluation of all tokens costs as much as all tokens of AR: an MDM is faster "
            "only where hardware is idle while AR generates.",
        ),
    },
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


def chains(*steps: int, sampler: str = "ancestral") -> Shown:
    label = "incorrect answers, chains of sums, N = {steps}, L = {length}, {sampler}"
    return shown(label, "answer_error", metric="samples", sampler=sampler, steps=steps, **CHAINS)


def _no_better(ar: Values, mdm: Values) -> Truth:
    """Whether the MDM errs at least as often as AR at every number of steps; undecided if it did not learn to answer.

    Its best number of steps counts, also if it errs up to two points more often and its interval is short.
    """
    best = min(mdm.estimates(), key=lambda estimate: estimate.value)
    (theirs,) = ar.estimates()
    if best.value > 0.5:
        return None
    if best.low >= theirs.high or best.high < theirs.low:
        return best.low >= theirs.high
    return True if best.value <= theirs.value + 0.02 and best.high - best.low <= 0.1 else None


RIGHT = item(
    "figure-2-right",
    "Figure 2, right: reasoning, SMDM 1.1B on GSM8K",
    _sums,
    {
        "gsm8k": Claim(
            "Figure 2, right; Section 6",
            "A 1.1B MDM that was fine-tuned on GSM8K, 1 to 256 steps of 256 tokens, beside Qwen2-Math-1.5B.",
            EVAL,
            untested="It needs the weights of the fine-tuned SMDM, in the directory smdm-gsm8k, those of "
            "Qwen2-Math-1.5B, and a GPU.",
        ),
        "lengths": Claim(
            "Section 6",
            "The MDM's answers are about 30 tokens long at every number of steps, the AR model's about 105.",
            EVAL,
            untested="It needs the same weights. `unmask eval` counts the tokens of each answer. Two models whose "
            "answers have such different lengths do different amounts of work.",
            figure="30 and 105 tokens",
        ),
        "below": Claim(
            "Figure 2, right; Section 6, in miniature",
            "Accuracy falls sharply where there are fewer steps than tokens.",
            REASONING,
            [chains(*ROUNDS)],
            lambda error: error[16] > error[64],
            "Even with the ideal denoiser, in random order.",
        ),
        "above": Claim(
            "Figure 2, right; Section 6, in miniature",
            "More steps than tokens bring only a little.",
            REASONING,
            [chains(16, 64, 256)],
            lambda error: error[64].value - error[256].value <= 0.25 * (error[16].value - error[64].value),
            "Four times as many steps as the length gain less than a quarter of what the steps up to the length gain.",
            "In random order, steps beyond the length still gain much: at N = L only 1 - 1/e of the steps reveal "
            "anything, and many of those reveal two tokens or more. The paper's curve is flat more likely because of "
            "decoding by confidence with a fixed number of tokens a step, or because of the model's own limits.",
        ),
        "order": Claim(
            "Section 6, in miniature",
            "The decline is due to insufficient sampling.",
            REASONING,
            [chains(16), chains(16, sampler="low-confidence"), chains(16, sampler="left-to-right")],
            lambda *errors: tuple(error >= 0.1 for error in errors),
            "It declines in every order, with an ideal denoiser, so that sampling is the only source of errors.",
        ),
        "learned": Claim(
            "Section 6, in miniature",
            "On reasoning an MDM has no advantage over AR.",
            REASONING,
            [
                shown("incorrect answers to questions, AR", "answer_error", sampler=AR, **ASKED),
                shown(
                    "incorrect answers, MDM, N = {steps}",
                    "answer_error",
                    sampler="ancestral",
                    steps=[1, 4, 16],
                    **ASKED,
                ),
            ],
            _no_better,
            "Twins of 200,000 weights, trained on sums modulo ten: at no number of steps is the MDM better.",
            "Twins of 200,000 weights, trained on sums modulo ten: at some number of steps the MDM is better.",
            "It needs a longer training or more rows: either this MDM answers most questions incorrectly at every "
            "number of steps, or an interval contains both answers.",
        ),
    },
)

POSTER = {512: (3.1, 1.7), 1024: (4.2, 3.3), 2048: (4.7, 7.0)}  # seconds: an MDM in 512 steps, AR
TIME = "unmask time --preset paper --lengths 512 1024 2048 --batch 1 --steps 512 --device cuda"
LENGTHS = tuple(POSTER)
STEPS = {"steps": 512, "batch": 1}
CLOCK = {"metric": "clock", "batch": 1, "length": LENGTHS}
A_STEP = scaled("valid_rounds", lambda valid, at: 1000 * POSTER[at["length"]][0] / valid)


def _times(size: Size) -> list[dict[str, Any]]:
    shape = {"preset": "paper" if size.full else "quick", "device": size.device, "batch": 1}
    return [
        part("valid_rounds", length=LENGTHS, steps=512, batch=[1, 16]),
        part("clock", kind=["mdm", "ar"], language="paper-2gram", length=LENGTHS, **shape),
    ]


def _their_token(_: Seen, at: Fields) -> float:
    return 1000 * POSTER[at["length"]][1] / float(at["length"])


def _their_ratio(_: Seen, at: Fields) -> float:
    mdm, ar = POSTER[at["length"]]
    return mdm / ar


def _ratio(seen: Seen, at: Fields) -> float:
    """Time of 512 steps divided by that of AR, here."""
    valid = seen.one("valid_rounds", length=at["length"], **STEPS).value
    evaluation, token = (seen.one("milliseconds", kind=kind, **at).value for kind in ("mdm", "ar"))
    return valid * evaluation / (at["length"] * token)


TIMING = item(
    "timing",
    "the poster's table of times: 512 steps against AR at 512, 1024 and 2048 tokens",
    _times,
    {
        "valid-steps": Claim(
            "Poster, inference times, MDM",
            "512 steps take 3.1, 4.2 and 4.7 s at 512, 1024 and 2048 tokens.",
            "unmask paper timing",
            [
                shown("valid steps, L = {length}", "valid_rounds", length=LENGTHS, **STEPS),
                shown("their milliseconds a valid step, L = {length}", A_STEP, length=LENGTHS, **STEPS),
                shown("the same if 16 rows shared a cache, L = {length}", A_STEP, length=LENGTHS, steps=512, batch=16),
            ],
            lambda valid, each, shared: each.spread < 0.05,
            "The table follows from the number of valid steps alone: each takes the same time to 3% at every length. "
            "So an evaluation of 2048 tokens took as long as one of 512, on a GPU that was not busy. Each row had its "
            "own cache: with one cache for 16 rows, 512 steps are valid at every length.",
            figure="3.1, 4.2, 4.7 s",
        ),
        "ar": Claim(
            "Poster, inference times, AR",
            "AR takes 1.7, 3.3 and 7.0 s, in proportion to the length.",
            TIME,
            [
                shown("their milliseconds a token, L = {length}", _their_token, length=LENGTHS),
                shown("milliseconds a token here, L = {length}", "milliseconds", kind="ar", **CLOCK),
            ],
            lambda theirs, ours: theirs.spread < 0.1,
            "Their time a token is constant to a tenth; our time, of a network on this machine, is listed beside it.",
            figure="1.7, 3.3, 7.0 s",
        ),
        "considerable": Claim(
            "Poster",
            "With a fixed number of steps MDMs are considerably more efficient than AR, the more the longer the "
            "sequence.",
            TIME,
            [
                shown("time of 512 steps / time of AR, here, L = {length}", _ratio, **CLOCK),
                shown("the poster's, L = {length}", _their_ratio, length=LENGTHS),
                shown(
                    "milliseconds of an evaluation by the MDM, here, L = {length}", "milliseconds", kind="mdm", **CLOCK
                ),
            ],
            lambda here, theirs, mdm: (here[2048] < 1, here[2048] < here[512]) if mdm.on_gpu else None,
            untested="It needs a GPU. On a CPU core arithmetic takes the time: an evaluation of all tokens costs "
            "about as much as all of AR, and hundreds of them take far longer at every length. The poster's gain "
            "comes from hardware that is idle while AR generates a token; in its own table AR is faster at 512 and "
            "1024 tokens.",
            figure="4.7 s against 7.0 s at 2048",
        ),
        "dearer-step": Claim(
            "Sections 1 and 4.3; rebuttal to reviewer t8kS",
            "A step of an MDM costs more than one of AR: O(L^2) against O(L); L steps cost O(L^3) against O(L^2).",
            "unmask time --preset quick --lengths 512 1024 --steps 512",
            [
                shown("evaluations with the FLOPs of AR, L = {length}", "flop_break_even", length=LENGTHS, **STEPS),
                shown("FLOPs of 512 steps / FLOPs of AR, L = {length}", "flop_ratio", length=LENGTHS, **STEPS),
            ],
            lambda even, ratio: even <= 1,
            "By counting: one evaluation of all tokens takes about as many FLOPs as all of AR with its cache, so an "
            "MDM can save time, but never FLOPs.",
        ),
    },
)
