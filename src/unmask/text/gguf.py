"""The symbols and merges of a model in a GGUF file: names with values, of which two lists of texts are kept.

"GGUF", version, number of tensors, number of entries; each: a name, a type, a value     (all little-endian)
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, Any

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import opened

MAGIC, VERSIONS = b"GGUF", (2, 3)
FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
TOKENS, MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges"
MOST = 2**16  # entries, and bytes of a text
LONGEST = 2**20  # values of a list


def read_tokens(path: str | Path) -> tuple[list[str], list[str]]:
    """(symbols, merges) that stand in the file; its tensors are not read."""
    with opened(path) as file:
        try:
            found = _entries(file)
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise UnmaskError(f"{cut(str(path))} is no complete GGUF file: {error}") from error
    for name in (TOKENS, MERGES):
        if name not in found:
            raise UnmaskError(f"{cut(str(path))} has no {name}; expected a model with byte-level BPE")
    return found[TOKENS], found[MERGES]


def _entries(file: IO[bytes]) -> dict[str, list[str]]:
    if file.read(4) != MAGIC:
        raise ValueError("it does not begin like one")
    version, _, count = _read(file, "IQQ")
    if version not in VERSIONS or count > MOST:
        raise ValueError(f"version {version}, {count} entries")
    found = {}
    for _ in range(count):
        name = _text(file)
        value = _value(file, *_read(file, "I"))
        if name in (TOKENS, MERGES):
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                raise ValueError(f"{name} is no list of texts")
            found[name] = value
    return found


def _value(file: IO[bytes], kind: int) -> Any:
    if kind == TEXT:
        return _text(file)
    if kind == LIST:
        inner, count = _read(file, "IQ")
        if count > LONGEST:
            raise ValueError(f"a list of {count} values")
        if inner in FIXED:
            return list(_read(file, f"{count}{FIXED[inner]}"))
        if inner == TEXT:
            return [_text(file) for _ in range(count)]
        raise ValueError(f"a list of values of type {inner}")
    if kind in FIXED:
        return _read(file, FIXED[kind])[0]
    raise ValueError(f"a value of type {kind}")


def _text(file: IO[bytes]) -> str:
    (size,) = _read(file, "Q")
    if size > MOST:
        raise ValueError(f"a text of {size} bytes")
    if len(raw := file.read(size)) < size:
        raise ValueError("it ends within a text")
    return raw.decode()


def _read(file: IO[bytes], form: str) -> tuple[Any, ...]:
    form = f"<{form}"
    return struct.unpack(form, file.read(struct.calcsize(form)))
