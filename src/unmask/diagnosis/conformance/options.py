"""Check that each option of a sampler has an effect: other values are tried until a result differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from unmask.core.errors import UnmaskError
from unmask.diagnosis.conformance.cases import cases
from unmask.diagnosis.conformance.exam import Exam
from unmask.samplers import Generation, Sampler, generate

SEEN = ("tokens", "order", "model_calls")
TRIED = ((0, 9), (1, 4), (0, 4))  # cases, and numbers of steps
MOST = 8  # rows


def options(exam: Exam) -> None:
    """Warn of each option, a field of a dataclass, if no other value changes a token, a step or a count.

    Only numbers and flags are tried. Some options have an effect only on larger models or longer rows.
    """
    sampler: Any = exam.sampler
    own = [one.name for one in fields(sampler) if one.init] if is_dataclass(sampler) else []
    for option in own:
        tried, changed = [], False
        for value in _others(getattr(sampler, option)):
            try:
                other = replace(sampler, **{option: value})
                changed = _differs(exam, other)
            except UnmaskError:
                continue
            tried.append(value)
            if changed:
                break
        exam.done += bool(tried)
        if tried and not changed:
            exam.warnings.append(f"{option} has no effect on small languages: tried {', '.join(map(repr, tried))}")


def _others(value: Any) -> Iterator[Any]:
    """Other values of the same type."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (each for each in dict.fromkeys((value + 1, 1, 2, 2 * value, 0)) if each != value)
    elif isinstance(value, float):
        yield from (each for each in dict.fromkeys((0.5, 0.0, 1.0, value / 2, 2 * value)) if each != value)


def _differs(exam: Exam, other: Sampler) -> bool:
    for number, steps in TRIED:
        one = exam.once(("options", number, steps), partial(_rows, exam.sampler, number, steps))
        again = _rows(other, number, steps)
        if any(not getattr(one, name).equal(getattr(again, name)) for name in SEEN):
            return True
    return False


def _rows(sampler: Sampler, number: int, steps: int) -> Generation:
    case = cases(sampler.removes)[number]
    return generate(case.denoiser, sampler=sampler, length=case.length, steps=steps, rows=MOST, seed=1)
