"""Regular expressions of JSON strings: between the quotes, a character is itself, or one of seven short escapes.

JSON Schema finds a pattern anywhere in a string, so that only ^ and $ at its ends tie it to them.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from itertools import pairwise
from re import _compiler, _parser  # type: ignore[attr-defined, unused-ignore]  # as patterns.py does
from typing import Any

from unmask.core.errors import UnmaskError, shown

ESCAPES = {sign: re.escape(json.dumps(sign)[1:-1]) for sign in '"\\\b\f\n\r\t'}
CHARACTER = r'([^"\\\x00-\x1f]|\\["\\bfnrt])'
SURROGATES, BEYOND = range(0xD800, 0xE000), 0x110000  # code points that are no characters
LINES = _parser.parse("[^\n\r\u2028\u2029]")[0]  # what a point is in JavaScript
BEGIN, FINISH = _parser.parse("^$")
EXPECTED = "expected characters, classes, groups, | and counts, and ^ and $ at the ends"
SET_WORK = 2**10  # steps to find the characters of a set


class Quoted:
    """The pattern of a string. spend: counts steps, and raises an error where they are too many."""

    def __init__(self, pattern: str, spend: Callable[[int], None]) -> None:
        self.pattern, self.spend = pattern, spend
        self.known: dict[str, str] = {}  # the texts of sets
        spend(4 * len(pattern))
        try:
            with warnings.catch_warnings(action="ignore", category=FutureWarning):
                self.tree = _parser.parse(pattern, re.ASCII)
        except (re.error, RecursionError, OverflowError, ValueError) as error:
            raise UnmaskError(f"the pattern {shown(pattern)} cannot be read: {error}; {EXPECTED}") from error
        if self.tree.state.flags != re.ASCII:
            raise UnmaskError(f"the pattern {shown(pattern)} has flags; {EXPECTED}")

    def between(self, least: int, most: int | None) -> str | None:
        """The regular expression of the strings with least .. most characters, or None if there is none."""
        items = [*self.tree]
        if least or most is not None:
            repeated = len(items) == 3 and items[::2] == [BEGIN, FINISH] and "_REPEAT" in str(items[1][0])
            if not repeated or items[1][1][2].getwidth() != (1, 1):
                raise UnmaskError(
                    f"the pattern {shown(self.pattern)} has limits of the length beside it",
                    "expected them only beside one set with a count, as in ^[a-z]*$",
                )
            operation, (low, high, part) = items[1]
            low = max(low, least)
            if most is not None:
                high = min(high, most)
            if low > high:
                return None
            items[1] = (operation, (low, high, part))
        return self.text(items, True, True)

    def text(self, items: Any, left: bool = False, right: bool = False) -> str:
        """Parts in a row. left, right: whether this is an end of the string, which any characters may precede."""
        items = [*items]
        if left and items[:1] == [BEGIN]:
            items, left = items[1:], False
        if right and items[-1:] == [FINISH]:
            items, right = items[:-1], False
        if len(items) == 1 and str(items[0][0]) in ("BRANCH", "SUBPATTERN"):
            return self.item(items[0], left, right)
        return f"{CHARACTER}*" * left + "".join(map(self.item, items)) + f"{CHARACTER}*" * right

    def item(self, part: Any, left: bool = False, right: bool = False) -> str:
        operation, value = part
        match str(operation):
            case "LITERAL":
                return ESCAPES.get(chr(value)) or re.escape(json.dumps(chr(value), ensure_ascii=False)[1:-1])
            case "NOT_LITERAL" | "IN" | "ANY":
                return self.set_of(part)
            case "BRANCH":
                return f"({'|'.join(self.text(one, left, right) for one in value[1])})"
            case "SUBPATTERN" if not value[1] and not value[2]:  # without flags of its own
                return f"({self.text(value[3], left, right)})"
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, part = value
                return f"({self.text(part)}){{{least},{'' if most is _parser.MAXREPEAT else most}}}"
        raise UnmaskError(f"the pattern {shown(self.pattern)} has {str(operation).lower()}; {EXPECTED}")

    def set_of(self, part: Any) -> str:
        """A set of characters: the bare ones by their ranges, and the escapes."""
        name = repr(part)
        if name not in self.known:
            self.spend(SET_WORK)
            if str(part[0]) == "ANY":
                part = LINES
            one = _compiler.compile(_parser.SubPattern(self.tree.state, [part]), re.ASCII)
            ends = {end + more for end in map(int, re.findall(r"\b[0-9]+", repr(part))) for more in (0, 1)}
            ends |= {
                *range(0x20, 0x81),
                SURROGATES.start,
                SURROGATES.stop,
                BEYOND,
            }  # within ASCII, classes may change anywhere
            ranges: list[tuple[int, int]] = []
            for begin, end in pairwise(sorted(end for end in ends if 0x20 <= end <= BEYOND)):
                if begin not in SURROGATES and chr(begin) not in ESCAPES and one.fullmatch(chr(begin)):
                    if ranges and ranges[-1][1] == begin:
                        begin, _ = ranges.pop()
                    ranges.append((begin, end))
            bare = "".join(f"{re.escape(chr(begin))}-{re.escape(chr(end - 1))}" for begin, end in ranges)
            texts = [f"[{bare}]"] * bool(bare) + [ESCAPES[sign] for sign in ESCAPES if one.fullmatch(sign)]
            if not texts:
                raise UnmaskError(f"the pattern {shown(self.pattern)} has a set without characters; {EXPECTED}")
            self.known[name] = f"({'|'.join(texts)})"
        return self.known[name]
