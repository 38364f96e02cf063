"""Files are read here, all of them: bounded, decoded, and held against a declared schema before anything is used.

A file may be anybody's. So it is looked at before it is opened (a pipe would wait for ever, a sparse file has gigabytes
of nothing), read up to a bound that the reader states, decoded strictly, and bounded again: depth, integers of 64 bits,
numbers that are finite, texts that are Unicode, each key once. Then msgspec converts it to the schema, a
`msgspec.Struct`, or a type with `msgspec.Meta` for its bounds; nothing is converted from one type to another but whole
numbers to floats. It is imported when a schema is first asked for: `unmask --help` does not wait for it.

`read_json`, `read_yaml` and `read_lines` read a file; `from_json` and `from_yaml` a text that was had elsewhere, and
`fit` what is plain already. Each raises one UnmaskError of one line that names the file and the place in it.
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

MOST = 2**26  # bytes of a file of which the reader says nothing else
MOST_YAML = 2**20  # people write these
PIECE = 2**24  # bytes that are read at once
DEPTH = 64  # lists and mappings within each other
NODES = 10**5  # values of a YAML file, where an alias counts as all that it stands for
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
    """What a JSON file holds, of this schema; an error where it has more bytes than `most`."""
    return from_json(read_text(path, most), schema, str(path))


def read_yaml(path: str | Path, schema: Any = Any, most: int = MOST_YAML) -> Any:
    """What a YAML file holds, of this schema, in the types that JSON has."""
    return from_yaml(read_text(path, most), schema, str(path))


def read_lines(path: str | Path, schema: Any = Any, most: int = MOST) -> Iterator[tuple[int, Any]]:
    """(number, what it holds) of each line of a JSON Lines file that is not blank."""
    import msgspec

    decoder = msgspec.json.Decoder(schema)
    for number, line in enumerate(read_text(path, most).split("\n"), 1):
        if not line or line.isspace():
            continue
        try:
            yield number, decoder.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeError):  # said by the slower reader, with its place
            yield number, from_json(line, schema, f"{path}, line {number}")


def read_text(path: str | Path, most: int = MOST) -> str:
    """The text of a file, without the mark of its byte order."""
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnmaskError(f"cannot read {cut(str(path))}: byte {error.start} is not UTF-8 text") from error


def read_bytes(path: str | Path, most: int = MOST) -> bytes:
    """The bytes of a regular file that has at most so many."""
    pieces, left = [], most + 1
    with opened(path, most) as file:
        while left and (piece := file.read(min(left, PIECE))):  # no room is made for more than there is
            pieces.append(piece)
            left -= len(piece)
    content = b"".join(pieces)
    if len(content) > most:  # it has grown, or is one whose size nobody knows, as those of /proc
        raise UnmaskError(_too_large(path, f"over {size(most)}", most))
    return content


@contextmanager
def opened(path: str | Path, most: int | None = None) -> Iterator[IO[bytes]]:
    """A regular file of at most so many bytes, to be read; what the system says against it is an UnmaskError."""
    check_file(path, most)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            yield file
    except OSError as error:
        raise UnmaskError(f"cannot read {cut(str(path))}: {error.strerror or error}") from error


def check_file(path: str | Path, most: int | None = None) -> int:
    """The size of a regular file in bytes; an error where it is another thing, or larger. It is not opened."""
    try:
        found = os.stat(path)
    except OSError as error:
        what = "its name is too long" if error.errno == errno.ENAMETOOLONG else error.strerror
        raise UnmaskError(f"cannot read {cut(str(path))}: {what}") from error
    except ValueError as error:  # a NUL, or half of a pair of surrogates
        raise UnmaskError(f"cannot read {cut(str(path))}: no file can have that name") from error
    if what := no_file(found.st_mode):
        raise UnmaskError(f"cannot read {cut(str(path))}: it is {what}; expected a file")
    if most is not None and found.st_size > most:
        raise UnmaskError(_too_large(path, size(found.st_size), most))
    return found.st_size


def no_file(mode: int) -> str | None:
    """What this is that is no regular file, of `st_mode`; None where it is one."""
    if stat.S_ISREG(mode):
        return None
    return next((what for is_one, what in KINDS.items() if is_one(mode)), "no regular file")


def from_json(text: str | bytes, schema: Any = Any, where: str = "the text") -> Any:
    """What a JSON text holds, of this schema; `where` is what errors call it."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        column = f"column {error.colno}"
        place = column if re.search(r", line \d+$", where) else f"line {error.lineno}, {column}"
        ends = " (the file ends there: is it truncated?)" if error.pos >= len(text.rstrip()) else ""
        raise UnmaskError(f"{cut(where)} is not JSON: {error.msg} at {place}{ends}") from error
    except UnicodeDecodeError as error:
        raise UnmaskError(f"cannot read {cut(where)}: byte {error.start} is not UTF-8 text") from error
    except RecursionError as error:
        raise UnmaskError(_too_deep(where)) from error
    except ValueError as error:
        what = "an integer of thousands of digits" if "digits" in str(error) else str(error)
        raise UnmaskError(f"cannot read {cut(where)}: {what}") from error
    _check_plain(value, where)
    return fit(value, schema, where)


def from_yaml(text: str, schema: Any = Any, where: str = "the text") -> Any:
    """What a YAML text holds, of this schema: no dates, no octals, no merged mappings, no types but those of JSON."""
    from unmask.core import yaml  # here, since `unmask --help` must not wait for it

    try:
        value = yaml.parse(text, DEPTH)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise UnmaskError(f"{cut(where)} is not YAML{place}: {what}") from error
    except (ValueError, OverflowError, RecursionError) as error:  # a code beyond Unicode, or endless brackets
        raise UnmaskError(f"cannot read {cut(where)}: {cut(str(error))}") from error
    _check_plain(value, where, NODES)
    return fit(value, schema, where)


def fit(value: Any, schema: Any, where: str) -> Any:
    """A plain value as what the schema says, or an error that names the place where it is not that."""
    if schema is Any:
        return value
    import msgspec

    try:
        return msgspec.convert(value, schema)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `")
        reason = _misfit(what, path.rstrip("`"), value, schema)
        raise UnmaskError(f"{cut(where)}{' ' if reason.startswith('has no') else ': '}{reason}") from error


def _too_large(path: str | Path, has: str, most: int) -> str:
    return f"cannot read {cut(str(path))}: it has {has}, and a file of this kind at most {size(most)}"


def _too_deep(where: str) -> str:
    return f"cannot read {cut(where)}: lists or mappings within each other more than {DEPTH} deep"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{shown(twice)} stands twice in one mapping; say it once")
    return made


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number")


def _check_plain(value: Any, where: str, most: int | None = None) -> None:
    """An error unless depth, number of values, integers, floats and texts are all within bounds."""
    level, count = [value], 1
    for _ in range(DEPTH + 1):
        below: list[Any] = []
        for one in _inner(level):
            inner = [*one, *one.values()] if isinstance(one, dict) else one
            count += len(inner)
            if most is not None and count > most:
                raise UnmaskError(f"cannot read {cut(where)}: it comes to more than {most:,} values")
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
    """An error for an integer beyond 64 bits, an infinity, or half a surrogate among these."""
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


def _misfit(what: str, path: str, value: Any, schema: Any) -> str:
    """In our words what msgspec says: "steps is 'x'; expected a whole number"."""
    keys: list[str | int] = []
    found, kind, label = value, _described(schema), ""
    for part in (name or index for name, index in PART.findall(path)):
        kind = _part_of(kind, part)
        if part == "..." and isinstance(found, dict):  # by a name, which is not said
            part = next((key for key in found if _fails(_with(value, keys, {key: found[key]}), schema, what)), part)
        key = int(part) if isinstance(found, list) and part.isdecimal() else part
        label = f"{label or 'it'}[{key}]" if isinstance(key, int) else f"{label}.{cut(key)}" if label else cut(key)
        keys.append(key)
        found = found[key] if isinstance(key, int) or (isinstance(found, dict) and key in found) else None
    label = label or "it"
    names = _fields(kind)
    if field := re.fullmatch(r"Object contains unknown field `(.*)`", what, re.DOTALL):
        return str(unknown("key" if label == "it" else f"key of {label}:", field[1], names))
    if field := re.fullmatch(r"Object missing required field `(.*)`", what, re.DOTALL):
        what = f"has no {field[1]!r}; expected {', '.join(names)}"
        return what if label == "it" else f"{label} {what}"
    if what.startswith("Invalid enum value"):
        return str(unknown(f"value of {label}:", str(found), [str(one) for one in getattr(kind, "values", ())]))
    if what.startswith("Invalid value"):
        return str(unknown(f"value of {label}:", str(found), names))
    wanted = re.sub(r"`([^`]*)`", lambda m: _words(m[1]), what.partition(", got ")[0])
    wanted = wanted.replace("of length", "with a length").replace("Expected ", "")
    if path.startswith("key"):
        return f"a name in {label} does not do; expected {wanted}"
    return f"{label} is {shown(found)}; expected {wanted}"


def _fails(value: Any, schema: Any, what: str) -> bool:
    """Whether this does not fit, for the same reason."""
    import msgspec

    try:
        msgspec.convert(value, schema)
    except msgspec.ValidationError as error:
        return str(error).partition(" - at `")[0] == what
    return False


def _with(value: Any, keys: Sequence[str | int], part: Any) -> Any:
    """The value with another part at a place."""
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
    """The type of what stands at a place of this one; None where it says nothing of it."""
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
