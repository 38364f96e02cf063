"""Reading of all files: limited in size, decoded, and checked by a schema before anything is used.

Files are not trusted. A file is checked before it is opened (a pipe would block, a sparse file can have gigabytes of
zeros) and read up to a limit. msgspec decodes it: finite numbers, Unicode text, limited depth. Then it converts the
value to the schema: a `msgspec.Struct`, or a type with limits by `msgspec.Meta`. The only conversion between types is
from integers to floats. msgspec is imported with the first file, to keep `unmask --help` fast.

`read_json`, `read_yaml` and `read_lines` read a file; `from_json` and `from_yaml` read a string; `fit` converts a plain
value. Each raises an UnmaskError of one line, with the file and the position in it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import IO, Any

from unmask.core.errors import UnmaskError, cut, shown, unknown
from unmask.core.memory import size

MOST = 2**26  # bytes of a file (default)
MOST_YAML = 2**20  # bytes; YAML files are written by hand
PIECE = 2**24  # bytes that are read at once
DEPTH = 64  # levels of nested lists and mappings
MOST_TRIED = 100  # entries of a mapping
WORDS = {  # for the types in messages of msgspec
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a mapping",
}
KINDS = {  # of a file, by the type in `st_mode`
    stat.S_IFREG: "",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link that leads to itself",
}
OTHER = "not a regular file"
STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+"(\s*:)?')  # of a JSON text; a key has a colon behind it


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
    pieces = []
    left = most + 1
    with opened(path, most) as file:
        while left and (piece := file.read(min(left, PIECE))):  # in pieces, so that a small file needs little memory
            pieces.append(piece)
            left -= len(piece)
    content = b"".join(pieces)
    if len(content) > most:  # it has grown, or its size is unknown, as in /proc
        raise UnmaskError(f"cannot read {cut(str(path))}: it has over {size(most)}; expected at most {size(most)}")
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
    """The size of a regular file that exists and has at most `most` bytes."""
    reason = ""
    status = None
    try:
        status = os.stat(path)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.ENAMETOOLONG:
            reason = "its name is too long"
    except ValueError:  # a NUL, or half of a pair of surrogates
        reason = "no file can have that name"

    if status is not None and (kind := KINDS.get(stat.S_IFMT(status.st_mode), OTHER)):
        reason = f"it is {kind}; expected a file"
    elif status is not None and most is not None and status.st_size > most:
        reason = f"it has {size(status.st_size)}; expected at most {size(most)}"

    if reason or status is None:
        raise UnmaskError(f"cannot read {cut(str(path))}: {reason}")
    return status.st_size


def from_json(text: str | bytes, schema: Any = Any, where: str = "the text") -> Any:
    """The content of a JSON text, converted to the schema; `where` is its name in errors."""
    import msgspec

    try:
        value = msgspec.json.decode(text)
    except RecursionError as error:
        raise UnmaskError(f"cannot read {cut(where)}: it is nested too deep") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise UnmaskError(f"{cut(where)} is not JSON: {reason}") from error
    _check_nesting(text if isinstance(text, str) else text.decode(), value, where)
    return fit(value, schema, where)


def from_yaml(text: str, schema: Any = Any, where: str = "the text") -> Any:
    """The content of a YAML text, converted to the schema; only types of JSON: no dates, octals or aliases."""
    from unmask.core import yaml  # here, to keep `unmask --help` fast

    try:
        value = yaml.parse(text, DEPTH)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise UnmaskError(f"{cut(where)} is not YAML{position}: {reason}") from error
    except (ValueError, KeyError, OverflowError, RecursionError) as error:  # of a tag, a code beyond Unicode, brackets
        raise UnmaskError(f"cannot read {cut(where)}: {cut(str(error))}") from error
    return fit(value, schema, where)


def _check_nesting(text: str, value: Any, where: str) -> None:
    """Raise an error if a decoded text is nested too deep, or has a key twice: of these it has only the last."""
    level, depth, keys = [value], 0, 0
    while level := [one for one in level if isinstance(one, dict | list)]:  # few, in a file of numbers
        depth += 1
        if depth > DEPTH:
            raise UnmaskError(f"cannot read {cut(where)}: it is nested more than {DEPTH} deep; expected fewer levels")
        keys += sum(len(one) for one in level if isinstance(one, dict))
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    if sum(1 for part in STRINGS.finditer(text) if part[1]) > keys:
        raise UnmaskError(f"cannot read {cut(where)}: it has {_twice(text)} twice; expected each key once")


def _twice(text: str) -> str:
    """The first key that a mapping of a JSON text has twice."""
    import json

    repeated: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        repeated.extend(name for name in names if names.count(name) > 1)

    json.loads(text, object_pairs_hook=note)
    return f"the key {shown(repeated[0])}"


def fit(value: Any, schema: Any, where: str) -> Any:
    """A plain value converted to the schema; the error names the position that does not fit."""
    if schema is Any:
        return value
    import msgspec

    try:
        return msgspec.convert(value, schema)
    except msgspec.ValidationError as error:
        reason = _plain(_keyed(str(error), value, schema), msgspec.inspect.type_info(schema))
        raise UnmaskError(f"{cut(where)}: {reason}") from error
    except UnicodeError as error:
        raise UnmaskError(f"{cut(where)}: it has a text that is not Unicode; expected no half of a pair") from error


def _keyed(message: str, value: Any, schema: Any) -> str:
    """A message of msgspec with the key in place of `[...]`: that of the first entry which does not fit by itself."""
    import msgspec

    before, unnamed, after = message.rpartition("$")[2].partition("[...]")
    if not unnamed:
        return message

    content = deepcopy(value)
    where = content
    for name, number in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", before):
        where = where[name or int(number)]

    # each entry alone: msgspec does not tell the key, and stops at the first that does not fit
    entries = dict(where)
    for key in [*entries][:MOST_TRIED]:
        where.clear()
        where[key] = entries[key]
        try:
            msgspec.convert(content, schema)
        except msgspec.ValidationError as error:
            if f"`${before}[...]" in str(error):
                return f"{message.rpartition('$')[0]}${before}.{key}{after}"
    return message


def _plain(message: str, kind: Any) -> str:
    """A message of msgspec about a type as a sentence; an unknown key or value with the nearest known ones."""
    problem, _, path = message.partition(" - at `$")
    label = cut(path.strip(".`"))
    if label.startswith("["):
        label = f"entry {label}"

    if strange := re.fullmatch(
        r"(?:Object contains unknown (field)|Invalid enum value) [`'](.*)[`']", problem, re.DOTALL
    ):
        noun = "key" if strange[1] else "value"
        names = _known(kind, path)
        if not names:
            return message
        return str(unknown(f"{noun} of {label}:" if label else noun, strange[2], names))
    if missing := re.fullmatch(r"Object missing required field `(.*)`", problem, re.DOTALL):
        return f"{label or 'it'} has no {missing[1]!r}"
    if not problem.startswith("Expected "):
        return message

    words = re.sub("`([^`]*)`", _words, problem)
    expected, _, got = words.removeprefix("Expected ").partition(", got ")
    return f"{label or 'it'} {f'is {got}' if got else 'does not fit'}; expected {expected}"


def _known(kind: Any, path: str) -> list[str]:
    """The keys, or the values, that a type allows at a path; none if the path leads nowhere."""
    kinds = getattr(kind, "types", [kind])  # several of a union
    for name, _ in re.findall(r"\.([^.\[\]`]+)|\[([^\]]+)\]", path):
        fields = {field.encode_name: field.type for one in kinds for field in getattr(one, "fields", ())}
        inner = [getattr(one, part, None) for one in kinds for part in ("item_type", "value_type")]
        if (kind := fields.get(name) or next(filter(None, inner), None)) is None:
            return []
        kinds = getattr(kind, "types", [kind])

    names = [field.encode_name for one in kinds for field in getattr(one, "fields", ())]
    return names or [str(value) for one in kinds for value in getattr(one, "values", ())]


def _words(types: re.Match[str]) -> str:
    *most, last = (WORDS.get(one, one) for one in types[1].split(" | "))
    return f"{', '.join(most)} or {last}" if most else last
