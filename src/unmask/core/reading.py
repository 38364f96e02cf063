"""Reading of all files: limited in size, decoded, and checked by a schema before anything is used.

Files are not trusted. A file is checked before it is opened (a pipe would block, a sparse file can have gigabytes of
zeros) and read up to a limit. Decoding is strict: limited depth, 64-bit integers, finite numbers, Unicode text, unique
keys. Then msgspec converts the value to the schema: a `msgspec.Struct`, or a type with limits by `msgspec.Meta`. The
only conversion between types is from integers to floats. msgspec is imported with the first schema, to keep
`unmask --help` fast.

`read_json`, `read_yaml` and `read_lines` read a file; `from_json` and `from_yaml` read a string; `fit` converts a plain
value. Each raises an UnmaskError of one line, with the file and the position in it.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

from unmask.core.errors import UnmaskError, cut, shown, unknown
from unmask.core.memory import size

MOST = 2**26  # bytes of a file (default)
MOST_YAML = 2**20  # bytes; YAML files are written by hand
PIECE = 2**24  # bytes that are read at once
DEPTH = 64  # levels of nested lists and mappings
NODES = 10**5  # values of a YAML file, where an alias counts with all its values
WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a mapping of names to values",
}
KINDS = {
    stat.S_ISDIR: "a directory",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISLNK: "a link that leads to itself",
}


def read_json(path: str | Path, schema: Any = Any, most: int = MOST) -> Any:
    """The content of a JSON file of at most `most` bytes, converted to the schema."""
    return from_json(read_text(path, most), schema, str(path))


def read_yaml(path: str | Path, schema: Any = Any, most: int = MOST_YAML) -> Any:
    """The content of a YAML file, in the types of JSON, converted to the schema."""
    return from_yaml(read_text(path, most), schema, str(path))


def read_lines(path: str | Path, schema: Any = Any, most: int = MOST) -> Iterator[tuple[int, Any]]:
    """(number, content) of each line of a JSON Lines file that is not blank."""
    import msgspec

    decoder = msgspec.json.Decoder(schema)
    for number, line in enumerate(read_text(path, most).split("\n"), 1):
        if not line or line.isspace():
            continue
        try:
            yield number, decoder.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeError):  # the slower reader reports the position
            yield number, from_json(line, schema, f"{path}, line {number}")


def read_text(path: str | Path, most: int = MOST) -> str:
    """The text of a file, without a byte order mark."""
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnmaskError(f"cannot read {cut(str(path))}: byte {error.start} is not UTF-8 text") from error


def read_bytes(path: str | Path, most: int = MOST) -> bytes:
    """The bytes of a regular file, at most `most`."""
    pieces, left = [], most + 1
    with opened(path, most) as file:
        while left and (piece := file.read(min(left, PIECE))):  # in pieces, so that a small file needs little memory
            pieces.append(piece)
            left -= len(piece)
    content = b"".join(pieces)
    if len(content) > most:  # it has grown, or its size is unknown, as in /proc
        raise UnmaskError(_too_large(path, f"over {size(most)}", most))
    return content


@contextmanager
def opened(path: str | Path, most: int | None = None) -> Iterator[IO[bytes]]:
    """Open a regular file of at most `most` bytes for reading; an error of the system becomes an UnmaskError."""
    check_file(path, most)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            yield file
    except OSError as error:
        raise UnmaskError(f"cannot read {cut(str(path))}: {error.strerror or error}") from error


def check_file(path: str | Path, most: int | None = None) -> int:
    """The size of a regular file in bytes, without opening it; an error if it is larger, or not a regular file."""
    try:
        status = os.stat(path)
    except OSError as error:
        reason = "its name is too long" if error.errno == errno.ENAMETOOLONG else error.strerror
        raise UnmaskError(f"cannot read {cut(str(path))}: {reason}") from error
    except ValueError as error:  # a NUL, or half of a pair of surrogates
        raise UnmaskError(f"cannot read {cut(str(path))}: no file can have that name") from error
    if kind := no_file(status.st_mode):
        raise UnmaskError(f"cannot read {cut(str(path))}: it is {kind}; expected a file")
    if most is not None and status.st_size > most:
        raise UnmaskError(_too_large(path, size(status.st_size), most))
    return status.st_size


def no_file(mode: int) -> str | None:
    """The kind of a file that is not regular, from `st_mode`; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((kind for is_kind, kind in KINDS.items() if is_kind(mode)), "not a regular file")


def from_json(text: str | bytes, schema: Any = Any, where: str = "the text") -> Any:
    """The content of a JSON text, converted to the schema; `where` is its name in errors."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        if sum(map(error.doc.count, "[{")) > DEPTH + sum(map(error.doc.count, "]}")):
            raise UnmaskError(_too_deep(where)) from error  # json itself refuses them only from some depth on
        column = f"column {error.colno}"
        position = column if re.search(r", line \d+$", where) else f"line {error.lineno}, {column}"
        ends = " (the file ends there: is it truncated?)" if error.pos >= len(text.rstrip()) else ""
        raise UnmaskError(f"{cut(where)} is not JSON: {error.msg} at {position}{ends}") from error
    except UnicodeDecodeError as error:
        raise UnmaskError(f"cannot read {cut(where)}: byte {error.start} is not UTF-8 text") from error
    except RecursionError as error:
        raise UnmaskError(_too_deep(where)) from error
    except ValueError as error:
        reason = "an integer of thousands of digits" if "digits" in str(error) else str(error)
        raise UnmaskError(f"cannot read {cut(where)}: {reason}") from error
    _check_plain(value, where)
    return fit(value, schema, where)


def from_yaml(text: str, schema: Any = Any, where: str = "the text") -> Any:
    """The content of a YAML text, converted to the schema; only types of JSON: no dates, octals or merged mappings."""
    from unmask.core import yaml  # here, to keep `unmask --help` fast

    try:
        value = yaml.parse(text, DEPTH)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise UnmaskError(f"{cut(where)} is not YAML{position}: {reason}") from error
    except (ValueError, OverflowError, RecursionError) as error:  # a code beyond Unicode, or too many brackets
        raise UnmaskError(f"cannot read {cut(where)}: {cut(str(error))}") from error
    _check_plain(value, where, NODES)
    return fit(value, schema, where)


def fit(value: Any, schema: Any, where: str) -> Any:
    """A plain value converted to the schema; the error names the position that does not fit."""
    if schema is Any:
        return value
    import msgspec

    try:
        return msgspec.convert(value, schema)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `")
        reason = _misfit(message, path.rstrip("`"), value, schema)
        raise UnmaskError(f"{cut(where)}{' ' if reason.startswith('has no') else ': '}{reason}") from error


def _too_large(path: str | Path, has: str, most: int) -> str:
    return f"cannot read {cut(str(path))}: it has {has}; expected at most {size(most)}"


def _too_deep(where: str) -> str:
    return f"cannot read {cut(where)}: lists or mappings are nested more than {DEPTH} deep"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{shown(repeated)} occurs twice in one mapping; keep one")
    return entries


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number")


def _check_plain(value: Any, where: str, most: int | None = None) -> None:
    """Raise an error unless depth, number of values, integers, floats and strings are within their limits."""
    level, count = [value], 1
    for _ in range(DEPTH + 1):
        below: list[Any] = []
        for one in _inner(level):
            inner = [*one, *one.values()] if isinstance(one, dict) else one
            count += len(inner)
            if most is not None and count > most:
                raise UnmaskError(f"cannot read {cut(where)}: it contains more than {most:,} values")
            _check_flat(inner, where)
            if not FLAT.issuperset(map(type, inner)):
                below += _inner(inner)
        if not below:
            break
        level = below
    else:
        raise UnmaskError(_too_deep(where))
    _check_flat([value], where)


FLAT = frozenset({int, float, bool, str, type(None)})


def _inner(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, list | dict)]


def _check_flat(values: list[Any], where: str) -> None:
    """Raise an error for an integer beyond 64 bits, an infinity, or a lone surrogate."""
    kinds = set(map(type, values))
    if kinds <= {float}:
        if not math.isfinite(sum(values)) and not all(map(math.isfinite, values)):
            raise UnmaskError(f"cannot read {cut(where)}: a number is too large")
        return
    for value in values if kinds & {int, float, str} else ():
        match value:
            case int() if not -(2**63) <= value < 2**64:
                raise UnmaskError(f"cannot read {cut(where)}: the integer {shown(value)} has more than 64 bits")
            case float() if not math.isfinite(value):
                raise UnmaskError(f"cannot read {cut(where)}: a number is too large")
            case str() if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
                raise UnmaskError(f"cannot read {cut(where)}: {shown(value)} is not Unicode")


PART = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")


def _misfit(message: str, path: str, value: Any, schema: Any) -> str:
    """A message of msgspec in the style of `UnmaskError`: "steps is 'x'; expected a whole number"."""
    keys: list[str | int] = []
    inner, kind, label = value, _described(schema), ""
    for part in (name or index for name, index in PART.findall(path)):
        kind = _part_of(kind, part)
        if part == "..." and isinstance(inner, dict):  # msgspec does not report the key
            part = next((key for key in inner if _fails(_with(value, keys, {key: inner[key]}), schema, message)), part)
        key = int(part) if isinstance(inner, list) and part.isdecimal() else part
        label = f"{label or 'it'}[{key}]" if isinstance(key, int) else f"{label}.{cut(key)}" if label else cut(key)
        keys.append(key)
        inner = inner[key] if isinstance(key, int) or (isinstance(inner, dict) and key in inner) else None
    label = label or "it"
    names = _fields(kind)
    if field := re.fullmatch(r"Object contains unknown field `(.*)`", message, re.DOTALL):
        return str(unknown("key" if label == "it" else f"key of {label}:", field[1], names))
    if field := re.fullmatch(r"Object missing required field `(.*)`", message, re.DOTALL):
        problem = f"has no {field[1]!r}; expected {', '.join(names)}"
        return problem if label == "it" else f"{label} {problem}"
    if message.startswith("Invalid enum value"):
        return str(unknown(f"value of {label}:", str(inner), [str(one) for one in getattr(kind, "values", ())]))
    if message.startswith("Invalid value"):
        return str(unknown(f"value of {label}:", str(inner), names))
    expected = re.sub(r"`([^`]*)`", lambda m: _words(m[1]), message.partition(", got ")[0])
    expected = expected.replace("of length", "with a length").replace("Expected ", "")
    if path.startswith("key"):
        return f"a name in {label} is not valid; expected {expected}"
    return f"{label} is {shown(inner)}; expected {expected}"


def _fails(value: Any, schema: Any, message: str) -> bool:
    """Whether msgspec rejects the value with this message."""
    import msgspec

    try:
        msgspec.convert(value, schema)
    except msgspec.ValidationError as error:
        return str(error).partition(" - at `")[0] == message
    return False


def _with(value: Any, keys: Sequence[str | int], part: Any) -> Any:
    """The value with another part at the end of a path of keys."""
    if not keys:
        return part
    copy = value.copy()
    copy[keys[0]] = _with(value[keys[0]], keys[1:], part)
    return copy


def _words(types: str) -> str:
    *most, last = (WORDS.get(one, one) for one in types.split(" | "))
    return f"{', '.join(most)} or {last}" if most else last


def _described(schema: Any) -> Any:
    import msgspec

    return msgspec.inspect.type_info(schema)


def _part_of(kind: Any, part: str) -> Any:
    """The type of a field or item; None if this type does not define it."""
    for one in getattr(kind, "types", (kind,)):
        for field in getattr(one, "fields", ()):
            if field.encode_name == part:
                return field.type
        inner = getattr(one, "item_type", None) or getattr(one, "value_type", None)
        if inner is not None:
            return inner
    return None


def _fields(kind: Any) -> list[str]:
    kinds = getattr(kind, "types", (kind,))
    return [field.encode_name for field in chain.from_iterable(getattr(one, "fields", ()) for one in kinds)]
