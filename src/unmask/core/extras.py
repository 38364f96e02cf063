"""Packages that an extra of `unmask` brings: code that needs one says so, and how to install it.

with needed("hub", "an architecture of transformers"):
    import transformers
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unmask.core.errors import UnmaskError


class NotInstalled(UnmaskError):
    """A package of an extra cannot be imported."""


@contextmanager
def needed(extra: str, what: str, otherwise: str = "") -> Iterator[None]:
    """Imports of packages of an extra; `otherwise` says what else the user can do."""
    try:
        yield
    except ImportError as error:
        missing = f"the package {error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
        advice = f"pip install 'unmask[{extra}]'{otherwise and f', or {otherwise}'}"
        raise NotInstalled(f"{what} needs the extra {extra}: {missing}; {advice}") from error
