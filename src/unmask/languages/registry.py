"""The kinds of languages by name: ours, and those that installed packages offer as entry points of `unmask.languages`.

A language's file names its kind, and only a kind that is here: a file holds numbers, and never says what to import.
"""

from __future__ import annotations

from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry
from unmask.languages.base import Language


def check_kind(kind: type, label: str) -> None:
    """An error unless this is a class of languages that says all that a language must."""
    if not issubclass(kind, Language):
        raise UnmaskError(f"{label} is no language but {kind.__name__}; derive it from unmask.languages.Language")
    missing = sorted(kind.__abstractmethods__) + ([] if hasattr(kind, "kind") else ["kind"])
    if missing:
        what = "a language has a kind, parameters and log_evidence"
        raise UnmaskError(f"{label} does not say its {' and '.join(missing)}; {what}")


LANGUAGES: Registry[Language] = Registry("kind of language", "unmask.languages", check_kind, (Language,))
