"""One documented JSON form a kind; what is wrong in a file is said with its place."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from unmask.errors import UnmaskError, unknown
from unmask.files import origin, read_json, write_json
from unmask.languages.base import Language
from unmask.languages.brackets import Brackets
from unmask.languages.hmm import HMM
from unmask.languages.interval import Interval
from unmask.languages.modular_sum import ModularSum
from unmask.languages.ngram import NGram
from unmask.languages.presets import PRESETS, preset

KINDS: dict[str, type[Language]] = {kind.kind: kind for kind in (HMM, NGram, Interval, ModularSum, Brackets)}


def from_dict(content: Any, normalise: bool = False) -> Language:
    """The language of its JSON form; `normalise` divides rows by their sums instead of refusing them."""
    if not isinstance(content, dict) or "kind" not in content:
        raise UnmaskError(f"a language is a JSON object with a key 'kind': one of {', '.join(KINDS)}")
    values = dict(content)
    kind = values.pop("kind")
    values.pop("origin", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise unknown("kind of language", str(kind), KINDS)
    cls = KINDS[kind]
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
    """A language from a JSON file, or a preset by its name."""
    if str(source) in PRESETS:
        if normalise:
            raise UnmaskError(f"{source} is a preset, whose rows sum to 1 already; normalise is for files")
        return preset(str(source), seed, pruned)
    path = Path(source)
    if not path.exists():
        raise unknown("language (neither a file nor a preset):", str(source), PRESETS)
    if not pruned:
        raise UnmaskError(f"{path} is a file and has the support it has; unpruned is for random presets")
    try:
        return from_dict(read_json(path), normalise)
    except UnmaskError as error:
        raise error if str(path) in str(error) else UnmaskError(f"{path}: {error}") from error


def save(language: Language, path: str | Path) -> None:
    write_json(path, language.to_dict() | {"origin": origin()})
