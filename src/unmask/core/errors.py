"""What goes wrong, said once: every error names the thing, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

SHOWN = 200  # characters of something that was given; the rest is left out
LISTED = 12  # names in a message
MESSAGE = 2000  # of a whole message


class UnmaskError(Exception):
    """A mistake in what we were given. The command line prints its message, one line, and exits with code 2."""

    def __init__(self, message: str) -> None:
        text = plain(message)
        super().__init__(text if len(text) <= MESSAGE else f"{text[: MESSAGE // 2]} .. {text[-MESSAGE // 2 :]}")


def plain(text: str) -> str:
    """The text as it can be printed anywhere: control characters, line ends and lone surrogates are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cut(text: str) -> str:
    """The text, plain, with no more of it than a message has room for."""
    return plain(text if len(text) <= SHOWN else f"{text[:SHOWN]}..")


def shown(value: Any) -> str:
    """A value as messages show it: its first characters, and of tensors and arrays the kind and the shape."""
    try:
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            if getattr(value, "ndim", 1):
                return f"{type(value).__name__} of shape {tuple(value.shape)}"
            value = value.item()
        return cut(repr(value))
    except Exception:  # whatever somebody's repr comes to; integers of more digits than Python writes
        return f"{type(value).__name__} that cannot be shown"


class Missing(UnmaskError):
    """What was asked is not known of this language; of others it is."""


def listed(names: Iterable[str]) -> str:
    """The first names, and the number of the others."""
    every = list(names)
    return ", ".join(every[:LISTED]) + (f" and {len(every) - LISTED} more" if len(every) > LISTED else "")


def unknown(noun: str, name: str, known: Iterable[str]) -> UnmaskError:
    """The error for a name that is not in a list, with the nearest names first."""
    import difflib  # here: what imports `unmask` makes no mistakes, mostly

    names = sorted(set(known))
    near = difflib.get_close_matches(name[:SHOWN].lower(), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {listed(names)}"
    return UnmaskError(f"unknown {noun} {shown(name)}; {hint}")
