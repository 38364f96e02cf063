"""Checks of arguments: numbers, words, paths. Public functions check their arguments once; internal code does not.

Each check returns the value in the checked type, or raises an error with the argument, its value and the expectation.

This module imports no torch, because every command needs it at its start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn, TypeVar, cast

from unmask.core import entries
from unmask.core.errors import UnmaskError, listed, shown, unknown

Function = TypeVar("Function", bound=Callable[..., Any])
INFINITY = float("inf")
FEW = 1000  # a maximum below this is shown together with the minimum
MOST = 2**63 - 1  # the largest signed integer of 64 bits
MOST_LENGTH = 2**20  # positions of a sequence
MOST_STEPS = 2**24  # the number of random numbers of a position
MOST_ROWS = 10**9  # rows that are measured block by block
MOST_THREADS = 2**12

# what a number is, if it is above the least one, or from it on
WITHIN = {True: "a number above {:g}, at most {:g}", False: "a number from {:g} to {:g}"}
FROM_ZERO = {True: "a positive number", False: "0 or a positive number"}
FROM_LEAST = {True: "a number above {:g}", False: "a number of at least {:g}"}


def refuse(name: str, value: Any, expected: str) -> NoReturn:
    raise UnmaskError(f"{name} is {shown(value)}; expected {expected}")


def at_most_one(options: Mapping[str, object]) -> None:
    """Raise an error if two of these options are given."""
    named = list(entries.given(options))
    if len(named) > 1:
        raise UnmaskError(f"{' and '.join(named)} exclude each other. Leave one of them out")


def changed(options: Any, **usual: Any) -> dict[str, Any]:
    """The fields of a record of options that differ from their usual value, by the names of their flags."""
    default = replace(type(options)(), **usual)
    names = [field.name for field in fields(options) if getattr(options, field.name) != getattr(default, field.name)]
    return {f"no_{name}" if getattr(default, name) is True else name: getattr(options, name) for name in names}


def whole(name: str, value: Any, least: int = 1, most: int = MOST, what: str = "") -> int:
    """An integer of Python or numpy from least to most; booleans and floats are refused."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        refuse(name, value, f"a whole number, {least} to {_top(most)}{what}")

    number = int(value)
    if least <= number <= most:
        return number
    if most < FEW:
        refuse(name, value, f"{least} to {_top(most)}{what}")
    if number < least:
        refuse(name, value, f"at least {least}{what}")
    refuse(name, value, f"at most {_top(most)}{what}")


def _top(most: int) -> str:
    return "2^63 - 1" if most == MOST else str(most)


def number(
    name: str, value: Any, least: float = 0.0, most: float = INFINITY, *, above: bool = False, what: str = ""
) -> float:
    """A finite number from least to most, an integer of at most 64 bits; above: least itself is excluded."""
    if isinstance(value, Real) and not isinstance(value, bool):
        real: float = int(value) if isinstance(value, Integral) else float(value)
        widest = MOST if isinstance(real, int) else sys.float_info.max
        enough = real > least or (real == least and not above)
        if abs(real) <= widest and enough and real <= most:
            return real

    if most < INFINITY:
        span = WITHIN[above].format(least, most)
    elif least == -INFINITY:
        span = "a finite number"
    elif least == 0:
        span = FROM_ZERO[above]
    else:
        span = FROM_LEAST[above].format(least)
    if isinstance(value, Integral) and abs(int(value)) > MOST:
        what = f"{what}, a whole one of 64 bits"
    refuse(name, value, f"{span}{what}")


def share(name: str, value: Any) -> float:
    """A number from 0 to below 1."""
    if isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < 1:
        return float(value)
    refuse(name, value, "a number from 0 to below 1")


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


def of_kind(name: str, value: Any, kind: type | UnionType, expected: str) -> Any:
    if isinstance(value, kind):
        return value
    refuse(name, value, expected)


def texts(name: str, value: Any, expected: str) -> Any:
    """Several texts; a single one is refused, although its letters are texts."""
    if isinstance(value, str) or not all(isinstance(one, str) for one in value):
        refuse(name, value, expected)
    return value


def named(**aliases: str) -> Callable[[Function], Function]:
    """A function whose error for a wrong keyword has the nearest right one, or that of an alias from elsewhere."""

    def wrap(function: Function) -> Function:
        known = signature(function).parameters

        @wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            for name in options.keys() - known.keys():
                if name in aliases:
                    raise UnmaskError(
                        f"unknown argument {name!r} of {function.__name__}; did you mean {aliases[name]}?"
                    )
                raise unknown(f"argument of {function.__name__}:", name, known)
            return function(*arguments, **options)

        return cast(Function, call)

    return wrap


def length(value: Any, name: str = "length") -> int:
    return whole(name, value, 1, MOST_LENGTH)


def steps(value: Any, name: str = "steps") -> int:
    return whole(name, value, 1, MOST_STEPS)
