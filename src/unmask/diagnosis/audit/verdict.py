"""audit(): do samples follow the law of a sampler, and if not, which known fault do they show?

The samples are compared with the exact law where it can be enumerated, and with rows of our own sampler; where the
oracle that made them is there, so are the rounds that it has seen. Each of K tests raises an alarm with probability
ALARM / K, so that all together raise a false one with probability ALARM.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, mean, proportion
from unmask.core.shown import Shown
from unmask.core.tables import lines, rows_of
from unmask.core.threads import over_blocks, torch_threads
from unmask.diagnosis.audit.bench import MIN_ROWS, Bench, repetition
from unmask.diagnosis.audit.seen import Finding, Seen
from unmask.diagnosis.audit.specimens import FAULTS, HARMLESS, Specimen, keeps_schedule
from unmask.diagnosis.audit.statistics import Rows
from unmask.diagnosis.audit.suspects import Directions, Suspect, first_look, needed, suspect, visible
from unmask.generation import fit_of
from unmask.ideal.oracle import MaskedOracle, Oracle
from unmask.ideal.record import MOST_CALLS, Run
from unmask.languages import Language, load
from unmask.languages.base import as_tokens
from unmask.samplers import Sampler
from unmask.samplers.contract import as_sampler
from unmask.schedules import ScheduleLike, deltas

ALARM = 1e-4
LIKELY = 2 * math.log(1000)  # a suspect is not excluded while it is less than 1000 times less likely than the best
MOST = 0.8  # of the difference, which a suspect explains to be named though it is not the whole explanation
FEW = 50  # different rows: too few for their statistics to say anything


@dataclass(frozen=True)
class Audit(Shown):
    """What samples (B, L) say of the loop that made them."""

    verdict: str  # "follows" or "differs"
    fault: str | None  # the name of the nearest known fault; None if there is none, or none is near
    detail: str  # which kind of it, or of which degree
    explained: float | None  # the share of the difference that the fault explains
    exactly: bool  # whether nothing else remains to be explained
    also: tuple[str, ...]  # other faults that samples like these do not exclude
    p_values: dict[str, float]
    alarm_each: float  # a smaller p-value is an alarm
    temperature: Estimate | None  # what fits the samples, where temperature is the fault
    steps: Estimate | None  # what fits them, where the number of rounds is
    seen: tuple[str, ...]  # faults that would be seen in nine of ten samples like these
    unseen: tuple[str, ...]
    unseen_temperatures: tuple[float, float] | None  # between these nothing would be seen
    unseen_steps: tuple[float, float] | None
    ser: tuple[Estimate, Estimate]  # of the samples, and of what they are compared with
    bits: tuple[Estimate, Estimate]  # surprise of a token after the few before it
    calls: dict[str, Any] | None
    rows: int
    length: int
    sampler: str
    rounds: int
    compared_with: str
    alarm: float = ALARM

    def __repr__(self) -> str:
        return "\n".join(lines(rows_of(self.table())))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        law = f"the law of {self.sampler} with {self.rounds} rounds"
        if self.fault is None:
            why = "" if self.verdict == "follows" else ", and no known fault explains it"
            return f"{self.verdict}: {'not ' * (self.verdict == 'differs')}{law}{why}"
        words = f"{self.fault} ({self.detail})" if self.detail else self.fault
        if self.verdict == "follows":
            return f"follows: {law}, but for {words}: {FAULTS[self.fault]}"
        if not self.exactly and self.explained is not None:
            part = f"{100 * self.explained:.0f}% of the difference but not all"
            words = f"nearest of the known faults: {words}, which explains {part}"
        if self.also:
            words += f"; or {' or '.join(self.also)}: such samples do not tell these apart"
        return f"differs: not {law}; {words}"

    def table(self) -> dict[str, Any]:
        """What the command line prints."""
        nearest = min(self.p_values, key=self.p_values.__getitem__)
        table: dict[str, Any] = {"verdict": self.sentence}
        if self.fault is not None and self.verdict == "differs":
            table["which means"] = FAULTS[self.fault]
        table["smallest p-value"] = (
            f"{self.p_values[nearest]:.2g} ({nearest}) of {len(self.p_values)}; an alarm is below {self.alarm_each:.1g}"
        )
        table["impossible rows"] = f"{self.ser[0]}; expected {self.ser[1]}"
        table["surprise of a token"] = f"{self.bits[0]} bits; expected {self.bits[1]}"
        if self.calls is not None:
            needed = f"{self.calls['rounds']} rounds, {self.calls['needed']:.4g} needed"
            table["calls"] = f"{self.calls['made']:.4g} for {needed}: {self.calls['note']}"
        for name, between in (("temperatures", self.unseen_temperatures), ("rounds", self.unseen_steps)):
            if between is not None:
                table[f"unseen {name}"] = f"{between[0]:.4g} to {between[1]:.4g}"
        table["unseen faults"] = ", ".join(self.unseen) or "-"
        table["visible faults"] = ", ".join(self.seen) or "-"
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
) -> Audit:
    """Compare samples (B, L) of any loop on `unmask.oracle(language)` with the sampler that it is meant to be.

    language: of the oracle; or the oracle itself, whose record says in which round each place was revealed, if it has
        been asked for these samples alone since it was made or reset.
    order: the same rounds (B, L), from 1, where there is no oracle but what `oracle.record.order(samples)` has said.
    calls: how often the model was called for a row, model.rows / B, to be held against the evaluations needed.
    """
    model = language if isinstance(language, MaskedOracle) else None
    language = load(language.language if isinstance(language, Oracle) else language)
    tokens = language.check_tokens(samples)
    rows, length = tokens.shape
    language.check_length(length)
    if rows < MIN_ROWS:
        raise UnmaskError(f"{rows} rows are too few to say anything; make at least {MIN_ROWS}, better 2000")
    used = as_sampler(sampler)
    if steps is None and isinstance(schedule, str) and not keeps_schedule(used):
        steps = 1  # not used
    delta = deltas(schedule, steps, fit_of(used, language, length))
    if calls is not None:
        arguments.number("calls", calls, above=True, what=", the calls that each row went through")
    record = None
    if order is not None:
        rounds = _rounds(order, tokens)
        record = Seen.of([Run.told(rounds, tokens)], rounds, tokens, language, used, delta)
    elif model is not None:
        rounds = model.record.order(tokens)
        record = Seen.of(model.record.runs, rounds, tokens, language, used, delta)
    if model is not None and calls is None:
        calls = model.rows / rows
    planned = first_look(used, len(delta), isinstance(schedule, str))
    later = [specimen for grade in planned.grades for specimen in map(grade.make, grade.far)]
    total = 1 + len(planned.specimens) + len(later) + len(planned.grades)
    # threads share the specimens; inside one, calls are too short to share, and threads that wait cost more
    with progress.track("auditing", total) as advance, torch_threads(1):
        bench = Bench(language, used, schedule, delta, rows, length, record is not None)
        findings: list[Finding] = []
        if record is not None:
            record, counted = record.as_rounds(bench.generated.order)
            findings = [counted, *record.findings(bench.generated.order)]
            bench.ordered = record.aligned
        ours, theirs = bench.reference, bench.count(tokens, record)
        advance(1)

        def look(specimens: Sequence[Specimen]) -> Iterator[Suspect]:
            def one(part: slice) -> Suspect:
                return suspect(specimens[part.start], bench.make(specimens[part.start]), theirs)

            for found in over_blocks(one, len(specimens), 1):
                advance(1)
                yield found

        found = list(look(planned.specimens))
        directions = Directions(theirs, ours, found[0].made)
        p_values = bench.tests(theirs, directions)
        p_values |= {f"towards {other.specimen.name}": directions.p_value(other.made) for other in found[1:]}
        p_values |= {f"record: {finding.test}": finding.p_value for finding in findings}
        each = ALARM / len(p_values)
        kinds = [s for s in found[1:] if s.specimen.value is None]
        seen = [s.specimen.name for s in kinds if directions.strength(s.made) >= needed(each)]
        between = {g.fault: visible(g, found, directions, each) for g in planned.grades}
        verdict = Verdict()
        fitted: dict[str, Estimate] = {}
        told = [finding for finding in findings if finding.fault and finding.p_value < each]
        if told:
            verdict = Verdict("differs", told[0].fault, "; ".join(finding.detail for finding in told), None, True)
        elif min(p_values.values()) < each:
            found += look(later)
            fitted |= {grade.fault: grade.fit(found, theirs) for grade in planned.grades}
            found += look([grade.make(fitted[grade.fault].value) for grade in planned.grades])
            verdict = judge(found, theirs, fitted)
            if record is not None and p_values["record: draws"] < each:
                verdict, fitted = warmer(verdict, record, fitted)
    return Audit(
        **vars(verdict),
        p_values=p_values,
        alarm_each=each,
        temperature=fitted.get("temperature") if verdict.fault == "temperature" else None,
        steps=fitted.get("miscounted steps") if verdict.fault == "miscounted steps" else None,
        seen=tuple(seen),
        unseen=tuple(s.specimen.name for s in kinds if s.specimen.name not in seen),
        unseen_temperatures=between.get("temperature"),
        unseen_steps=between.get("miscounted steps"),
        ser=(_ser(theirs), _ser(ours)),
        bits=(_bits(theirs, bench.windows), _bits(ours, bench.windows)),
        calls=None if calls is None else account(calls, len(delta), bench.needed),
        rows=rows,
        length=length,
        sampler=sampler if isinstance(sampler, str) else repr(sampler),
        rounds=len(delta),
        compared_with=f"{len(ours)} rows of ours"
        + " and the exact law" * ("exact law" in p_values)
        + ", in the rounds that the oracle has seen" * bench.ordered,
    )


def _rounds(order: Tensor, tokens: Tensor) -> Tensor:
    """Rounds (B, L) of tokens (B, L), or an error that says what they are instead."""
    found = as_tokens(order, "order")
    if found.shape != tokens.shape:
        raise UnmaskError(f"order has shape {tuple(found.shape)}, and the samples {tuple(tokens.shape)}")
    least, most = int(found.min()), int(found.max())
    if least < 1 or most > MOST_CALLS:
        raise UnmaskError(f"order has rounds from {least} to {most}; expected 1 to {MOST_CALLS}")
    return found


def warmer(verdict: Verdict, record: Seen, fitted: dict[str, Estimate]) -> tuple[Verdict, dict[str, Estimate]]:
    """The temperature that the record itself measures, where one explains all rounds and nothing else is nearer."""
    likely = verdict.fault in (None, "temperature") or any("temperature" in other for other in verdict.also)
    if not likely or record.one_temperature < ALARM:
        return verdict, fitted
    found = record.temperature
    return Verdict("differs", "temperature", str(found), None, True), fitted | {"temperature": found}


@dataclass(frozen=True)
class Verdict:
    verdict: str = "follows"
    fault: str | None = None
    detail: str = ""
    explained: float | None = None
    exactly: bool = False
    also: tuple[str, ...] = ()


def judge(found: Sequence[Suspect], seen: Rows, fitted: Mapping[str, Estimate]) -> Verdict:
    """The nearest suspect is named if the samples fit it, or if it explains most of the difference."""
    faultless, *others = found
    best = min(others, key=lambda s: s.misfit)
    if repetition(seen, min(found, key=lambda s: s.misfit).made) < ALARM:
        different = seen.different()
        if len(different) < FEW or suspect(faultless.specimen, faultless.made, different).p_value >= ALARM:
            again = len(seen) - len(different)
            return Verdict("differs", "reused noise", f"in several rows: {again} of {len(seen)} repeat an earlier one")
    if best.misfit == math.inf:
        return Verdict("differs")
    left = max(best.misfit - best.degrees, 0.0) / max(faultless.misfit - faultless.degrees, 1e-300)
    explained, exactly = max(0.0, 1 - left), best.p_value >= ALARM
    if not exactly and (explained < MOST or faultless.misfit == math.inf):
        return Verdict("differs")
    fault = best.specimen.fault
    close = [s.specimen for s in others if s.misfit - best.misfit < LIKELY and s.specimen.fault != fault]
    return Verdict(
        "follows" if exactly and fault in HARMLESS else "differs",
        fault,
        str(fitted[fault]) if fault in fitted else best.specimen.detail,
        explained,
        exactly,
        tuple(dict.fromkeys(f"{s.fault} ({fitted[s.fault]})" if s.fault in fitted else s.name for s in close)),
    )


def _ser(rows: Rows) -> Estimate:
    return proportion(int(rows.invalid.sum()), len(rows))


def _bits(rows: Rows, windows: int) -> Estimate:
    return mean(rows.bits / windows)


def account(calls: float, rounds: int, needed: float) -> dict[str, Any]:
    """The calls of a row beside what it needs: one for each round in which it changes (docs/contracts.md)."""
    if calls > rounds + 1e-9:
        note = "more than one call a round: a hidden last step, guidance, or more rounds than N"
    elif calls > rounds - 1e-9:
        note = "one call a round: nothing is cached"
    elif calls > 1.05 * needed:
        note = "more than a row needs: a cache for the whole batch, which one row that changes makes stale"
    elif calls > 0.95 * needed:
        note = "what a row needs"
    else:
        note = "fewer than a row needs: rounds are left out, or a stale answer is used"
    return {"made": calls, "rounds": rounds, "needed": needed, "note": note}
