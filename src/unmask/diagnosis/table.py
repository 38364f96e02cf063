"""Bounds of theorems, exact values and measured values of SER and TER, for a range of N."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from unmask import metrics
from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, exactly
from unmask.languages import Language, LanguageLike, NGram, load
from unmask.samplers import generate
from unmask.samplers.schedules import Fit, deltas
from unmask.theory import correctness, fluency, optimal, separators, statements
from unmask.theory.curves import InformationCurve
from unmask.theory.known import exact
from unmask.theory.sampled import information_curve
from unmask.theory.statements import Statement

QUANTITIES = {"ser": "SER", "ter_ratio": "TER / TER of the language"}
EXACT = "exact"
MEASURED = {"ser": "measured", "ter_ratio": "measured, mean over orders"}
Record = dict[str, Any]  # quantity, steps, name, kind, value, low, high, origin, assumption


def table(
    language: LanguageLike,
    length: int,
    schedule: str,
    steps: Sequence[int],
    *,
    rows: int = 200,
    seed: int = 0,
) -> list[Record]:
    """One record per number: bounds, the exact value, the measured value (none if rows = 0).

    SER is counted in generated rows. TER is 2^E_q[-log2 p(x)/L] with unknown p(x), so its upper bound over orders is
    measured, on x ~ q.
    """
    language = load(language)
    language.check_length(length)
    if language.end is not None:
        raise UnmaskError(f"{language.kind} varies in length; the bounds need a language of fixed length")
    if not steps:
        raise UnmaskError("no numbers of steps; expected at least one. Pass --steps 64")
    for count in steps:
        arguments.steps(count)
    arguments.whole("rows", rows, 0)
    between = fluency.interaction(language, length).value
    own = information_curve(language, length, rows=rows, seed=seed) if rows else None
    records: list[Record] = []
    with progress.track("steps", len(steps)) as advance:
        for count in sorted(set(steps)):
            records += _at(language, length, schedule, count, rows, seed, between, own)
            advance(1)
    return records


def _at(
    language: Language,
    length: int,
    schedule: str,
    steps: int,
    rows: int,
    seed: int,
    between: float,
    own: InformationCurve | None,
) -> list[Record]:
    delta = deltas(schedule, steps, Fit(language, length))
    universal = fluency.universal(language.vocabulary, length, delta, between)
    divergences = {"max delta (TC + DTC)": universal}
    if isinstance(language, NGram):
        n, v = language.order, language.vocabulary
        eps = float(deltas(f"theorem-4.2(order={n})", steps)[0])
        if eps < 1:
            divergences["theorem 4.2, paper"] = fluency.theorem_4_2(n, v, length, eps)
            divergences["theorem 4.2, explicit"] = fluency.explicit(n, v, length, eps)
        divergences["lemma B.9"] = separators.lemma_b9(n, v, length, delta)
    values = exact(language, length, delta)
    if (plan := values.expected_plan_divergence_nats) is not None:
        how = "each position draws its step from the schedule"
        divergences["mean over orders"] = Statement(plan, "upper", "divergence", how, "ours", "theory.md 7.2")
    errors = {"theorem 4.3": correctness.theorem_4_3(length, delta)}
    errors |= {
        f"1 - exp(-KL), {name}": statements.ser(divergences[name])
        for name in ("max delta (TC + DTC)", "mean over orders")
        if name in divergences
    }
    if language.width is not None:
        errors["lemma C.6 (theorem 4.4)"] = correctness.lemma_c6(length, steps, language.width)
    records = [_record("ser", steps, name, statement) for name, statement in errors.items()]
    for name, statement in divergences.items():
        records.append(_record("ter_ratio", steps, name, statements.ter_ratio(statement, length)))
    if values.ser is not None:
        records.append(_estimate("ser", steps, EXACT, exactly(values.ser), "exact"))
    if values.divergence_nats is not None:
        ratio = exactly(math.exp(values.divergence_nats / length))
        records.append(_estimate("ter_ratio", steps, EXACT, ratio, "exact"))
    if values.ser is None:
        first = optimal.error_curve(language, length).ser(delta)
        records.append(_estimate("ser", steps, "first order in 1/N", first, "approximation"))
    if own is not None:
        settings: dict[str, Any] = {"schedule": delta.tolist(), "length": length, "rows": rows, "seed": seed}
        scores = metrics.rows(generate(language, sampler="ancestral", **settings), language)
        records.append(_estimate("ser", steps, MEASURED["ser"], scores.ser, "measured"))
        bound = own.divergence(delta).map(lambda nats: math.exp(nats / length))
        records.append(_estimate("ter_ratio", steps, MEASURED["ter_ratio"], bound, "measured"))
    return records


def _record(quantity: str, steps: int, name: str, statement: Statement) -> Record:
    fields = asdict(statement)
    about = {key: fields[key] for key in ("origin", "where", "assumption", "proven")}
    ends = {"value": statement.value, "low": None, "high": None}
    return {"quantity": quantity, "steps": steps, "name": name, "kind": statement.kind} | ends | about


def _estimate(quantity: str, steps: int, name: str, estimate: Estimate, kind: str) -> Record:
    ends = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    about = {"origin": "ours", "where": estimate.method, "assumption": "ideal denoiser", "proven": True}
    return {"quantity": quantity, "steps": steps, "name": name, "kind": kind} | ends | about
