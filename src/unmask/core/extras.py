"""Packages of the optional extras of `unmask`: the error for a missing one shows how to install it.

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
    """Guard the imports of an extra's packages; `otherwise` is an alternative for the user."""
    try:
        yield
    except ImportError as error:
        missing = f"the package {error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
        advice = f"pip install 'unmask[{extra}]'{otherwise and f', or {otherwise}'}"
        raise NotInstalled(f"{what} needs the extra {extra}: {missing}; {advice}") from error
