"""Valid files made hostile in one given way: what the table of cases (cases.py) and the mutations are made of."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile.promise import Content, Make
from unmask.experiments.cell import key_of
from unmask.experiments.store import CHECK

HUGE = "@@huge@@"  # becomes an integer of 5,000 digits, which Python writes as little as it reads
STORE = "sweep.jsonl"


def text_of(value: Any) -> str:
    """JSON as others write it, who may know NaN, and numbers of any size."""
    return json.dumps(value).replace(f'"{HUGE}"', "1" + "0" * 5000)


def edited(name: str, change: Callable[[Any], Any]) -> Make:
    """The JSON file of that name in a directory, or the file itself where it has none, after a change."""

    def edit(path: Path) -> None:
        place = path / name if name else path
        content = json.loads(place.read_text())
        changed = change(content)
        place.write_text(text_of(content if changed is None else changed))

    return edit


def setting(*keys: Any, to: Any) -> Callable[[Any], None]:
    """Another value at a position."""

    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = to

    return change


def in_place(name: str, make: Callable[[Path], Any]) -> Make:
    """The file of that name in a directory made again."""

    def replace(path: Path) -> None:
        place = path / name
        place.unlink(missing_ok=True)
        make(place)

    return replace


def config(**values: Any) -> Content:
    return "net", edited("config.json", lambda content: content | values)


def npy(header: str | bytes, data: bytes = b"", version: tuple[int, int] = (1, 0), length: int | None = None) -> bytes:
    """A .npy file with any header."""
    raw = header.encode("latin-1", errors="replace") if isinstance(header, str) else header
    size = struct.pack("<H" if version[0] == 1 else "<I", (len(raw) if length is None else length) % 2**16)
    return b"\x93NUMPY" + bytes(version) + size + raw + data


def described(descr: Any = "<i8", order: Any = False, shape: Any = (2, 3)) -> str:
    return f"{{'descr': {descr!r}, 'fortran_order': {order!r}, 'shape': {shape!r}, }}\n"


def array(values: Any) -> bytes:
    import io

    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=values.dtype.hasobject)
    return buffer.getvalue()


def header_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    """(header, what follows) of a safetensors file."""
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def tensors(header: Any, data: bytes, size: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else text_of(header).encode()
    return struct.pack("<Q", (len(raw) if size is None else size) % 2**64) + raw + data


def weights(name: str, change: Callable[[dict[str, Any], bytes], bytes]) -> Make:
    """A file of tensors in a directory: change(header, data) returns the whole of it."""

    def edit(path: Path) -> None:
        (path / name).write_bytes(change(*header_of((path / name).read_bytes())))

    return edit


def facts(change: Callable[[Any], Any]) -> Content:
    """A network whose training stands elsewhere: what the state says, changed."""

    def rewrite(header: dict[str, Any], data: bytes) -> bytes:
        said = json.loads(header["__metadata__"]["unmask"])
        changed = change(said)
        header["__metadata__"]["unmask"] = changed if isinstance(changed, str) else text_of(changed or said)
        return tensors(header, data)

    return "net", weights("state.safetensors", rewrite)


def line(kind: str, change: Callable[[dict[str, Any]], Any] | str) -> Content:
    """A store whose lines of a kind have other fields, or another text."""

    def rewrite(path: Path) -> None:
        made = []
        for text in (path / STORE).read_text().splitlines():
            content = json.loads(text)
            if content.pop("crc") and content["type"] == kind:
                text = change if isinstance(change, str) else text_of(change(content) or content)
                text = f"{text[:-1]}{(CHECK % zlib.crc32(text[:-1].encode())).decode()}"
            made.append(text)
        (path / STORE).write_text("".join(f"{text}\n" for text in made))

    return "store", rewrite


def keyed(cell: dict[str, Any]) -> dict[str, Any]:
    """A line of a cell with the key of its content."""
    return cell | {"key": key_of(cell["job"], cell["values"])}


def bytes_at(part: float, content: bytes = b"\xa5" * 300) -> Content:
    """A store with other bytes at a place from 0, its beginning, to 1."""

    def overwrite(path: Path) -> None:
        whole = bytearray((path / STORE).read_bytes())
        at = int(part * len(whole))
        whole[at : at + len(content)] = content
        (path / STORE).write_bytes(whole)

    return "store", overwrite


def beside(name: str, make: Content) -> Content:
    """A store with another file in it."""

    def add(path: Path) -> None:
        (path / name).unlink(missing_ok=True)
        if callable(make):
            make(path / name)
        else:
            (path / name).write_bytes(make if isinstance(make, bytes) else str(make).encode())

    return "store", add
