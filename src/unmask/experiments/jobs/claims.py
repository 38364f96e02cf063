"""Further jobs for the claims of the paper: lemmas, statements of the theory, facts about languages, and costs.

lemma          many small cases of a lemma, by enumeration or in closed form (appendix.py): cases, violations, and
               tightest, the truth closest to its bound, as a fraction of it
statement      a statement of the theory for a case, by name: each of its quantities is a measure
valid_steps    mean number of valid steps out of N, for rows with a common cache, and their FLOPs
support        the fraction of uniformly random sequences that are possible
erring         an ideal denoiser with a given error in nats, by enumeration: ser, ter_ratio, divergence_nats
infilling      SER of an MDM with both ends given, and of an AR model, which cannot see the right end
published      a published percentage, with an interval for the number of items, and seconds
passes         pass_at_k: whether one of k samples of a prompt is valid; ser_given_prompt of one sample
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unmask.core.errors import UnmaskError, unknown
from unmask.experiments.jobs.catalogue import JOBS, Job, Record
from unmask.experiments.jobs.sources import PROMPT_SEEDS, Continued, Drawn, Sampled, Stepped, record

if TYPE_CHECKING:
    from unmask.theory.statements import Statement as Bound

SLACK = 1e-9  # allowed rounding error of a bound
LEAST = 1e-6  # smaller bounds are rounding errors
MOST_LISTED = 6  # positions of enumerated sequences
ITEMS_OF = {"gsm8k": 1319, "mbpp": 500, "humaneval": 164}  # of each benchmark


@JOBS.register("lemma")
@dataclass(frozen=True, kw_only=True)
class Lemma(Job):
    """Check a lemma on random small cases: number of cases, violations, and tightness."""

    lemma: str
    cases: int = 200
    seed: int = 0

    def check(self) -> None:
        from unmask.experiments.jobs.appendix import CHECKS

        if self.lemma not in CHECKS:
            raise unknown("lemma", self.lemma, CHECKS)

    def measure(self) -> list[Record]:
        import numpy as np

        from unmask.core.estimates import exactly
        from unmask.experiments.jobs.appendix import CHECKS

        every = list(CHECKS[self.lemma](self.cases, np.random.default_rng(self.seed)))
        violations = sum(not bound.allows(truth, SLACK) for truth, bound in every)
        tightest = max([0.0, *(_fraction(truth, bound) for truth, bound in every)])
        counted = {"cases": float(len(every)), "violations": float(violations), "tightest": tightest}
        return [record(name, exactly(value, "exact: counted"), None) for name, value in counted.items()]


def _fraction(truth: float, bound: Bound) -> float:
    """truth / bound for an upper bound, bound / truth for a lower one; 1 is equality."""
    small, large = (truth, bound.value) if bound.kind != "lower" else (bound.value, truth)
    return small / large if large > LEAST and math.isfinite(large) else 0.0


@JOBS.register("statement")
@dataclass(frozen=True, kw_only=True)
class Statement(Stepped):
    """The values that `unmask theory show` prints: one for each quantity, with its section of the paper."""

    statement: str
    learning: float = 0.0

    def measure(self) -> list[Record]:
        from unmask.core.estimates import Estimate
        from unmask.theory.listed import STATEMENTS, Case

        case = Case(self.q, self.length, self.delta(self.steps), self.learning)
        records = []
        for one in STATEMENTS.make(self.statement, case):
            value = Estimate(one.value, one.value, one.value, 0, 1.0, f"{one.kind} bound, {one.origin}")
            records.append(record(one.of, value, None) | {"stands": one.where})
        return records


@JOBS.register("valid_steps")
@dataclass(frozen=True, kw_only=True)
class ValidSteps(Job):
    """Valid steps out of N, which all rows of a batch share, and their FLOPs divided by those of AR."""

    length: int = 512
    schedule: str = "linear"
    steps: int = 64
    batch: int = 1
    preset: str = "paper"

    def measure(self) -> list[Record]:
        from unmask.core.estimates import exactly
        from unmask.cost.flops import autoregression, break_even, evaluation, model_calls
        from unmask.networks import preset as shaped
        from unmask.schedules import deltas

        shape = shaped(self.preset, "mdm", 8, length=self.length)
        needed = model_calls(deltas(self.schedule, self.steps), self.length, self.batch)
        values = {
            "valid_steps": needed,
            "flop_ratio": needed * evaluation(shape, self.length) / autoregression(shape, self.length),
            "flop_break_even": break_even(shape, self.length),
        }
        return [record(name, exactly(value), needed) for name, value in values.items()]


@JOBS.register("support")
@dataclass(frozen=True, kw_only=True)
class Support(Drawn):
    """The fraction of uniformly random sequences that are possible."""

    def measure(self) -> list[Record]:
        import torch

        from unmask.core.estimates import share

        random = torch.Generator().manual_seed(self.seed)
        drawn = torch.randint(self.q.vocabulary, (self.rows, self.length), generator=random)
        return [record("possible", share(self.q.log_prob(drawn).isfinite()), None)]


@JOBS.register("erring")
@dataclass(frozen=True, kw_only=True)
class Erring(Stepped):
    """SER, TER(p)/TER(q) and KL(q || p) of ancestral sampling by a denoiser that errs by epsilon."""

    length: int = 5
    kind: str = "leak"
    epsilon: float = 0.01
    seed: int = 0

    def check_rows(self) -> None:
        if self.length > MOST_LISTED:
            raise UnmaskError(f"length {self.length} is too long to enumerate. Expected at most {MOST_LISTED}")

    def measure(self) -> list[Record]:
        import torch

        from unmask.core.estimates import exactly
        from unmask.ideal import Perturbed
        from unmask.metrics.enumeration import output_distribution, sequences

        q, length = self.q, self.length
        truth = q.log_prob(sequences(q.vocabulary, length)).exp()
        distribution = output_distribution(
            Perturbed(q, self.kind, self.epsilon, self.seed), length, self.delta(self.steps)
        )
        possible = truth > 0
        divergence = float((truth[possible] * (truth[possible] / distribution[possible]).log()).sum())
        lost = torch.where(possible, 0.0, distribution).sum()
        values = {"ser": float(lost), "divergence_nats": divergence, "ter_ratio": math.exp(divergence / length)}
        return [record(name, exactly(value, "exact: enumeration"), None) for name, value in values.items()]


@JOBS.register("infilling")
@dataclass(frozen=True, kw_only=True)
class Infilling(Sampled):
    """SER of filling the middle of x ~ q: by a sampler that sees both sides, and by AR, which sees the left side."""

    length: int = 64
    hidden: int = 16
    rows: int = 1000

    def cost(self) -> float:
        return 2 * super().cost()

    def measure(self) -> list[Record]:
        import torch

        from unmask import metrics

        q, rows = self.q, self.rows
        whole = q.sample(rows, self.length, seed=self.seed + PROMPT_SEEDS)
        first = (self.length - self.hidden) // 2
        around, left = whole.clone(), whole.clone()
        around[:, first : first + self.hidden] = q.vocabulary
        left[:, first:] = q.vocabulary
        both_sides = self.generate(q, self.length, given=around)
        left_side = self.generate(q, self.length, given=left, sampler="autoregressive")
        joined = torch.where(around == q.vocabulary, left_side.tokens, whole)
        own = torch.arange(rows)  # each row was drawn with its own given tokens
        ser = metrics.rows(both_sides, q, prompt=own).ser
        ser_left = metrics.rows(joined, q, given=around, prompt=own).ser
        model_calls = float(both_sides.model_calls.double().mean())
        return [record("ser", ser, model_calls), record("ser_left_to_right", ser_left, float(self.hidden))]


@JOBS.register("passes")
@dataclass(frozen=True, kw_only=True)
class Passes(Continued, Sampled):
    """pass@k: the fraction of prompts with a valid sample among k, for k = 1 and rows_per_prompt."""

    prompt_length: int = 8
    rows_per_prompt: int = 8

    def measure(self) -> list[Record]:
        from unmask import metrics
        from unmask.core.estimates import share

        given, prompt = self.prompts(self.q, self.length)
        if given is None or self.rows % self.rows_per_prompt:
            counts = f"{self.rows} rows are not {self.rows_per_prompt} of each prompt"
            raise UnmaskError(f"{counts}. Expected a multiple, and a prompt_length. Change rows or prompt_length")
        generation = self.generate(self.q, self.length, given=given)
        scores = metrics.rows(generation, self.q, prompt=prompt)
        valid, needed = scores.valid.view(-1, self.rows_per_prompt), float(generation.model_calls.double().mean())
        estimates = {"pass_at_1": share(valid[:, 0]), "pass_at_k": share(valid.any(1)), "ser_given_prompt": scores.ser}
        return [record(name, estimate, needed) for name, estimate in estimates.items()]


@JOBS.register("published")
@dataclass(frozen=True, kw_only=True)
class Published(Job):
    """A published score of the rebuttal, with a confidence interval for its number of items."""

    recipe: str

    def check(self) -> None:
        from unmask.experiments.evaluation.published import named

        named(self.recipe)

    def measure(self) -> list[Record]:
        from unmask.core.estimates import exactly, of_variance
        from unmask.experiments.evaluation.published import named

        score = named(self.recipe)
        task = score.task.partition("(")[0]
        fraction, n = score.figure / 100, ITEMS_OF[task]
        percent = of_variance(score.figure, 1e4 * fraction * (1 - fraction) / n, n, 0.95, "published; t over its items")
        records = [record("percent", percent, None)]
        if score.seconds is not None:
            records.append(record("seconds", exactly(score.seconds, "published"), None))
        about = {"task": task, "published_model": score.model, "source": score.source}
        return [one | about for one in records]
