"""audit(): test whether samples have the distribution of a sampler, and find the nearest known fault if not.

Samples are compared with generated rows, with the exact distribution if it can be enumerated, and with the record of
the oracle if it is passed. Each of K tests has a false-alarm rate of ALARM / K, so all together have at most ALARM.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments, entries, progress
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, proportion
from unmask.core.means import mean
from unmask.core.tables import as_html, as_table
from unmask.core.threads import over_blocks, torch_threads
from unmask.denoisers import as_denoiser
from unmask.denoisers.oracles import MaskedOracle, Oracle
from unmask.denoisers.record import MOST_CALLS, Run
from unmask.diagnosis.audit.changes import Altered, as_filters, rounded
from unmask.diagnosis.audit.observed import Finding, Observed, packed
from unmask.diagnosis.audit.others import others
from unmask.diagnosis.audit.sizes import Written, size
from unmask.diagnosis.audit.specimens import EXCLUDING, FAULTS, HARMLESS, LATE, Meant, Specimen, keeps_schedule, named
from unmask.diagnosis.audit.statistics import Rows
from unmask.diagnosis.audit.suspects import (
    MIN_ROWS,
    REFERENCE,
    Bench,
    Directions,
    Suspect,
    needed,
    plan_of,
    repetition,
    suspect,
    visible,
)
from unmask.languages import Language, load
from unmask.languages.base import as_tokens
from unmask.samplers import Sampler, fit_of
from unmask.samplers.contract import as_sampler
from unmask.samplers.rules.autoregressive import Autoregressive
from unmask.samplers.schedules import ScheduleLike, deltas

NO_DIFFERENCE = "no difference found"
SMALL = "the difference is too small to name a fault. Test more sequences"
ALARM = 1e-4
LIKELY = 2 * math.log(1000)  # a suspect remains possible if it is at most 1000 times less likely than the best
MOST = 0.95  # least fraction of the difference that the named fault explains
SHOWN = 2000  # rows of the reference for the size of a difference
FITS = 3  # of the size of a fault, each with the specimen of the last one
FEW = 50  # distinct rows; fewer have no useful statistics


@dataclass(frozen=True)
class Verdict:
    verdict: str = NO_DIFFERENCE  # or "differs"
    fault: str | None = None  # the nearest known fault; None without a fault, or if no fault is near
    detail: str = ""  # its kind or size
    explained: float | None = None  # fraction of the difference that the fault explains
    exactly: bool = False  # whether the fault explains the whole difference
    also: tuple[str, ...] = ()  # other faults that these samples do not exclude
    size: str = ""  # in words: the first step that differs, and how often a token is written there


@dataclass(frozen=True, kw_only=True)
class Audit(Verdict):
    """Result of an audit of samples (B, L)."""

    p_values: dict[str, float]
    alarm_each: float  # a smaller p-value is an alarm
    temperature: Estimate | None  # estimate, if the fault is the temperature
    fitted_steps: Estimate | None  # estimate, if the fault is the number of steps
    seen: tuple[str, ...]  # faults that would be detected with probability POWER
    unseen: tuple[str, ...]
    unseen_temperatures: tuple[float, float] | None  # range that would not be detected
    unseen_steps: tuple[float, float] | None
    ser: tuple[Estimate, Estimate]  # of the samples, and of the reference
    bits: tuple[Estimate, Estimate]  # surprise of a token given a few earlier tokens
    rows: int
    length: int
    sampler: str
    steps: int  # 0 if the sampler uses none
    compared_with: str
    alarm: float = ALARM

    __repr__, _repr_html_, to_dict = as_table, as_html, asdict

    @property
    def sentence(self) -> str:
        """The verdict in words, with the size of the difference."""
        return "; ".join(filter(None, [self.named, self.size]))

    @property
    def named(self) -> str:
        """The verdict in words: the fault, or the faults that would have been missed."""
        meant = self.sampler
        if self.steps:
            meant += f" with {self.steps} steps"
        words = named(self.fault, self.detail)

        if self.verdict == NO_DIFFERENCE:
            if self.fault is not None:
                meant += f", except {words}: {FAULTS[self.fault]}"
            missed = [f"{name} {values}" for name, values in self.missed.items() if name != "faults"]
            if self.unseen:
                missed.append(f"{len(self.unseen)} of {len(self.unseen) + len(self.seen)} known faults")
            if missed:
                meant += f"; this audit would have missed {' or '.join(missed)}"
            return f"{self.verdict} to {meant}"

        if self.fault is None:
            return f"differs from {meant}; {self.detail or 'no known fault explains it'}"

        if not self.exactly and self.explained is not None:
            part = f"{100 * self.explained:.0f}% of the difference but not all"
            words = f"nearest of the known faults: {words}, which explains {part}"
        if self.also:
            words += f"; or {' or '.join(self.also)}: these samples cannot distinguish them"
        return f"differs from {meant}: {words}"

    @property
    def missed(self) -> dict[str, str]:
        """Faults that this number of rows cannot detect."""
        missed = {}
        if self.unseen_steps is not None:
            least, most = math.floor(self.unseen_steps[0]) + 1, self.unseen_steps[1]
            if math.isinf(most):
                missed["steps"] = f"{least} and more"
            elif least < self.steps or most > self.steps + 1:
                missed["steps"] = f"{least} to {math.ceil(most) - 1}"
        if self.unseen_temperatures is not None:
            missed["temperatures"] = "{:.3g} to {:.3g}".format(*self.unseen_temperatures)
        if self.unseen:
            missed["faults"] = ", ".join(self.unseen)
        return missed

    def table(self) -> dict[str, Any]:
        """Table for the command line."""
        nearest = min(self.p_values, key=self.p_values.__getitem__)
        table: dict[str, Any] = {"verdict": self.sentence}
        if self.fault is not None and self.verdict == "differs":
            table["meaning"] = FAULTS[self.fault]

        smallest = f"{self.p_values[nearest]:.2g} ({nearest}) of {len(self.p_values)}"
        return table | {
            "smallest p-value": f"{smallest}; an alarm is below {self.alarm_each:.1g}",
            "impossible rows": f"{self.ser[0]}; expected {self.ser[1]}",
            "surprise of a token": f"{self.bits[0]} bits; expected {self.bits[1]}",
            **entries.renamed("{} not detectable", self.missed),
            "faults detectable": ", ".join(self.seen) or "-",
            "compared with": self.compared_with,
        }


def audit(
    samples: Tensor,
    language: Language | Oracle,
    *,
    sampler: str | Sampler = "ancestral",
    schedule: ScheduleLike = "linear",
    steps: int | None = None,
    order: Tensor | None = None,
    record: bool = True,
    filters: Mapping[str, Any] | str | None = None,
    draft: float | None = None,
    alarm: float = ALARM,
) -> Audit:
    """Compare samples (B, L) of a loop on `unmask.oracle(language)` with the sampler that it should implement.

    language: the language of the oracle; or the oracle itself, whose record has the step of each position, if it was
        called only for these samples since its creation or last reset. record=False ignores the record.
    order: steps (B, L), from 1, as returned by `oracle.record.order(samples)`, if there is no oracle.
    filters: those of the loop in its order, {"temperature": 0.8, "top_p": 0.9}; also "top_k", "min_p" and
        "repetition_penalty". Scores are filtered too.
    draft: the loop verifies drafts of `unmask.oracle(.., draft=draft)`, with the same filters.
    alarm: probability of a false alarm.
    """
    model, dtype = language, torch.float32
    if isinstance(language, Oracle):
        dtype, language = language.dtype, language.language
    language = load(language)
    tokens = language.check_tokens(samples)
    rows, length = tokens.shape
    language.check_length(length)
    if rows < MIN_ROWS:
        raise UnmaskError(f"rows is {rows}, too few for a test; expected at least {MIN_ROWS} (2000 recommended)")
    arguments.number("alarm", alarm, 0, 0.5, above=True)
    if draft is not None:
        arguments.number("draft", draft, 0, 1, above=True)
    meant = as_meant(language, length, as_sampler(sampler), schedule, steps, filters, draft, dtype)
    observed = None
    if order is not None:
        revealed = _steps(order, tokens)
        observed = Observed.of([Run.of_order(revealed, tokens)], revealed, tokens, meant)
    elif isinstance(model, MaskedOracle) and record:
        revealed = model.record.order(tokens)
        observed = Observed.of(model.record.runs, revealed, tokens, meant)
    trial = Trial(meant, tokens, observed, alarm)
    # threads work on different specimens; torch's own threads would cost more than they save
    with progress.track("auditing", trial.total) as trial.advance, torch_threads(1):
        trial.test()
        return trial.result(trial.judge(), str(sampler))


def as_meant(
    language: Language,
    length: int,
    sampler: Sampler,
    schedule: ScheduleLike = "linear",
    steps: int | None = None,
    filters: Mapping[str, Any] | str | None = None,
    draft: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Meant:
    """The loop as it should be; dtype: of the logits that it sees."""
    if steps is None and isinstance(schedule, str) and not keeps_schedule(sampler):
        steps = 1  # not used

    delta = deltas(schedule, steps, fit_of(sampler, language, length))
    exact = as_denoiser(language, sampler.removes)
    if dtype in (torch.bfloat16, torch.float16):
        exact = Altered(exact, partial(rounded, dtype))
    return Meant(sampler, schedule, delta, exact, as_filters(filters), draft)


class Trial:
    """An audit in progress: tests of the samples, then the nearest fault if one of them is an alarm."""

    def __init__(self, meant: Meant, tokens: Tensor, record: Observed | None, alarm: float) -> None:
        self.meant, self.tokens, self.record, self.alarm = meant, tokens, record, alarm
        self.planned, self.grades = plan_of(meant)
        far = [specimen for grade in self.grades for specimen in map(grade.make, grade.far)]
        self.later = [*far, *others(meant)]
        self.total = 1 + len(self.planned) + len(self.later) + FITS * len(self.grades)
        self.advance: Callable[[int], object] = lambda _: None
        self.fitted: dict[str, Estimate] = {}

    def compare(self, specimens: Sequence[Specimen], times: int = 2) -> Iterator[Suspect]:
        """Compare the samples with generated rows; times: their number, relative to the samples."""

        def one(part: slice) -> Suspect:
            return suspect(specimens[part.start], self.bench.make(specimens[part.start], times), self.theirs)

        for suspects in over_blocks(one, len(specimens), 1):
            self.advance(1)
            yield suspects

    def test(self) -> None:
        """All p-values."""
        # a fixed reference would favor or disfavor all seeds of a loop
        seed = REFERENCE + zlib.crc32(self.tokens.numpy().tobytes())
        rows, length = self.tokens.shape
        bench = self.bench = Bench(self.meant, rows, length, self.record is not None, seed)
        self.findings: list[Finding] = []
        seen: tuple[Tensor, ...] = ()
        if self.record is not None:
            self.record, counted = self.record.as_steps(bench.generated.order)
            self.findings = [counted, *self.record.findings(bench.generated.order)]
            bench.ordered, bench.packed = self.record.aligned or self.record.packed, self.record.packed
            if bench.ordered:
                seen = self.record.order, self.record.predictions.surprise

        self.ours, self.theirs = bench.reference, bench.statistics(self.tokens, *seen)
        self.advance(1)
        self.suspects = list(self.compare(self.planned))
        self.directions = Directions(self.theirs, self.ours, self.suspects[0].generated)
        self.p_values = bench.tests(self.theirs, self.directions)
        for other in self.suspects[1:]:
            self.p_values[f"towards {other.specimen.name}"] = self.directions.p_value(other.generated)
        self.p_values |= {f"record: {finding.test}": finding.p_value for finding in self.findings}
        self.each = self.alarm / len(self.p_values)

    def judge(self) -> Verdict:
        """The verdict, with its size."""
        if min(self.p_values.values()) >= self.each:
            return Verdict()

        alarms = [finding for finding in self.findings if finding.fault and finding.p_value < self.each]

        if alarms:
            verdict = Verdict("differs", alarms[0].fault, "; ".join(entries.column(alarms, "detail")), None, True)
            if self.meant.filters:
                likely = nearest(self.suspects, self.theirs, {})
                if likely.fault == LATE and likely.exactly:  # it changes the counts too
                    verdict = likely
        else:
            verdict = self.fit()
            if not verdict.exactly or verdict.fault in self.fitted:
                self.suspects += self.compare(self.later, times=1)  # they bracket a size, or only name
                verdict = self.fit()
            if self.record is not None:
                verdict = self.seen(verdict, self.record)

        return verdict if verdict.verdict == NO_DIFFERENCE else replace(verdict, size=self.size())

    def fit(self) -> Verdict:
        """The nearest fault, with fitted sizes of the graded ones."""
        suspects = list(self.suspects)

        # values far apart have means that are not linear between them: the fitted ones lie closer, for the next fit
        for _ in range(FITS):
            self.fitted = {grade.fault: grade.fit(suspects, self.theirs) for grade in self.grades}
            suspects += self.compare([grade.make(self.fitted[grade.fault].value) for grade in self.grades])

        return nearest(suspects, self.theirs, self.fitted)

    def seen(self, verdict: Verdict, record: Observed) -> Verdict:
        """The verdict with the record of the draws."""
        if record.one_draw:
            return Verdict("differs", "reused noise", "the same in every row", None, True)
        excluded = record.excluded
        if excluded and verdict.fault not in EXCLUDING:
            return Verdict("differs", "excluded tokens", f"{excluded} of {self.tokens.numel()}", None, True)
        if verdict.fault in (None, "temperature") and self.p_values["record: draws"] < self.each:
            warmer = self.warmer(record, verdict)
            if warmer is None and verdict.fault == "temperature" and not self.meant.filters:
                return Verdict("differs")  # the draws have no single temperature, so the name would mislead

            return warmer or verdict
        return verdict

    def warmer(self, record: Observed, verdict: Verdict) -> Verdict | None:
        """Another temperature of draws and scores, if it explains the draws of all steps: by their likelihood."""
        heat, relative = self.meant.filters.get("temperature", 1.0), record.temperature
        if relative is None or not heat:
            return None

        known = self.fitted["temperature"] = relative.map(lambda value: heat * value)
        return replace(verdict, verdict="differs", fault="temperature", detail=str(known), explained=None, exactly=True)

    def size(self) -> str:
        """The first step that differs, if steps are known."""
        generated, denoiser = self.bench.generated, self.meant.denoiser
        if isinstance(self.meant.sampler, Autoregressive):
            order = torch.arange(1, self.tokens.shape[1] + 1).expand(self.tokens.shape)
        elif self.record is not None:
            order = self.record.order
        else:
            return ""

        other = generated.order[:SHOWN]
        if self.bench.packed:
            order, other = packed(order), packed(other)
        steps = max(int(order.max()), int(other.max()))
        mine = Written.of(denoiser, self.tokens, order, steps)
        theirs = Written.of(denoiser, generated.tokens[:SHOWN], other, steps)
        return size(mine, theirs, "the filtered model" if self.meant.filters else "the model")

    def result(self, verdict: Verdict, sampler: str) -> Audit:
        """The verdict with its evidence, and with the faults that would have been detected."""
        fitted = {verdict.fault: self.fitted.get(str(verdict.fault))}  # of the named fault alone
        kinds = [s for s in self.suspects[1 : len(self.planned)] if s.specimen.value is None]
        strengths = {s.specimen.name: self.directions.strength(s.generated) for s in kinds}
        between = {g.fault: visible(g, self.suspects, self.directions, self.each) for g in self.grades}
        if verdict.fault == "miscounted steps" or (self.record is not None and self.record.counts_steps):
            between.pop("miscounted steps", None)  # their number is known

        theirs, ours, rows, length = self.theirs, self.ours, *self.tokens.shape
        windows = length - self.bench.statistics.size + 1  # of a row, with a surprise
        exact = " and the exact distribution" if "exact distribution" in self.p_values else ""
        record = ", with the steps in the record of the oracle" if self.bench.ordered else ""

        return Audit(
            **vars(verdict),
            p_values=self.p_values,
            alarm_each=self.each,
            temperature=fitted.get("temperature"),
            fitted_steps=fitted.get("miscounted steps"),
            seen=tuple(name for name, strength in strengths.items() if strength >= needed(self.each)),
            unseen=tuple(name for name, strength in strengths.items() if strength < needed(self.each)),
            unseen_temperatures=between.get("temperature"),
            unseen_steps=between.get("miscounted steps"),
            ser=(proportion(int(theirs.invalid.sum()), rows), proportion(int(ours.invalid.sum()), len(ours))),
            bits=(mean(theirs.bits / windows), mean(ours.bits / windows)),
            alarm=self.alarm,
            rows=rows,
            length=length,
            sampler=sampler,
            steps=len(self.meant.delta) if keeps_schedule(self.meant.sampler) else 0,
            compared_with=f"{len(ours)} generated rows{exact}{record}",
        )


def _steps(order: Tensor, tokens: Tensor) -> Tensor:
    """Steps (B, L) of tokens (B, L); raise an error if they are not."""
    checked = as_tokens(order, "order")
    if checked.shape != tokens.shape:
        raise UnmaskError(f"order has shape {tuple(checked.shape)}; expected {tuple(tokens.shape)}, as the samples")
    least, most = int(checked.min()), int(checked.max())
    if least < 1 or most > MOST_CALLS:
        raise UnmaskError(f"order has steps from {least} to {most}; expected 1 to {MOST_CALLS}")
    return checked


def nearest(suspects: Sequence[Suspect], samples: Rows, fitted: Mapping[str, Estimate]) -> Verdict:
    """Name the nearest suspect if the samples fit it, or if it explains most of the difference."""
    faultless, *faulty = suspects
    best = min(faulty, key=lambda s: s.misfit)
    if repetition(samples, min(suspects, key=lambda s: s.misfit).generated) < ALARM:
        different = samples.different()
        if len(different) < FEW or suspect(faultless.specimen, faultless.generated, different).p_value >= ALARM:
            again = f"{len(samples) - len(different)} of {len(samples)} repeat an earlier one"
            return Verdict("differs", "reused noise", f"in several rows: {again}")
    if faultless.p_value >= ALARM and faultless.misfit - best.misfit < LIKELY:
        return Verdict("differs", detail=SMALL)
    if best.misfit == math.inf:
        return Verdict("differs")
    left = max(best.misfit - best.degrees, 0.0) / max(faultless.misfit - faultless.degrees, 1e-300)
    explained, exactly = max(0.0, 1 - left), best.p_value >= ALARM
    if not exactly and (explained < MOST or faultless.misfit == math.inf):
        return Verdict("differs")
    fault = best.specimen.fault
    near = [s.specimen for s in faulty if s.misfit - best.misfit < LIKELY]
    # of a graded fault the interval has the other sizes
    close = [s for s in near if s.fault != fault or (fault not in fitted and s.name != best.specimen.name)]
    return Verdict(
        NO_DIFFERENCE if exactly and fault in HARMLESS else "differs",
        fault,
        str(fitted.get(fault, best.specimen.detail)),
        explained,
        exactly,
        tuple(dict.fromkeys(named(s.fault, fitted.get(s.fault, s.detail)) for s in close)),
    )
