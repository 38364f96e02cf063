"""Jobs for the claims of the paper: lemmas, statements of the theory, facts about languages, and costs.

They are functions, as your own jobs can be: a sweep finds them as "reproduction.jobs:lemma".

lemma          many small cases of a lemma, by enumeration or in closed form (appendix.py): cases, violations, and
               tightest, the truth closest to its bound, as a fraction of it
statement      a statement of the theory for a case, by name: each of its quantities is a measure
valid_steps    mean number of valid steps out of N, for rows with a common cache, and their FLOPs
support        the fraction of uniformly random sequences that are possible
erring         an ideal denoiser with a given error in nats, by enumeration: ser, ter_ratio, divergence_nats
infilling      SER of an MDM with both ends given, and of an AR model, which cannot see the right end
derivations    errors on prompted sums, of which several derivations are right, by an ideal denoiser
passes         pass_at_k: whether one of k samples of a prompt is valid; ser_given_prompt of one sample
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import torch
from scipy.stats import binomtest

from reproduction.appendix import CHECKS
from reproduction.records import Record
from unmask import Estimate, UnmaskError, generate, languages, metrics, prompts
from unmask.denoisers import Perturbed
from unmask.models.trained import preset as shape_of
from unmask.planning import break_even, flops, model_calls
from unmask.samplers.schedules import Fit, deltas
from unmask.theory import Statement
from unmask.theory.listed import STATEMENTS, Case

SLACK = 1e-9  # allowed rounding error of a bound
LEAST = 1e-6  # smaller bounds are rounding errors
MOST_LISTED = 6  # positions of enumerated sequences
MODULUS, OPERANDS = 10, 3  # of prompted sums; their tokens are digits and these
PLUS, EQUALS, END = range(MODULUS, MODULUS + 3)
PROMPT_SEEDS = 2**61  # added to a seed: a continuation must not share the random numbers that drew its prompt


def lemma(lemma: str, cases: int = 200, seed: int = 0) -> list[Record]:
    """Check a lemma on random small cases: number of cases, violations, and tightness."""
    if lemma not in CHECKS:
        raise UnmaskError(f"there is no lemma {lemma!r}. Expected one of {', '.join(CHECKS)}")
    every = list(CHECKS[lemma](cases, np.random.default_rng(seed)))
    violations = sum(not bound.allows(truth, SLACK) for truth, bound in every)
    tightest = max([0.0, *(_fraction(truth, bound) for truth, bound in every)])
    counted = {"cases": float(len(every)), "violations": float(violations), "tightest": tightest}
    return [_record(name, exactly(value, "exact: counted")) for name, value in counted.items()]


def _fraction(truth: float, bound: Statement) -> float:
    """truth / bound for an upper bound, bound / truth for a lower one; 1 is equality."""
    small, large = (truth, bound.value) if bound.kind != "lower" else (bound.value, truth)
    return small / large if large > LEAST and math.isfinite(large) else 0.0


def statement(
    statement: str, language: str, length: int = 512, schedule: str = "linear", steps: int = 64, learning: float = 0.0
) -> list[Record]:
    """The values that `unmask theory show` prints: one for each quantity, with its section of the paper."""
    q = languages.load(language)
    records = []
    for one in STATEMENTS.make(statement, Case(q, length, deltas(schedule, steps, Fit(q, length)), learning)):
        value = exactly(one.value, f"{one.kind} bound, {one.origin}")
        records.append(_record(one.of, value) | {"stands": one.where})
    return records


def valid_steps(
    length: int = 512, schedule: str = "linear", steps: int = 64, batch: int = 1, preset: str = "paper"
) -> list[Record]:
    """Valid steps out of N, which all rows of a batch share, and their FLOPs divided by those of AR."""
    shape = shape_of(preset, "mdm", 8, length=length)
    needed = model_calls(deltas(schedule, steps), length, batch)
    values = {
        "valid_steps": needed,
        "flop_ratio": needed * flops.evaluation(shape, length) / flops.autoregression(shape, length),
        "flop_break_even": break_even(shape, length),
    }
    return [_record(name, exactly(value), needed) for name, value in values.items()]


def support(language: str, length: int = 512, rows: int = 2000, seed: int = 0) -> list[Record]:
    """The fraction of uniformly random sequences that are possible."""
    q = languages.load(language)
    drawn = torch.randint(q.vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed))
    return [_record("possible", share(q.log_prob(drawn).isfinite()))]


def erring(
    language: str, length: int = 5, steps: int = 64, kind: str = "leak", epsilon: float = 0.01, seed: int = 0
) -> list[Record]:
    """SER, TER(p)/TER(q) and KL(q || p) of ancestral sampling by a denoiser that errs by epsilon."""
    if length > MOST_LISTED:
        raise UnmaskError(f"length {length} is too long to enumerate. Expected at most {MOST_LISTED}")
    q = languages.load(language)
    truth = q.log_prob(metrics.sequences(q.vocabulary, length)).exp()
    output = metrics.output_distribution(Perturbed(q, kind, epsilon, seed), length, deltas("linear", steps))
    possible = truth > 0
    divergence = float((truth[possible] * (truth[possible] / output[possible]).log()).sum())
    lost = float(torch.where(possible, 0.0, output).sum())
    values = {"ser": lost, "divergence_nats": divergence, "ter_ratio": math.exp(divergence / length)}
    return [_record(name, exactly(value, "exact: enumeration")) for name, value in values.items()]


def infilling(
    language: str, length: int = 64, hidden: int = 16, steps: int = 64, rows: int = 1000, seed: int = 0
) -> list[Record]:
    """SER of filling the middle of x ~ q: by a sampler that sees both sides, and by AR, which sees the left side."""
    q = languages.load(language)
    whole = q.sample(rows, length, seed=seed + PROMPT_SEEDS)
    first = (length - hidden) // 2
    around, left = whole.clone(), whole.clone()
    around[:, first : first + hidden] = q.vocabulary
    left[:, first:] = q.vocabulary
    both_sides = generate(q, length=length, steps=steps, rows=rows, seed=seed, given=around)
    left_side = generate(q, length=length, sampler="autoregressive", rows=rows, seed=seed, given=left)
    joined = torch.where(around == q.vocabulary, left_side.tokens, whole)
    each = torch.arange(rows)  # each row was drawn with its own given tokens
    ser = metrics.rows(both_sides, q, prompt=each).ser
    ser_left = metrics.rows(joined, q, given=around, prompt=each).ser
    calls = float(both_sides.model_calls.double().mean())
    return [_record("ser", ser, calls), _record("ser_left_to_right", ser_left, float(hidden))]


def derivations(
    kind: str, steps: int = 64, sampler: str = "ancestral", rows: int = 2000, seed: int = 0
) -> list[Record]:
    """Errors on questions a, b, c: ser of the derivation, answer_error of its last number, given all of the question.

    kind: "one" right derivation; "several", whose answer has the same position in all; or "moving", where it has not.
    """
    q = languages.Answers(answered(kind), vocabulary=END + 1, end=END)
    drawn = q.sample(rows, q.answers.shape[1], seed=seed + PROMPT_SEEDS)
    given = torch.full_like(drawn, q.vocabulary)
    given[:, :OPERANDS] = drawn[:, :OPERANDS]
    generation = generate(q, length=drawn.shape[1], sampler=sampler, steps=steps, rows=rows, seed=seed, given=given)
    right = drawn[:, :OPERANDS].sum(1) % MODULUS
    calls = float(generation.model_calls.double().mean())
    errors = {"ser": ~q.supports(generation.tokens), "answer_error": last_number(generation.tokens) != right}
    return [_record(name, share(event), calls) for name, event in errors.items()]


def answered(kind: str) -> list[list[int]]:
    """Questions a b c with each of their right derivations: two sums and the result, or the result alone."""
    every = list[list[int]]()
    for one in product(range(MODULUS), repeat=OPERANDS):
        a, b, c = one
        sums = {"one": [(a, b, c)], "several": [(a, b, c), (b, c, a), (a, c, b)]}
        for x, y, z in sums.get(kind, sums["one"]):
            first = (x + y) % MODULUS
            every.append([*one, x, PLUS, y, EQUALS, first, PLUS, z, EQUALS, (first + z) % MODULUS, END])
        if kind == "moving":
            short = [*one, EQUALS, sum(one) % MODULUS]
            every.append(short + [END] * (len(every[-1]) - len(short)))
    return [list(one) for one in dict.fromkeys(map(tuple, every))]  # equal operands have equal derivations


def last_number(tokens: torch.Tensor) -> torch.Tensor:
    """(B) the token before the first end, as the answer is read; an end at once leaves no answer, -1."""
    written = tokens[:, OPERANDS:]
    ends = torch.where((written == END).any(1), (written == END).long().argmax(1), written.shape[1])
    last = written.gather(1, (ends - 1).clamp(min=0).unsqueeze(1)).squeeze(1)
    return torch.where(ends > 0, last, -1)


def passes(
    language: str,
    length: int = 512,
    prompt_length: int = 8,
    steps: int = 64,
    rows: int = 2000,
    rows_per_prompt: int = 8,
    seed: int = 0,
) -> list[Record]:
    """pass@k: the fraction of prompts with a valid sample among k, for k = 1 and rows_per_prompt."""
    if rows % rows_per_prompt:
        raise UnmaskError(f"{rows} rows are not {rows_per_prompt} of each prompt. Expected a multiple. Change rows")
    q = languages.load(language)
    drawn = {"rows_per_prompt": rows_per_prompt, "seed": seed + PROMPT_SEEDS}
    given = prompts(q, rows, length, prompt_length, **drawn)
    generation = generate(q, length=length, steps=steps, rows=rows, seed=seed, given=given)
    scores = metrics.rows(generation, q, prompt=torch.arange(rows) // rows_per_prompt)
    valid, calls = scores.valid.view(-1, rows_per_prompt), float(generation.model_calls.double().mean())
    estimates = {"pass_at_1": share(valid[:, 0]), "pass_at_k": share(valid.any(1)), "ser_given_prompt": scores.ser}
    return [_record(name, estimate, calls) for name, estimate in estimates.items()]


def exactly(value: float, method: str = "exact") -> Estimate:
    return Estimate(value + 0.0, value + 0.0, value + 0.0, 0, 1.0, method)  # no -0


def share(events: torch.Tensor) -> Estimate:
    """The probability of an event, from Bool (n), with Clopper and Pearson's interval."""
    test = binomtest(int(events.sum()), len(events))
    low, high = test.proportion_ci(0.95, "exact")
    return Estimate(test.statistic, float(low), float(high), len(events), 0.95, "clopper-pearson")


def _record(measure: str, estimate: Estimate, calls: float | None = None) -> Record:
    """A record of an estimate; calls: model calls per row, None without rows."""
    value: dict[str, Any] = estimate.to_dict()
    return {"measure": measure} | value | {"model_calls": calls}
