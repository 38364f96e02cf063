"""Read the header of a GGUF file, the format of llama.cpp: values by name, then the positions of tensors by name.

"GGUF", version, number of tensors, number of entries; each entry: a name, a type, a value; each tensor: a name, its
sizes, the innermost first, its type, and its first byte counted from the end of the header     (all little-endian)
"""

from __future__ import annotations

import math
import os
import struct
import time
from pathlib import Path
from typing import IO, Any, NamedTuple

from unmask.core.errors import UnmaskError, cut
from unmask.core.reading import opened

MAGIC, VERSIONS = b"GGUF", (2, 3)
FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
TOKENS, MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges"
ALIGNED = "general.alignment"  # of tensors; 32 bytes by default
MOST = 2**16  # entries, tensors, and bytes of a text
LONGEST = 2**20  # values of a list
DEEPEST = 4  # sizes of a tensor
SETTLED = 2 * 10**9  # nanoseconds: two changes within one tick of the file system's clock look like one


class TensorAt(NamedTuple):
    """Shape, type and position of a tensor."""

    shape: tuple[int, ...]  # the outermost first
    kind: int
    begin: int  # byte of the file


class Header(NamedTuple):
    values: dict[str, Any]
    tensors: dict[str, TensorAt]


_parsed: dict[tuple[int, ...], Header] = {}


def read_header(path: str | Path) -> Header:
    """Return the header of a file, which callers must not change.

    Configuration, weights and tokenizer read it in turn, so the last header is cached while its file is unchanged and
    was not written just now.
    """
    with opened(path) as file:
        about = os.fstat(file.fileno())
        state = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
        if state in _parsed:
            return _parsed[state]
        try:
            header = _header(file)
            _parsed.clear()
            if time.time_ns() - about.st_mtime_ns > SETTLED:
                _parsed[state] = header
            return header
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise UnmaskError(f"{cut(str(path))} is not a complete GGUF file: {error}") from error


def read_tokens(path: str | Path) -> tuple[list[str], list[str]]:
    """Return (symbols, merges) of the file."""
    values = read_header(path).values
    for name in (TOKENS, MERGES):
        if not isinstance(listed := values.get(name), list) or not all(isinstance(one, str) for one in listed):
            raise UnmaskError(f"{cut(str(path))} has no {name}; expected a model with byte-level BPE")
    return values[TOKENS], values[MERGES]


def _header(file: IO[bytes]) -> Header:
    if file.read(4) != MAGIC:
        raise ValueError(f"it does not begin with {MAGIC.decode()}")
    version, number, count = _read(file, "IQQ")
    if version not in VERSIONS or max(count, number) > MOST:
        raise ValueError(f"version {version}, {count} entries, {number} tensors")
    values, tensors = {}, {}
    for _ in range(count):
        name = _text(file)
        values[name] = _value(file, *_read(file, "I"))
    for _ in range(number):
        name = _text(file)
        (depth,) = _read(file, "I")
        if depth > DEEPEST:
            raise ValueError(f"a tensor of {depth} dimensions")
        sizes, kind, begin = _read(file, f"{depth}Q"), *_read(file, "IQ")
        if math.prod(sizes) > 2**40:
            raise ValueError(f"a tensor of {sizes}")
        tensors[name] = TensorAt(sizes[::-1], kind, begin)
    each = values.get(ALIGNED, 32)
    if not isinstance(each, int) or not 0 < each <= MOST:
        raise ValueError(f"{ALIGNED} is {each}")
    end = -(-file.tell() // each) * each
    return Header(values, {name: tensor._replace(begin=end + tensor.begin) for name, tensor in tensors.items()})


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
