"""What the options of samplers must be, said in one way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unmask.core.errors import UnmaskError, unknown
from unmask.samplers.contract import SAMPLERS, Sampler


def number(name: str, value: float, low: float = 0.0, high: float = float("inf"), unit: str = "") -> None:
    """A finite number from low to high."""
    if low <= value <= high and abs(value) < float("inf"):
        return
    if high < float("inf"):
        expected = f"a number from {low:g} to {high:g}"
    else:
        expected = "0 or a positive number" if low == 0 else f"at least {low:g}"
    raise UnmaskError(f"{name} is {value}; expected {expected}{unit}")


def at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise UnmaskError(f"{name} is {value}; expected at least {least}")


def one_of(noun: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise unknown(noun, value, known)


def inner(holder: Any) -> None:
    """The field `inner` of a frozen dataclass: a sampler, made here where it is a name."""
    if isinstance(holder.inner, str):
        object.__setattr__(holder, "inner", SAMPLERS.make(holder.inner))
    elif not isinstance(holder.inner, Sampler):
        raise UnmaskError(f"inner is {holder.inner!r}; expected a sampler, or the name of one")


def made(sampler: str | Sampler) -> Sampler:
    """The field that `inner` has made sure of, as what it is."""
    assert isinstance(sampler, Sampler)
    return sampler
