"""Reading of all files: limited in size, decoded, and checked by a schema before anything is used.

Files are not trusted. A file is checked before it is opened (a pipe would block, a sparse file can have gigabytes of
zeros) and read up to a limit. msgspec decodes it: finite numbers, Unicode text, limited depth. Then it converts the
value to the schema: a `msgspec.Struct`, or a type with limits by `msgspec.Meta`. The only conversion between types is
from integers to floats. msgspec is imported with the first file, to keep `unmask --help` fast.

`read_json`, `read_yaml` and `read_lines` read a file; `from_json` and `from_yaml` read a string; `fit` converts a plain
value. Each raises an UnmaskError of one line, with the file and the position in it.
"""

from __future__ import annotations

import bisect
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from unmask.core.arguments import size
from unmask.core.errors import UnmaskError, cut, shown, unknown

MOST = 2**26  # bytes of a file (default)
MOST_YAML = 2**20  # bytes; YAML files are written by hand
PIECE = 2**24  # bytes that are read at once
DEPTH = 64  # levels of nested lists and mappings
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
    reason, status = "", None
    try:
        status = os.stat(path)
    except OSError as error:
        reason = "its name is too long" if error.errno == errno.ENAMETOOLONG else error.strerror or str(error)
    except ValueError:  # a NUL, or half of a pair of surrogates
        reason = "no file can have that name"
    if status is not None and (kind := no_file(status.st_mode)):
        reason = f"it is {kind}; expected a file"
    elif status is not None and most is not None and status.st_size > most:
        reason = f"it has {size(status.st_size)}; expected at most {size(most)}"
    if reason or status is None:
        raise UnmaskError(f"cannot read {cut(str(path))}: {reason}")
    return status.st_size


def no_file(mode: int) -> str | None:
    """The kind of a file that is not regular, from `st_mode`; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((kind for is_kind, kind in KINDS.items() if is_kind(mode)), "not a regular file")


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


def fit(value: Any, schema: Any, where: str) -> Any:
    """A plain value converted to the schema; the error names the position that does not fit."""
    if schema is Any:
        return value
    import msgspec

    def problem(part: Any) -> str:
        try:
            msgspec.convert(part, schema)
        except msgspec.ValidationError as error:
            return str(error)
        return ""

    try:
        return msgspec.convert(value, schema)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        steps: list[str | int] = []
        for name, index in re.findall(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]", path.rstrip("`")):
            steps.append(_key(value, steps, problem) if index == "..." else int(index) if index else name)
        reason = _misfit(message, steps, value, msgspec.inspect.type_info(schema))
        raise UnmaskError(f"{cut(where)}{' ' if reason.startswith('has no') else ': '}{reason}") from error


def _key(value: Any, steps: Sequence[str | int], problem: Callable[[Any], str]) -> Any:
    """The key of the mapping at `steps` that has the problem: the last one needed. msgspec omits it."""
    keys, whole = list(_only(value, steps)), problem(value)
    at = bisect.bisect_left(range(len(keys)), True, key=lambda n: problem(_only(value, steps, keys[: n + 1])) == whole)
    return keys[at]


def _only(value: Any, steps: Sequence[str | int], keys: Sequence[str] | None = None) -> Any:
    """The mapping at `steps`; with keys the whole value, in which it has these alone."""
    if not steps:
        return value if keys is None else {key: value[key] for key in keys}
    inner = _only(value[steps[0]], steps[1:], keys)
    if keys is None:
        return inner
    copy: Any = dict(value) if isinstance(value, Mapping) else list(value)
    copy[steps[0]] = inner
    return copy


def _misfit(message: str, steps: Sequence[str | int], value: Any, kind: Any) -> str:
    """A message of msgspec at some steps in the words of `UnmaskError`: "a[2] is 'x'; expected a number"."""
    known = True
    for step in steps:
        kinds = getattr(kind, "types", (kind,))
        fields = {field.encode_name: field.type for one in kinds for field in getattr(one, "fields", ())}
        inner = [each for one in kinds for each in (getattr(one, "item_type", None), getattr(one, "value_type", None))]
        kind = fields.get(step) or next(filter(None, inner), None)
        known &= isinstance(step, int) or step in value  # a missing field has its path, too
        value = value[step] if known else value
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    label = cut(path.lstrip(".")) or "it"
    label = f"it{label}" if label.startswith("[") else label
    names = [field.encode_name for one in getattr(kind, "types", (kind,)) for field in getattr(one, "fields", ())]
    if field := re.fullmatch(r"Object contains unknown field `(.*)`", message, re.DOTALL):
        return str(unknown("key" if label == "it" else f"key of {label}:", field[1], names))
    if field := re.fullmatch(r"Object missing required field `(.*)`", message, re.DOTALL):
        problem = f"has no {field[1]!r}; expected {', '.join(names)}"
        return problem if label == "it" else f"{label} {problem}"
    if message.startswith("Invalid"):
        return str(unknown(f"value of {label}:", str(value), map(str, getattr(kind, "values", names))))
    expected, _, got = re.sub(r"`([^`]*)`", lambda m: _words(m[1]), message).partition(", got ")
    expected = expected.removeprefix("Expected ").replace("of length", "with a length")
    problem = f"is {shown(value) if known else got}"
    return f"{label} {problem}; expected {expected}"


def _words(types: str) -> str:
    *most, last = (WORDS.get(one, one) for one in types.split(" | "))
    return f"{', '.join(most)} or {last}" if most else last
