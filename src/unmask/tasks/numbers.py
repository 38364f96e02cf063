"""Numbers in texts, as people write them: $1,234.50."""

from __future__ import annotations

import re
from fractions import Fraction

NUMBER = re.compile(r"-?\$?(?:\d(?:[\d,]*\d)?(?:\.\d+)?|\.\d+)")  # a dash and a space before it are no sign


def value(text: str) -> Fraction | None:
    """What a text says that is a number and nothing else; None of any other."""
    plain = text.strip().rstrip(".").replace("$", "").replace(",", "").replace(" ", "")
    return Fraction(plain) if re.fullmatch(r"-?(\d+(\.\d*)?|\.\d+)", plain) and len(plain) < 100 else None


def last(text: str) -> str | None:
    """The last number of a text, as it stands there."""
    found = NUMBER.findall(text)
    return found[-1] if found else None
