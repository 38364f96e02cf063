"""Checks of arguments: numbers, words, paths. Public functions check their arguments once; internal code does not.

Each check returns the value in the checked type, or raises an error with the argument, its value and the expectation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NoReturn

from unmask.core.errors import UnmaskError, listed, shown, unknown

INFINITY = float("inf")
FEW = 1000  # a maximum below this is shown together with the minimum
MOST = 2**63 - 1  # the largest signed integer of 64 bits
MOST_LENGTH = 2**20  # positions of a sequence
MOST_STEPS = 2**24  # the number of random numbers of a position
MOST_ROWS = 10**9  # rows that are measured block by block
MOST_THREADS = 2**12
DIGITS = 19  # of an environment variable that is read as a number


def refuse(name: str, value: Any, expected: str) -> NoReturn:
    raise UnmaskError(f"{name} is {shown(value)}; expected {expected}")


def at_most_one(options: Mapping[str, object]) -> None:
    """Raise an error if two of these options are given."""
    named = [name for name, value in options.items() if value is not None]
    if len(named) > 1:
        raise UnmaskError(f"{' and '.join(named)} exclude each other. Leave one of them out")


def whole(name: str, value: Any, least: int = 1, most: int = MOST, what: str = "") -> int:
    """An integer of Python or numpy from least to most; booleans and floats are refused."""
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is not None and least <= number <= most:
        return number
    top = "2^63 - 1" if most == MOST else str(most)
    if number is None or most < FEW:
        span = f"{least} to {top}"
    else:
        span = f"at least {least}" if number < least else f"at most {top}"
    refuse(name, value, f"{span}{what}" if number is not None else f"a whole number, {span}{what}")


def setting(name: str, usual: int, least: int = 1, most: int = MOST) -> int:
    """The whole number in an environment variable; `usual` if it is not set."""
    text = os.environ.get(name)
    if text is None:
        return usual
    return whole(name, int(text) if text.isdecimal() and len(text) <= DIGITS else text, least, most)


def number(
    name: str, value: Any, least: float = 0.0, most: float = INFINITY, *, above: bool = False, what: str = ""
) -> float:
    """A finite number from least to most, an integer of at most 64 bits; above: least itself is excluded."""
    if _is_real(value):
        real: float = int(value) if isinstance(value, Integral) else float(value)
        widest = MOST if isinstance(real, int) else sys.float_info.max
        if abs(real) <= widest and (least < real if above else least <= real) and real <= most:
            return real
    if most < INFINITY:
        span = f"a number above {least:g}, at most {most:g}" if above else f"a number from {least:g} to {most:g}"
    elif least == -INFINITY:
        span = "a finite number"
    elif least == 0:
        span = "a positive number" if above else "0 or a positive number"
    else:
        span = f"a number {'above' if above else 'of at least'} {least:g}"
    wide = isinstance(value, Integral) and abs(int(value)) > MOST
    refuse(name, value, f"{span}{what}{', a whole one of 64 bits' if wide else ''}")


def share(name: str, value: Any) -> float:
    """A number from 0 to below 1."""
    if _is_real(value) and 0 <= value < 1:
        return float(value)
    refuse(name, value, "a number from 0 to below 1")


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    refuse(name, value, "True or False")


def word(noun: str, value: Any, known: Iterable[str]) -> str:
    """One of the words that are known."""
    names = list(known)
    if not isinstance(value, str):
        refuse(noun, value, f"one of {listed(names)}")
    if value not in names:
        raise unknown(noun, value, names)
    return value


def path(name: str, value: Any) -> Path:
    """The path of a file or directory, which need not exist."""
    if not isinstance(value, str | os.PathLike):
        refuse(name, value, "a path")
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        refuse(name, value, "a path")
    return Path(text)


def of_kind(name: str, value: Any, kind: type, expected: str) -> Any:
    if isinstance(value, kind):
        return value
    refuse(name, value, expected)


def length(value: Any, name: str = "length") -> int:
    return whole(name, value, 1, MOST_LENGTH)


def steps(value: Any, name: str = "steps") -> int:
    return whole(name, value, 1, MOST_STEPS)
