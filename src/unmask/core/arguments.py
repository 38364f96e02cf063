"""What is checked where something comes in: numbers, words, paths; once, at the door, and in one way of saying it.

Each returns what it was given, as the type that it is checked to be, or raises an error that names the argument, shows
what stands there and says what was expected. Nothing inside the house asks again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NoReturn

from unmask.core.errors import UnmaskError, listed, shown, unknown

INFINITY = float("inf")
FEW = 1000  # so small a number is named with the least
MOST = 2**63 - 1  # what 64 bits with a sign hold
MOST_LENGTH = 2**20  # positions of a sequence
MOST_STEPS = 2**24  # rounds: the luck of a place has as many numbers
MOST_ROWS = 10**9  # of what is measured block by block, and never held at once
MOST_THREADS = 2**12
DIGITS = 19  # of a number that one needs to read


def refuse(name: str, value: Any, expected: str) -> NoReturn:
    raise UnmaskError(f"{name} is {shown(value)}; expected {expected}")


def whole(name: str, value: Any, least: int = 1, most: int = MOST, what: str = "") -> int:
    """An integer from least to most, of Python or numpy; no truth value, and no number with a point."""
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
    """The whole number that a variable of the environment says; `usual` where it says nothing."""
    said = os.environ.get(name)
    if said is None:
        return usual
    return whole(name, int(said) if said.isdecimal() and len(said) <= DIGITS else said, least, most)


def number(
    name: str, value: Any, least: float = 0.0, most: float = INFINITY, *, above: bool = False, what: str = ""
) -> float:
    """A finite number from least to most, a whole one of 64 bits; above: and not least itself."""
    if _is_real(value):
        found: float = int(value) if isinstance(value, Integral) else float(value)
        widest = MOST if isinstance(found, int) else sys.float_info.max
        if abs(found) <= widest and (least < found if above else least <= found) and found <= most:
            return found
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
    """Where a file or directory is, or shall be."""
    if not isinstance(value, str | os.PathLike):
        refuse(name, value, "a path")
    text = os.fspath(value)
    if not isinstance(text, str) or not text or "\0" in text:
        refuse(name, value, "a path")
    return Path(text)


def of_kind(name: str, value: Any, kind: type, expected: str) -> Any:
    """Something of a class."""
    if isinstance(value, kind):
        return value
    refuse(name, value, expected)


def length(value: Any, name: str = "length") -> int:
    return whole(name, value, 1, MOST_LENGTH)


def steps(value: Any, name: str = "steps") -> int:
    return whole(name, value, 1, MOST_STEPS)
