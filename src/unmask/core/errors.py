"""What goes wrong, said once: every error names the thing, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class UnmaskError(Exception):
    """A mistake in what we were given. The command line prints its message and exits with code 2."""


def unknown(noun: str, name: str, known: Iterable[str]) -> UnmaskError:
    """The error for a name that is not in a list, with the nearest names first."""
    import difflib  # here: what imports `unmask` makes no mistakes, mostly

    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return UnmaskError(f"unknown {noun} {name!r}; {hint}")
