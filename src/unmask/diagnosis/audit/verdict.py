"""audit(): test whether samples have the distribution of a sampler, and find the nearest known fault if not.

Samples are compared with generated rows, with the exact distribution if it can be enumerated, and with the record of
the oracle if it is passed. Each of K tests has a false-alarm rate of ALARM / K, so all together have at most ALARM.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, mean, proportion
from unmask.core.tables import lines, rows_of
from unmask.core.threads import over_blocks, torch_threads
from unmask.denoisers import Sharpened, as_denoiser
from unmask.denoisers.oracles import MaskedOracle, Oracle
from unmask.denoisers.record import MOST_CALLS, Run
from unmask.diagnosis.audit.observed import Finding, Observed
from unmask.diagnosis.audit.specimens import FAULTS, HARMLESS, LATE, Specimen, keeps_schedule
from unmask.diagnosis.audit.statistics import Rows
from unmask.diagnosis.audit.suspects import (
    MIN_ROWS,
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
from unmask.samplers.making import reshaped
from unmask.samplers.schedules import ScheduleLike, deltas

NO_DIFFERENCE = "no difference found"
ALARM = 1e-4
LIKELY = 2 * math.log(1000)  # a suspect remains possible if it is at most 1000 times less likely than the best
MOST = 0.8  # least fraction of the difference that the named fault explains
NEAR = 0.8  # temperature
FEW = 50  # distinct rows; fewer have no useful statistics


@dataclass(frozen=True)
class Verdict:
    verdict: str = NO_DIFFERENCE  # or "differs"
    fault: str | None = None  # the nearest known fault; None without a fault, or if no fault is near
    detail: str = ""  # its kind or size
    explained: float | None = None  # fraction of the difference that the fault explains
    exactly: bool = False  # whether the fault explains the whole difference
    also: tuple[str, ...] = ()  # other faults that these samples do not exclude


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
    calls: dict[str, Any] | None
    rows: int
    length: int
    sampler: str
    steps: int
    compared_with: str
    alarm: float = ALARM

    def __repr__(self) -> str:
        return "\n".join(lines(rows_of(self.table())))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        meant = f"{self.sampler} with {self.steps} steps"
        words = f"{self.fault} ({self.detail})" if self.detail else str(self.fault)
        if self.verdict == NO_DIFFERENCE:
            harmless = "" if self.fault is None else f", except {words}: {FAULTS[self.fault]}"
            missed = f"; this audit would have missed {self.missed}" if self.missed else ""
            return f"{self.verdict} to {meant}{harmless}{missed}"
        if self.fault is None:
            return f"differs from {meant}; no known fault explains it"
        if not self.exactly and self.explained is not None:
            part = f"{100 * self.explained:.0f}% of the difference but not all"
            words = f"nearest of the known faults: {words}, which explains {part}"
        if self.also:
            words += f"; or {' or '.join(self.also)}: these samples cannot distinguish them"
        return f"differs from {meant}: {words}"

    @property
    def missed(self) -> str:
        """Faults that this number of rows cannot detect, in words."""
        parts = []
        if self.unseen_steps is not None:
            least, most = math.floor(self.unseen_steps[0]) + 1, self.unseen_steps[1]
            if math.isinf(most):
                parts.append(f"{least} steps and more")
            elif least < self.steps or most > self.steps + 1:
                parts.append(f"{least} to {math.ceil(most) - 1} steps")
        if self.unseen_temperatures is not None:
            parts.append("temperatures {:.3g} to {:.3g}".format(*self.unseen_temperatures))
        if self.unseen:
            parts.append(f"{len(self.unseen)} of {len(self.unseen) + len(self.seen)} known faults")
        return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))

    def table(self) -> dict[str, Any]:
        """Table for the command line."""
        nearest = min(self.p_values, key=self.p_values.__getitem__)
        table: dict[str, Any] = {"verdict": self.sentence}
        if self.fault is not None and self.verdict == "differs":
            table["meaning"] = FAULTS[self.fault]
        smallest = f"{self.p_values[nearest]:.2g} ({nearest}) of {len(self.p_values)}"
        table["smallest p-value"] = f"{smallest}; an alarm is below {self.alarm_each:.1g}"
        table["impossible rows"] = f"{self.ser[0]}; expected {self.ser[1]}"
        table["surprise of a token"] = f"{self.bits[0]} bits; expected {self.bits[1]}"
        if self.calls is not None:
            needed = f"{self.calls['steps']} steps, {self.calls['needed']:.4g} needed"
            table["model calls"] = f"{self.calls['made']:.4g} for {needed}: {self.calls['note']}"
        for name, between in (("temperatures", self.unseen_temperatures), ("steps", self.unseen_steps)):
            if between is not None:
                table[f"{name} not detectable"] = f"{between[0]:.4g} to {between[1]:.4g}"
        table["faults not detectable"] = ", ".join(self.unseen) or "-"
        table["faults detectable"] = ", ".join(self.seen) or "-"
        table["compared with"] = self.compared_with
        return table


def audit(
    samples: Tensor,
    language: Language | Oracle,
    *,
    sampler: str | Sampler = "ancestral",
    schedule: ScheduleLike = "linear",
    steps: int | None = None,
    calls: float | None = None,
    order: Tensor | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    alarm: float = ALARM,
) -> Audit:
    """Compare samples (B, L) of a loop on `unmask.oracle(language)` with the sampler that it should implement.

    language: the language of the oracle; or the oracle itself, whose record has the step of each position, if it was
        called only for these samples since its creation or last reset.
    order: steps (B, L), from 1, as returned by `oracle.record.order(samples)`, if there is no oracle.
    calls: model calls per row, model.rows / B, compared with the number of calls needed.
    temperature, top_p, top_k: filters of the loop, in this order, as those of `generate`: scores are filtered too.
    alarm: probability of a false alarm.
    """
    model = language if isinstance(language, MaskedOracle) else None
    language = load(language.language if isinstance(language, Oracle) else language)
    tokens = language.check_tokens(samples)
    rows, length = tokens.shape
    language.check_length(length)
    if rows < MIN_ROWS:
        raise UnmaskError(f"rows is {rows}, too few for a test; expected at least {MIN_ROWS} (2000 recommended)")
    used = as_sampler(sampler)
    denoiser = reshaped(as_denoiser(language, used.removes), temperature, top_p, top_k, 0.0)
    filters = denoiser if isinstance(denoiser, Sharpened) else None
    arguments.number("alarm", alarm, 0, 0.5, above=True)
    if steps is None and isinstance(schedule, str) and not keeps_schedule(used):
        steps = 1  # not used
    delta = deltas(schedule, steps, fit_of(used, language, length))
    if calls is not None:
        arguments.number("calls", calls, above=True, what=", the number of model calls per row")
    record = None
    if order is not None:
        revealed = _steps(order, tokens)
        record = Observed.of([Run.of_order(revealed, tokens)], revealed, tokens, denoiser, used, delta)
    elif model is not None:
        revealed = model.record.order(tokens)
        record = Observed.of(model.record.runs, revealed, tokens, denoiser, used, delta)
    if model is not None and calls is None:
        calls = model.rows / rows
    planned = plan_of(used, len(delta), isinstance(schedule, str), filters)
    later = [specimen for grade in planned.grades for specimen in map(grade.make, grade.far)]
    total = 1 + len(planned.specimens) + len(later) + len(planned.grades)
    # threads work on different specimens; torch's own threads would cost more than they save
    with progress.track("auditing", total) as advance, torch_threads(1):
        bench = Bench(denoiser, used, schedule, delta, rows, length, record is not None)
        findings: list[Finding] = []
        if record is not None:
            record, counted = record.as_steps(bench.generated.order)
            findings = [counted, *record.findings(bench.generated.order)]
            bench.ordered, bench.packed = record.aligned or record.packed, record.packed
        ours, theirs = bench.reference, bench.count(tokens, record)
        advance(1)

        def compare(specimens: Sequence[Specimen]) -> Iterator[Suspect]:
            def one(part: slice) -> Suspect:
                return suspect(specimens[part.start], bench.make(specimens[part.start]), theirs)

            for suspects in over_blocks(one, len(specimens), 1):
                advance(1)
                yield suspects

        suspects = list(compare(planned.specimens))
        directions = Directions(theirs, ours, suspects[0].generated)
        p_values = bench.tests(theirs, directions)
        p_values |= {f"towards {other.specimen.name}": directions.p_value(other.generated) for other in suspects[1:]}
        p_values |= {f"record: {finding.test}": finding.p_value for finding in findings}
        if calls is not None and keeps_schedule(used):
            short = too_few(calls, len(delta), bench, rows)
            findings.append(short)
            p_values["model calls"] = short.p_value
        each = alarm / len(p_values)
        kinds = [s for s in suspects[1:] if s.specimen.value is None]
        seen = [s.specimen.name for s in kinds if directions.strength(s.generated) >= needed(each)]
        between = {g.fault: visible(g, suspects, directions, each) for g in planned.grades}
        verdict = Verdict()
        fitted: dict[str, Estimate] = {}
        alarms = [finding for finding in findings if finding.fault and finding.p_value < each]
        if alarms:
            verdict = Verdict("differs", alarms[0].fault, "; ".join(finding.detail for finding in alarms), None, True)
            likely = judge(suspects, theirs, fitted) if filters is not None else verdict
            if likely.fault == LATE and likely.exactly:  # it changes the counts too
                verdict = likely
        elif min(p_values.values()) < each:
            suspects += compare(later)
            fitted |= {grade.fault: grade.fit(suspects, theirs) for grade in planned.grades}
            suspects += compare([grade.make(fitted[grade.fault].value) for grade in planned.grades])
            verdict = judge(suspects, theirs, fitted)
            if record is not None and p_values["record: draws"] < each:
                verdict, fitted = warmer(verdict, record, fitted, temperature or 1.0)
    miscounted = verdict.fault == "miscounted steps"
    known = miscounted or (record is not None and record.counts_steps)
    windows = length - bench.statistics.size + 1  # of a row, with a surprise
    return Audit(
        **vars(verdict),
        p_values=p_values,
        alarm_each=each,
        temperature=fitted.get("temperature") if verdict.fault == "temperature" else None,
        fitted_steps=fitted.get("miscounted steps") if miscounted else None,
        seen=tuple(seen),
        unseen=tuple(s.specimen.name for s in kinds if s.specimen.name not in seen),
        unseen_temperatures=between.get("temperature"),
        unseen_steps=None if known else between.get("miscounted steps"),
        ser=(proportion(int(theirs.invalid.sum()), rows), proportion(int(ours.invalid.sum()), len(ours))),
        bits=(mean(theirs.bits / windows), mean(ours.bits / windows)),
        calls=None if calls is None else account(calls, len(delta), bench.needed, verdict.detail if miscounted else ""),
        alarm=alarm,
        rows=rows,
        length=length,
        sampler=sampler if isinstance(sampler, str) else repr(sampler),
        steps=len(delta),
        compared_with=f"{len(ours)} generated rows"
        + " and the exact distribution" * ("exact distribution" in p_values)
        + ", with the steps in the record of the oracle" * bench.ordered,
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


def warmer(
    verdict: Verdict, record: Observed, fitted: dict[str, Estimate], heat: float
) -> tuple[Verdict, dict[str, Estimate]]:
    """The temperature, times heat, measured by the record, if one explains all steps and no other fault is nearer."""
    likely = verdict.fault in (None, "temperature") or any("temperature" in other for other in verdict.also)
    if not likely or record.one_temperature < ALARM:
        return verdict, fitted
    relative = record.temperature
    if verdict.fault is not None and not NEAR < relative.value < 1 / NEAR:  # the score is linear near T = 1 alone
        return verdict, fitted
    temperature = replace(relative, value=heat * relative.value, low=heat * relative.low, high=heat * relative.high)
    return Verdict("differs", "temperature", str(temperature), None, True), fitted | {"temperature": temperature}


def judge(suspects: Sequence[Suspect], samples: Rows, fitted: Mapping[str, Estimate]) -> Verdict:
    """Name the nearest suspect if the samples fit it, or if it explains most of the difference."""
    faultless, *faulty = suspects
    best = min(faulty, key=lambda s: s.misfit)
    if repetition(samples, min(suspects, key=lambda s: s.misfit).generated) < ALARM:
        different = samples.different()
        if len(different) < FEW or suspect(faultless.specimen, faultless.generated, different).p_value >= ALARM:
            again = f"{len(samples) - len(different)} of {len(samples)} repeat an earlier one"
            return Verdict("differs", "reused noise", f"in several rows: {again}")
    if best.misfit == math.inf:
        return Verdict("differs")
    left = max(best.misfit - best.degrees, 0.0) / max(faultless.misfit - faultless.degrees, 1e-300)
    explained, exactly = max(0.0, 1 - left), best.p_value >= ALARM
    if not exactly and (explained < MOST or faultless.misfit == math.inf):
        return Verdict("differs")
    fault = best.specimen.fault
    close = [s.specimen for s in faulty if s.misfit - best.misfit < LIKELY and s.specimen.fault != fault]
    return Verdict(
        NO_DIFFERENCE if exactly and fault in HARMLESS else "differs",
        fault,
        str(fitted[fault]) if fault in fitted else best.specimen.detail,
        explained,
        exactly,
        tuple(dict.fromkeys(f"{s.fault} ({fitted[s.fault]})" if s.fault in fitted else s.name for s in close)),
    )


def too_few(calls: float, steps: int, bench: Bench, rows: int) -> Finding:
    """Test whether rows had fewer calls than needed: means of the samples and of reference rows, both normal."""
    error = bench.spread * math.sqrt(1 / rows + 1 / len(bench.reference))
    missing = bench.needed - calls
    p_value = math.erfc(missing / error / math.sqrt(2)) / 2 if error else float(missing < 1e-9)
    detail = f"{calls:.4g} model calls for {steps} steps, {bench.needed:.4g} needed; or a cache with stale outputs"
    return Finding("model calls", p_value, "miscounted steps", detail)


def account(calls: float, steps: int, needed: float, miscounted: str = "") -> dict[str, Any]:
    """Calls per row and calls needed: one for each step in which the row changes (docs/contracts.md)."""
    if miscounted:
        note = f"see the verdict: {miscounted}"
    elif calls > steps + 1e-9:
        note = "more than one call per step: a hidden last step, guidance, or more steps than N"
    elif calls > steps - 1e-9:
        note = "one call per step: no cache"
    elif calls > 1.05 * needed:
        note = "more than needed: a cache for the whole batch, invalidated by any row that changes"
    elif calls > 0.95 * needed:
        note = "the number that a row needs"
    else:
        note = "fewer than needed: steps are omitted, or stale outputs are used"
    return {"made": calls, "steps": steps, "needed": needed, "note": note}
