"""Languages of specs and of files: presets with options, kinds, and JSON files with one documented form per kind."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

import msgspec

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, unknown
from unmask.core.reading import fit, read_json
from unmask.languages.base import LANGUAGES, LONGEST_NAME, Language
from unmask.languages.presets import PRESETS

MOST = 2**29  # bytes of the largest table of an n-gram, with all digits
LANGUAGE = "a spec such as 'paper-2gram', a language file, or a language"
LanguageLike = Language | str | Path
PLAIN = {int, float, str, bool, NoneType}
Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]


def from_dict(content: Any, normalise: bool = False) -> Language:
    """The language with this JSON form; `normalise` divides rows by their sums instead of refusing them."""
    if not isinstance(content, dict) or "kind" not in content:
        known = ", ".join(LANGUAGES.names())
        raise UnmaskError(f"this is not a language; expected a JSON object with a key 'kind': one of {known}")
    kind = content["kind"]
    if not isinstance(kind, str) or ":" in kind:  # a file cannot cause an import
        raise unknown("kind of language", str(kind), LANGUAGES.names())

    cls = LANGUAGES.find(kind)
    given = entries.without(content, ["kind"])
    values = msgspec.structs.asdict(fit(given, _schema(cls), f"a language of kind {kind!r}"))
    values = {name: value for name, value in values.items() if value is not msgspec.UNSET}
    values.pop("origin", None)
    names = values.pop("names", None)

    if "normalise" in inspect.signature(cls).parameters:
        values["normalise"] = normalise

    language = cls(**values)
    LANGUAGES.check(type(language), f"kind of language {kind!r}")
    if language.kind != kind:  # otherwise its files would be read as another kind
        raise UnmaskError(f"the kind of language {kind!r} has the attribute kind {language.kind!r}; use one name")
    return language if names is None else language.named(names)


@cache
def _schema(cls: Callable[..., Language]) -> type[msgspec.Struct]:
    """The schema of a file of this kind, from the parameters of its class.

    The class itself checks values of types that are not plain, such as tables.
    """
    try:
        signature = inspect.signature(cls, eval_str=True)
    except Exception:  # any error that foreign annotations raise
        signature = inspect.signature(cls)

    needed: list[tuple[str, Any]] = []
    others: list[tuple[str, Any, Any]] = [("names", list[Name] | None, None), ("origin", Any, None)]
    for name, parameter in signature.parameters.items():
        if name in ("names", "origin", "normalise"):
            continue

        hint = parameter.annotation
        plain = hint in PLAIN or (get_origin(hint) is UnionType and set(get_args(hint)) <= PLAIN)
        kind = hint if plain else Any
        if parameter.default is inspect.Parameter.empty:
            needed.append((name, kind))
        else:
            others.append((name, kind, msgspec.UNSET))

    return msgspec.defstruct(cls.__name__, [*needed, *others], forbid_unknown_fields=True, kw_only=True)


def load(source: LanguageLike, *, normalise: bool = False) -> Language:
    """The language of a spec such as "sparse-hmm(seed=3)" or "modular-sum(modulus=7)", or of a JSON file.

    A spec names a preset or a kind; a kind may come from an installed package, or be "package.module:Name".
    normalise: divide the rows of a file's tables by their sums.
    """
    if isinstance(source, Language):
        return source
    arguments.of_kind("language", source, str | Path, LANGUAGE)

    spec = str(source)
    name = spec.partition("(")[0].strip()
    registry = PRESETS if name in PRESETS.makers else None  # presets first, then files, then kinds
    if registry is None and not os.path.exists(path := arguments.path("language", source)):
        registry = LANGUAGES
        if ":" not in name and name not in LANGUAGES.names():
            raise unknown("language (neither a file nor a preset):", spec, [*PRESETS.names(), *LANGUAGES.names()])

    if registry is not None:
        if normalise:
            raise UnmaskError(f"{spec} is not a file, and its rows sum to 1; leave out normalise")
        return registry.make(spec)
    try:
        return from_dict(read_json(path, most=MOST), normalise)
    except UnmaskError as error:
        raise error if str(path) in str(error) else UnmaskError(f"{path}: {error}") from error
