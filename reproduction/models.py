"""Figure 2 in miniature with networks trained here, and the poster's table of times."""

from __future__ import annotations

from typing import Any

from reproduction.judge import Fields, Shown, Size, Truth, Values, claim, own, part, scaled, shown
from reproduction.records import Records

TEXT = {"text": "kjv", "tokenizer": "bpe:1024"}
TEXT_STEPS = (4, 16, 64)
CHAINS = {"language": "modular-sum", "length": 65}
FEW_STEPS = (1, 4, 16, 64, 256)
POINTS, AR_CALLS = 0.02, 12  # errors that count as equal; model calls of AR for an answer and its end
QUESTIONS = {"language": "modular-sum(terms=4)", "length": 19, "preset": "questions", "prompt_length": 8}
AR = "autoregressive"
ANSWERED = {"job": "learned", "language": QUESTIONS["language"]}
ASKED = {"job": "samples", "language": QUESTIONS["language"], "sampler": "ancestral", "prompt_length": 8}
PROMPTED_STEPS = (1, 4, 16)
DERIVED = {"job": "derivations", "steps": (1, 4, 64)}
TEXT_CLOCK = {"job": "text_clock", "kind": "mdm", "steps": TEXT_STEPS}
TEXT_MDM = {"job": "written", "sampler": "ancestral", "steps": TEXT_STEPS}
# An n-gram of the text scores both twins: it generates none of the texts.
PERPLEXITY = shown("n-gram perplexity, MDM, N = {steps}", "ngram_perplexity", **TEXT_MDM)


def text(size: Size) -> list[dict[str, Any]]:
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


def _few_steps(ar: Values, mdm: Values) -> Truth:
    """Whether half as many steps as tokens are enough; undecided if no number of steps is."""
    similar = 1.1 * ar.value
    if (mdm[max(mdm.by)] <= similar) is False:
        return None
    tests = [mdm[n] <= similar for n in mdm.by if n <= ar.record["length"] / 2]
    return True if True in tests else None if None in tests else False


def _faster(ar: Values, mdm: Values, seconds: Values, took: Values) -> Truth:
    """Whether a number of steps that matches AR's perplexity takes less time; undecided if none matches."""
    matching = [n for n in mdm.by if (mdm[n] <= 1.1 * ar.value) is True]
    tests = [took[n] < seconds for n in matching]
    return None if not tests or (None in tests and True not in tests) else True in tests


def _settles(mdm: Values) -> tuple[Truth, Truth]:
    few, more, many = (mdm[n] for n in TEXT_STEPS)
    return many < few, abs(many.value / more.value - 1) < abs(more.value / few.value - 1)


LEFT = {
    "mdlm-owt": claim(
        "Figure 2, left; Section 6",
        "MDLM-OWT matches the generative perplexity of GPT-2 medium with 32 of up to 2048 steps, L = 1024.",
        untested="The test needs the weights of mdlm-owt, gpt2-medium and gpt2-large, and a GPU: 2000 texts of 1024 "
        "tokens each. `unmask generate` and `unmask model judge` measure it; the claims below are a miniature.",
        figure="32 steps",
    ),
    "speed-up": claim(
        "Figure 2, left",
        "At 32 steps MDLM-OWT is 2.28 times as fast as GPT-2 medium.",
        untested="The test needs the same weights and a GPU, since times depend on the machine.",
        figure="2.28 times",
    ),
    "few-steps": claim(
        "Section 6, in miniature",
        "An MDM matches the generative perplexity of its AR twin with far fewer steps than tokens.",
        shown("n-gram perplexity, AR", "ngram_perplexity", job="written", sampler=AR),
        PERPLEXITY,
        test=_few_steps,
        agrees="It is within 10% of AR's with at most half as many steps as tokens. The judge is an n-gram of the "
        "text.",
        untested="The test needs longer training. Even with a step for each token, this MDM is worse than its twin "
        "after a minute of training, so no number of steps is enough. An MDM learns more slowly than AR.",
    ),
    "converges": claim(
        "Section 6, in miniature",
        "The perplexity of the MDM falls with the number of steps, and converges.",
        PERPLEXITY,
        test=_settles,
        agrees="The first steps reduce it most, the last hardly at all.",
    ),
    "faster": claim(
        "Section 6, in miniature",
        "Where an MDM matches the perplexity of AR, it is faster than AR with its cache.",
        shown("n-gram perplexity, AR", "ngram_perplexity", job="written", sampler=AR),
        PERPLEXITY,
        shown("seconds of a batch, AR", "seconds", job="text_clock", kind="ar"),
        shown("seconds of a batch, MDM, N = {steps}", "seconds", **TEXT_CLOCK),
        test=_faster,
        agrees="It takes less time at a number of steps whose perplexity is within 10% of AR's.",
        differs="It takes more time at each number of steps whose perplexity is within 10% of AR's.",
        untested="The test needs longer training: at no number of steps does this MDM match the perplexity of AR. On "
        "one CPU core it is faster than AR at 4 steps alone, where its perplexity is three times AR's.",
    ),
}


def sums(size: Size) -> list[dict[str, Any]]:
    learned = QUESTIONS | {"device": size.device}
    network = {name: value for name, value in learned.items() if name != "prompt_length"}
    rows = size.rows
    return [
        part("training", kind=["mdm", "ar"], **network),
        part("learned", steps=PROMPTED_STEPS, rows=10 * rows, **learned),
        part("learned", sampler="autoregressive", rows=10 * rows, **learned),
        part("samples", language=learned["language"], length=19, prompt_length=8, steps=PROMPTED_STEPS, rows=rows),
        own("derivations", kind=["one", "several", "moving"], steps=DERIVED["steps"], rows=rows),
        part("samples", sampler=["ancestral", "low-confidence", "left-to-right"], steps=FEW_STEPS, rows=rows, **CHAINS),
    ]


def chains(*steps: int, sampler: str = "ancestral") -> Shown:
    label = "incorrect answers, chains of sums, N = {steps}, L = {length}, {sampler}"
    return shown(label, "answer_error", job="samples", sampler=sampler, steps=steps, **CHAINS)


def _no_advantage(ar: Values, mdm: Values, calls: Values) -> Truth:
    """Whether AR is ahead: no number of steps errs at most two points more often in fewer model calls.

    Undecided if the MDM did not learn to answer, or if an interval contains both answers.
    """
    if min(mdm.values) > 0.5:
        return None
    most = ar.value + POINTS
    close = [mdm[n] <= most for n in mdm.by if calls[n].value < AR_CALLS]
    return False if True in close else None if None in close else True


RIGHT = {
    "gsm8k": claim(
        "Figure 2, right; Section 6",
        "GSM8K: a fine-tuned 1.1B MDM with 1 to 256 steps for 256 tokens, next to Qwen2-Math-1.5B.",
        untested="The test needs the weights of the fine-tuned SMDM, those of Qwen2-Math-1.5B, and a GPU; `unmask eval "
        "lm-eval --tasks gsm8k` measures models of this kind.",
    ),
    "lengths": claim(
        "Section 6",
        "The MDM's answers have about 30 tokens at every number of steps, the AR model's about 105.",
        untested="The test needs the same weights; `unmask eval` counts the tokens of each answer. Models with such "
        "different answer lengths do different amounts of work.",
        figure="30 and 105 tokens",
    ),
    "below": claim(
        "Figure 2, right; Section 6, in miniature",
        "Accuracy falls sharply with fewer steps than tokens, if no question is given.",
        chains(*FEW_STEPS),
        test=lambda error: error[16] > error[64],
        agrees="It does so even with the ideal denoiser, in random order: the operands of a chain are free. GSM8K "
        "gives the question (`prompted`).",
    ),
    "prompted": claim(
        "Figure 2, right; Section 6, in miniature",
        "With the question given, accuracy falls sharply with fewer steps than tokens.",
        shown("incorrect answers to questions, ideal denoiser, N = {steps}", "answer_error", steps=[1, 4, 16], **ASKED),
        shown("the same, trained MDM, N = {steps}", "answer_error", sampler="ancestral", steps=[1, 4, 16], **ANSWERED),
        test=lambda ideal, trained: ideal[1] >= 0.1,
        agrees="The ideal denoiser errs with fewer steps than tokens.",
        differs="Each question has one right derivation, so its tokens are independent given the question, and one "
        "step is enough: the ideal denoiser errs in none. A trained MDM errs in 2 of 1000 in one step, which computes "
        "the whole sum at once, and in 1 of 1000 in 16. `derivations` has the condition for a fall.",
    ),
    "derivations": claim(
        "Figure 2, right; Section 6, in miniature",
        "With the question given and several right derivations, accuracy falls sharply with fewer steps than tokens.",
        shown("incorrect answers, one derivation, N = {steps}", "answer_error", kind="one", **DERIVED),
        shown("incorrect answers, three derivations, N = {steps}", "answer_error", kind="several", **DERIVED),
        shown("incorrect derivations of the three, N = {steps}", "ser", kind="several", **DERIVED),
        shown("incorrect answers, short or long derivation, N = {steps}", "answer_error", kind="moving", **DERIVED),
        test=lambda one, several, ser, moving: (one <= 0.01, ser[1] > ser[64], moving[1] > moving[64]),
        agrees="The condition is a choice that the question leaves open: derivations mix within a step. If the answer "
        "has one position in all of them, one step still answers correctly, by an incorrect derivation. If a short "
        "and a long one end at different positions, answers mix, too. Answers to GSM8K have both freedoms.",
    ),
    "above": claim(
        "Figure 2, right; Section 6",
        "More steps than tokens improve accuracy only a little.",
        chains(16, 64, 256),
        untested="The test needs the weights: the paper reports it of one network and blames its limits. An ideal "
        "denoiser in random order is another case: at N = L only 1 - 1/e of the steps reveal anything, so more help.",
    ),
    "order": claim(
        "Section 6, in miniature",
        "The decline is due to insufficient sampling (without a question).",
        chains(16),
        chains(16, sampler="low-confidence"),
        chains(16, sampler="left-to-right"),
        test=lambda *errors: tuple(error >= 0.1 for error in errors),
        agrees="Accuracy declines in every order with an ideal denoiser, whose only errors come from sampling.",
    ),
    "learned": claim(
        "Section 6, in miniature",
        "On reasoning an MDM has no advantage over AR, in accuracy or in model calls.",
        shown("incorrect answers to questions, AR, 12 model calls", "answer_error", sampler=AR, **ANSWERED),
        shown("the same, MDM, N = {steps}", "answer_error", sampler="ancestral", steps=PROMPTED_STEPS, **ANSWERED),
        shown("its model calls, N = {steps}", "model_calls", sampler="ancestral", steps=PROMPTED_STEPS, **ANSWERED),
        test=_no_advantage,
        agrees="Twins of 200,000 weights, trained on sums modulo ten: with fewer model calls the MDM errs more often, "
        "by more than two percentage points.",
        differs="Twins of 200,000 weights, trained on sums modulo ten: within two percentage points of AR's errors, "
        "the MDM needs fewer model calls. In FLOPs AR is cheaper: one call of the MDM costs as much as all of AR.",
        untested="The test needs longer training or more rows: this MDM answers most questions incorrectly at every "
        "number of steps, or an interval contains both answers.",
    ),
}

POSTER = {512: (3.1, 1.7), 1024: (4.2, 3.3), 2048: (4.7, 7.0)}  # seconds: (an MDM in 512 steps, AR)
TOKEN = {length: 1000 * ar / length for length, (_, ar) in POSTER.items()}  # milliseconds
RATIO = {length: mdm / ar for length, (mdm, ar) in POSTER.items()}
LENGTHS = tuple(POSTER)
STEPS = {"steps": 512, "batch": 1}
CLOCK = {"job": "clock", "batch": 1, "length": LENGTHS}
A_STEP = scaled("valid_steps", lambda valid, at: 1000 * POSTER[at["length"]][0] / valid)


def times(size: Size) -> list[dict[str, Any]]:
    shape = {"preset": "paper" if size.full else "quick", "device": size.device, "batch": 1}
    return [
        own("valid_steps", length=LENGTHS, steps=512, batch=[1, 16]),
        part("clock", kind=["mdm", "ar"], language="paper-2gram", length=LENGTHS, **shape),
    ]


def _ratio(records: Records, at: Fields) -> float:
    """Time of 512 steps divided by that of AR, here."""
    valid = records.one("valid_steps", length=at["length"], **STEPS).value
    evaluation, token = (records.one("milliseconds", kind=kind, **at).value for kind in ("mdm", "ar"))
    return valid * evaluation / (at["length"] * token)


TIMING = {
    "valid-steps": claim(
        "Poster, inference times, MDM",
        "512 steps take 3.1, 4.2 and 4.7 s at 512, 1024 and 2048 tokens.",
        shown("valid steps, L = {length}", "valid_steps", length=LENGTHS, **STEPS),
        shown("poster: milliseconds a valid step, L = {length}", A_STEP, length=LENGTHS, **STEPS),
        shown("the same if 16 rows shared a cache, L = {length}", A_STEP, length=LENGTHS, steps=512, batch=16),
        test=lambda valid, each, shared: each.spread < 0.05,
        arithmetic=True,
        agrees="The table follows from the number of valid steps alone: each takes the same time within 3% at every "
        "length. So a model call on 2048 tokens took as long as one on 512, on a GPU with idle units. Each sequence "
        "had its own cache: with one cache for 16 sequences, all 512 steps are valid at every length.",
        figure="3.1, 4.2, 4.7 s",
    ),
    "ar": claim(
        "Poster, inference times, AR",
        "AR takes 1.7, 3.3 and 7.0 s, in proportion to the length.",
        shown("poster: milliseconds a token, L = {length}", lambda _, at: TOKEN[at["length"]], length=LENGTHS),
        shown("here: milliseconds a token, L = {length}", "milliseconds", kind="ar", **CLOCK),
        test=lambda theirs, ours: theirs.spread < 0.1,
        arithmetic=True,
        agrees="The poster's time a token is constant within 10%; our time, on this machine, is listed next to it.",
        figure="1.7, 3.3, 7.0 s",
    ),
    "considerable": claim(
        "Poster",
        "With a fixed number of steps MDMs are considerably more efficient than AR, most of all on long sequences.",
        shown("here: time of 512 steps / time of AR, L = {length}", _ratio, **CLOCK),
        shown("poster: the same, L = {length}", lambda _, at: RATIO[at["length"]], length=LENGTHS),
        shown("here: milliseconds of an MDM model call, L = {length}", "milliseconds", kind="mdm", **CLOCK),
        test=lambda here, theirs, mdm: (here[2048] < 1, here[2048] < here[512]) if mdm.on_gpu else None,
        untested="The test needs a GPU. On a CPU core a model call on all tokens costs about as much as all of AR, so "
        "hundreds of calls take far longer at every length. The poster's gain comes from hardware that is idle while "
        "AR generates a token. In its own table AR is faster at 512 and 1024 tokens.",
        figure="4.7 s against 7.0 s at 2048",
    ),
    "dearer-step": claim(
        "Sections 1 and 4.3; rebuttal to reviewer t8kS",
        "A step of an MDM costs more than one of AR: O(L^2) against O(L); L steps cost O(L^3) against O(L^2).",
        shown("model calls with the FLOPs of AR, L = {length}", "flop_break_even", length=LENGTHS, **STEPS),
        shown("FLOPs of 512 steps / FLOPs of AR, L = {length}", "flop_ratio", length=LENGTHS, **STEPS),
        test=lambda even, ratio: even <= 1,
        arithmetic=True,
        agrees="A count: one model call on all tokens takes about as many FLOPs as all of AR with its cache. An "
        "MDM can save time, but never FLOPs.",
    ),
}
