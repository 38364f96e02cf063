"""One documented JSON form a kind; what is wrong in a file is said with its place."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError, unknown
from unmask.core.files import read_json
from unmask.languages.base import Language
from unmask.languages.presets import PRESETS, preset
from unmask.languages.registry import LANGUAGES


def from_dict(content: Any, normalise: bool = False) -> Language:
    """The language of its JSON form; `normalise` divides rows by their sums instead of refusing them."""
    if not isinstance(content, dict) or "kind" not in content:
        known = ", ".join(LANGUAGES.names())
        raise UnmaskError(f"a language is a JSON object with a key 'kind': one of {known}")
    values = dict(content)
    kind = values.pop("kind")
    values.pop("origin", None)
    if not isinstance(kind, str) or ":" in kind:  # a file holds numbers, and never says what to import
        raise unknown("kind of language", str(kind), LANGUAGES.names())
    cls = LANGUAGES.find(kind)
    names = values.pop("names", None)
    expected = {name: p for name, p in inspect.signature(cls).parameters.items() if name not in ("names", "normalise")}
    for name in values:
        if name not in expected:
            raise unknown(f"key in a language of kind {kind!r}:", name, expected)
    for name, parameter in expected.items():
        if name not in values and parameter.default is inspect.Parameter.empty:
            raise UnmaskError(f"a language of kind {kind!r} needs the key {name!r}; expected {', '.join(expected)}")
        wanted = str(parameter.annotation)
        if name in values and wanted.startswith(("int", "float", "bool")) and not _fits(values[name], wanted):
            raise UnmaskError(f"{name} is {values[name]!r} in a language of kind {kind!r}; expected {wanted}")
    if "normalise" in inspect.signature(cls).parameters:
        values["normalise"] = normalise
    language = cls(**values)
    LANGUAGES.check(type(language), f"kind of language {kind!r}")
    if language.kind != kind:  # or what it writes would be read as another
        raise UnmaskError(f"the kind of language {kind!r} calls itself {language.kind!r}; give it one name")
    if names is not None:
        if not isinstance(names, list):
            raise UnmaskError(f"names is {type(names).__name__}; expected a list of strings, one a token")
        language.name_tokens(names)
    return language


def _fits(value: Any, wanted: str) -> bool:
    if value is None:
        return "None" in wanted
    if isinstance(value, bool) or wanted.startswith("bool"):
        return isinstance(value, bool) and wanted.startswith("bool")
    return isinstance(value, int) or (isinstance(value, float) and wanted.startswith("float"))


def load(source: str | Path, *, seed: int = 0, pruned: bool = True, normalise: bool = False) -> Language:
    """A preset by its name, a language of a JSON file, or one of a kind with options: "modular-sum(modulus=7)".

    A kind may be one that an installed package offers, or "package.module:Name".
    """
    path = arguments.path("language", source)
    if str(source) in PRESETS:
        if normalise:
            raise UnmaskError(f"{source} is a preset, whose rows sum to 1 already; normalise is for files")
        return preset(str(source), seed, pruned)
    if not path.exists():
        if "(" in str(source) or ":" in str(source) or str(source) in LANGUAGES.names():
            if normalise or not pruned:
                what = "normalise is for files, pruned=False (--no-pruned) for random presets"
                raise UnmaskError(f"{source} is what its options say; {what}")
            return LANGUAGES.make(str(source))
        raise unknown("language (neither a file nor a preset):", str(source), [*PRESETS, *LANGUAGES.names()])
    if not pruned:
        raise UnmaskError(
            f"{path} is a file and has the support it has; pruned=False (--no-pruned) is for random presets"
        )
    try:
        return from_dict(read_json(path), normalise)
    except UnmaskError as error:
        raise error if str(path) in str(error) else UnmaskError(f"{path}: {error}") from error
