"""Metrics for the claims of the paper beside SER and TER: statements of the theory, facts of languages, and costs.

statement      a statement of the theory for a case, by name: each of its quantities is a measure
valid_rounds   evaluations that N rounds need on average, of one row and of a batch that shares them; and FLOP
support        the fraction of uniformly random sequences that are possible
erring         an ideal denoiser that errs by so many nats, by enumeration: ser, ter_ratio, divergence_nats
infilling      SER with both ends given, of a masked model, and of an AR model, which cannot see the right end
published      a published percentage, with an interval for the number of items, and seconds
passes         pass_at_k: whether one of k samples of a prompt is valid; ser_given_prompt of one sample
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from unmask.core.errors import UnmaskError
from unmask.experiments.measures.catalogue import Arguments, Record, metric
from unmask.experiments.measures.sources import about, check, ground_truth, prompts_of, record, row_seconds

MOST_LISTED = 6  # positions of what is enumerated


@metric("statement", check=check, about=about)
def statement(
    *,
    statement: str,
    language: str,
    digest: str = "",
    length: int = 512,
    schedule: str = "linear",
    steps: int = 64,
    learning: float = 0.0,
    language_seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """The values that `unmask theory show` prints: one for each quantity, with its place in the paper."""
    from unmask.core.estimates import Estimate
    from unmask.schedules import Fit, deltas
    from unmask.theory.listed import STATEMENTS, Case

    q = ground_truth(language, language_seed, pruned, digest)
    case = Case(q, length, deltas(schedule, steps, Fit(q, length)), learning)
    found = []
    for said in STATEMENTS.make(statement, case):
        value = Estimate(said.value, said.value, said.value, 0, 1.0, f"{said.kind} bound, {said.origin}")
        found.append(record(said.of, value, None) | {"stands": said.where})
    return found


@metric("valid_rounds")
def valid_rounds(
    *, length: int = 512, schedule: str = "linear", steps: int = 64, batch: int = 1, preset: str = "paper"
) -> list[Record]:
    """Evaluations of N rounds, which all rows of a batch share, and their arithmetic in units of that of AR."""
    from unmask.core.estimates import exactly
    from unmask.cost.flops import autoregression, break_even, evaluation, evaluations
    from unmask.networks import preset as shaped
    from unmask.schedules import deltas

    shape = shaped(preset, "mdm", 8, length=length)
    needed = evaluations(deltas(schedule, steps), length, batch)
    found = {
        "valid_rounds": needed,
        "flop_ratio": needed * evaluation(shape, length) / autoregression(shape, length),
        "flop_break_even": break_even(shape, length),
    }
    return [record(name, exactly(value), needed) for name, value in found.items()]


@metric("support", check=check, about=about)
def support(
    *,
    language: str,
    digest: str = "",
    length: int = 512,
    rows: int = 2000,
    language_seed: int = 0,
    seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """The fraction of uniformly random sequences that are possible."""
    import torch

    from unmask.core.estimates import share

    q = ground_truth(language, language_seed, pruned, digest)
    luck = torch.Generator().manual_seed(seed)
    drawn = torch.randint(q.vocabulary, (rows, length), generator=luck)
    return [record("possible", share(q.log_prob(drawn).isfinite()), None)]


def _check_erring(cells: Sequence[Arguments]) -> None:
    check(cells)
    for cell in cells:
        if cell["length"] > MOST_LISTED:
            raise UnmaskError(f"length {cell['length']} is too long to enumerate; at most {MOST_LISTED}")


@metric("erring", check=_check_erring, about=about)
def erring(
    *,
    language: str,
    digest: str = "",
    length: int = 5,
    schedule: str = "linear",
    steps: int = 64,
    kind: str = "leak",
    epsilon: float = 0.01,
    language_seed: int = 0,
    seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """SER, TER over that of the language and KL(q || p) of ancestral sampling by a denoiser that errs by epsilon."""
    import torch

    from unmask.core.estimates import exactly
    from unmask.ideal import Perturbed
    from unmask.metrics.enumeration import output_law, sequences
    from unmask.schedules import Fit, deltas

    q = ground_truth(language, language_seed, pruned, digest)
    truth = q.log_prob(sequences(q.vocabulary, length)).exp()
    law = output_law(Perturbed(q, kind, epsilon, seed), length, deltas(schedule, steps, Fit(q, length)))
    possible = truth > 0
    divergence = float((truth[possible] * (truth[possible] / law[possible]).log()).sum())
    lost = torch.where(possible, 0.0, law).sum()
    found = {"ser": float(lost), "divergence_nats": divergence, "ter_ratio": math.exp(divergence / length)}
    return [record(name, exactly(value, "exact: enumeration"), None) for name, value in found.items()]


def _infilling_cost(cell: Arguments) -> float:
    return float(2 * cell["rows"] * row_seconds(cell))


@metric("infilling", check=check, about=about, cost=_infilling_cost)
def infilling(
    *,
    language: str,
    digest: str = "",
    length: int = 64,
    hidden: int = 16,
    sampler: str = "ancestral",
    steps: int = 64,
    rows: int = 1000,
    language_seed: int = 0,
    seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """The middle of x ~ q is hidden: SER of a sampler that sees both sides, and of AR, which reads the left one."""
    import torch

    from unmask import metrics
    from unmask.experiments.measures.sources import PROMPT_SEEDS
    from unmask.generation import generate

    q = ground_truth(language, language_seed, pruned, digest)
    whole = q.sample(rows, length, seed=seed + PROMPT_SEEDS)
    first = (length - hidden) // 2
    around, left = whole.clone(), whole.clone()
    around[:, first : first + hidden] = q.vocabulary
    left[:, first:] = q.vocabulary
    made = generate(q, sampler=sampler, steps=steps, length=length, rows=rows, seed=seed, given=around)
    read = generate(q, sampler="autoregressive", steps=steps, length=length, rows=rows, seed=seed, given=left)
    joined = torch.where(around == q.vocabulary, read.tokens, whole)
    own = torch.arange(rows)  # each row has been drawn with what is given in it
    seen, blind = metrics.rows(made, q, prompt=own), metrics.rows(joined, q, given=around, prompt=own)
    evaluations = float(made.evaluations.double().mean())
    return [record("ser", seen.ser, evaluations), record("ser_left_to_right", blind.ser, float(hidden))]


def _passes_cost(cell: Arguments) -> float:
    return float(cell["rows"] * row_seconds(cell))


@metric("passes", check=check, about=about, cost=_passes_cost)
def passes(
    *,
    language: str,
    digest: str = "",
    length: int = 512,
    sampler: str = "ancestral",
    steps: int = 64,
    prompt_length: int = 8,
    rows_per_prompt: int = 8,
    rows: int = 2000,
    language_seed: int = 0,
    seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """pass@k: the fraction of prompts with a valid sample among k, for k = 1 and rows_per_prompt."""
    from unmask import metrics
    from unmask.core.estimates import share
    from unmask.generation import generate

    q = ground_truth(language, language_seed, pruned, digest)
    given, prompt = prompts_of(q, length, prompt_length, rows_per_prompt, rows=rows, seed=seed)
    if given is None or rows % rows_per_prompt:
        raise UnmaskError(f"{rows} rows are not {rows_per_prompt} of each prompt; prompts need a length, too")
    made = generate(q, sampler=sampler, steps=steps, length=length, rows=rows, seed=seed, given=given)
    seen = metrics.rows(made, q, prompt=prompt)
    valid, needed = seen.valid.view(-1, rows_per_prompt), float(made.evaluations.double().mean())
    found = {"pass_at_1": share(valid[:, 0]), "pass_at_k": share(valid.any(1)), "ser_given_prompt": seen.ser}
    return [record(name, estimate, needed) for name, estimate in found.items()]


ITEMS_OF = {"gsm8k": 1319, "mbpp": 500, "humaneval": 164, "math500": 500}  # of each benchmark


def _check_published(cells: Sequence[Arguments]) -> None:
    from unmask.experiments.evaluation.published import named

    for cell in cells:
        named(cell["recipe"])


@metric("published", check=_check_published)
def published(*, recipe: str) -> list[Record]:
    """A published score of a recipe of `unmask eval run`, with a confidence interval for its number of items."""
    from unmask.core.estimates import exactly, of_variance
    from unmask.experiments.evaluation.published import named

    said = named(recipe)
    task = said.task.partition("(")[0]
    share, many = said.figure / 100, ITEMS_OF[task]
    percent = of_variance(said.figure, 1e4 * share * (1 - share) / many, many, 0.95, "published; t over its items")
    about = {"task": task, "published_model": said.model, "source": said.source}
    found = [record("percent", percent, None) | about]
    return (
        found if said.seconds is None else [*found, record("seconds", exactly(said.seconds, "published"), None) | about]
    )
