"""Regular expressions of the decimal numbers between two bounds, as JSON writes them without an exponent.

A range is cut by the number of digits behind the point, then by the number in front of it. Texts of one shape are in
the order of their numbers, so that they are cut at the first digit that differs. No text is `-0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor, inf

MOST_DIGITS = 40  # of a bound: in front of the point, and behind it
Bound = tuple[Fraction, bool] | None  # of x, or of -x: the least value, and whether it is itself left out


def digits_behind(value: Fraction) -> int:
    """The least number of digits behind the point that writes a decimal number."""
    return next(count for count in range(MOST_DIGITS + 1) if not value * 10**count % 1)


def least(bound: Bound, count: int) -> int | float:
    """The least number that a bound allows, in units of the digit which is `count` behind the point, or -inf."""
    if bound is None:
        return -inf
    value, beyond = bound
    return floor(value * 10**count) + 1 if beyond else ceil(value * 10**count)


def numbers(low: Bound, minus_high: Bound, places: int) -> Iterator[str]:
    """The parts of an alternative: numbers between the bounds, with at most this number of digits behind the point."""
    for count in range(places + 1):
        first = least(low, count)
        minus_last = least(minus_high, count)
        yield from fixed(max(first, 0), -minus_last, count)
        for one in fixed(max(minus_last, 1), -first, count):
            yield f"-{one}"


def fixed(first: float, last: float, count: int) -> Iterator[str]:
    """The numbers from first (0 or more) to last (or inf), in units of the digit which is `count` behind the point."""
    shortest = max(len(str(first)), count + 1)
    longest = shortest if last == inf else len(str(last).zfill(count + 1))
    for length in range(shortest, longest + 1):
        low = max(int(first), 10 ** (length - 1) if length > count + 1 else 0)
        high = int(min(last, 10**length - 1))
        if low <= high:
            yield between(written(low, count), written(high, count))
    if last == inf:
        yield f"[1-9][0-9]{{{longest - count},}}" + every(written(0, count)[1:])


def written(value: int, count: int) -> str:
    """A number with a point, if digits are behind it."""
    digits = str(value).zfill(count + 1)
    return f"{digits[:-count]}.{digits[-count:]}" if count else digits


def between(low: str, high: str) -> str:
    """The texts from low to high, of one shape: digits, and a point in the same position."""
    if low == high:
        return re.escape(low)
    if low[0] == high[0]:
        return re.escape(low[0]) + between(low[1:], high[1:])

    first, after = int(low[0]), low[1:]
    last, before = int(high[0]), high[1:]
    parts = []
    if after.strip("0."):
        parts.append(low[0] + between(after, re.sub("[0-9]", "9", after)))
        first += 1
    if before.strip("9."):
        parts.append(high[0] + between(re.sub("[0-9]", "0", before), before))
        last -= 1
    if first <= last:
        parts.append(f"[{first}-{last}]" + every(before))
    return f"({'|'.join(parts)})"


def every(shape: str) -> str:
    """All texts of a shape."""
    return re.sub("[0-9]+", lambda digits: f"[0-9]{{{len(digits[0])}}}", shape.replace(".", r"\."))
