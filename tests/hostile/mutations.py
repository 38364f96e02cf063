"""Mutations that know the structure of what they change: of plain values, texts, arrays, tensors, stores, words.

All chance is that of a `random.Random` which hypothesis gives, so that the smallest of what fails is found.
"""

from __future__ import annotations

import json
import math
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.hostile.oracle import NO_FILES
from tests.hostile.spoiling import HUGE, STORE, described, header_of, keyed, nested, npy, tensors, text_of

NUMBERS = (0, 1, -1, 2, 3, 7, 0.5, -0.0, 1e-300, 5e-324, 1e300, 1e308, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64)
NUMBERS += (10**12, 10**15, 10**18, 10**30, -(2**63), -(2**70), math.nan, math.inf, -math.inf)
WORDS = ("", "x", "0", "1e999", "nan", "true", "null", "os:system", "os:system(command='touch was-run')", "../x", "/")
WORDS += (
    "a\nb",
    "\0",
    "[/red]",
    "\x1b[2J",
    "\ud800",
    "\u202e",
    "é" * 50,
    "x" * 5000,
    "{}",
    "[1, 2]",
    "interval-5",
    "=",
)
WORDS += ("/dev/zero", "/proc/self/mem", "-", "--", "-1", "__class__", "a.b:c", "blocks(inner=blocks(inner=ancestral))")
OTHERS = (None, True, False, [], {}, [[]], [None], {"": None}, {"kind": "x"}, HUGE)

STRANGE = ("\0", "\ufeff", "}", "]", "{", '"', ",", ":", "//", "&a *a", "!!x ", "\t", "---\n", "\x1b", "%")
TYPES = ("<i8", ">i8", "|u1", "<u8", "|b1", "<f8", "|O", "|S9", "<U4", "|V3", "<M8[s]", "<c16", 3, None)
SHAPES = ((2, 3), (3,), (), (0, 3), (-1, 6), (2**40, 2**40), (True, 6), (2.0, 3), [2, 3], "x", 6, None)


def value(random: Random) -> Any:
    """Something that nobody expects."""
    match random.randrange(8):
        case 0 | 1 | 2:
            return random.choice(NUMBERS)
        case 3 | 4:
            return random.choice(WORDS)
        case 5:
            return nested(random.choice((5, 63, 70, 500)))
        case 6:
            return [random.choice(NUMBERS)] * random.choice((1, 2, 1000))
    return random.choice(OTHERS)


def _places(whole: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every value."""
    if isinstance(whole, dict | list):
        for key in list(whole) if isinstance(whole, dict) else range(len(whole)):
            yield whole, key
            yield from _places(whole[key])


def plain(whole: Any, random: Random, most: int = 3) -> Any:
    """A plain value with one to three changes somewhere in it."""
    box = [json.loads(json.dumps(whole))]
    for _ in range(random.randint(1, most)):
        places = list(_places(box))
        container, key = random.choice(places)
        here = container[key]
        match random.randrange(9):
            case 0 | 1 | 2:
                container[key] = value(random)
            case 3:
                del container[key]
                if not box:
                    return value(random)
            case 4 if isinstance(container, dict):
                container[random.choice(WORDS)] = container.pop(key)
            case 4 | 5 if isinstance(container, list):
                container.insert(key, here if random.random() < 0.5 else value(random))
            case 5:
                container[random.choice(WORDS)] = value(random)
            case 6:
                container[key] = [here] if random.random() < 0.5 else {random.choice(WORDS): here}
            case 7 if isinstance(here, int | float):
                container[key] = random.choice((-here, here + 1, here * 1000, str(here), float(here), here / 3))
            case 7 if isinstance(here, str):
                container[key] = random.choice((here * 2, here[:-1], here.upper(), [*here], here + "(x=1)"))
            case _:
                other, place = random.choice(places)
                container[key] = json.loads(json.dumps(other[place])) if other is not box else here
    return box[0]


def text(whole: str, random: Random) -> bytes:
    """A text cut, doubled, in another encoding, or with signs in it that do not belong there."""
    at = random.randint(0, len(whole))
    strange = random.choice(STRANGE)
    match random.randrange(8):
        case 0:
            return whole[:at].encode()
        case 1:
            return (whole * 2).encode()
        case 2:
            return whole.encode(random.choice(("utf-16", "utf-32", "utf-8-sig")))
        case 3:
            return (whole[:at] + random.choice("[{(") * random.choice((100, 10**5)) + whole[at:]).encode()
        case 4:
            return (whole[:at] + "9" * random.choice((20, 5000)) + whole[at:]).encode()
    return (whole[:at] + strange + whole[at:]).encode()


def raw(whole: bytes, random: Random) -> bytes:
    """Some bytes that are others, or missing, or more."""
    changed = bytearray(whole)
    for _ in range(random.choice((1, 1, 4, 64))):
        at = random.randrange(len(changed) + 1)
        match random.randrange(5):
            case 0:
                del changed[at : at + random.choice((1, 8, 1000))]
            case 1:
                changed[at:at] = bytes([random.randrange(256)]) * random.choice((1, 8, 1000))
            case _:
                changed[at : at + 8] = random.choice((b"\xff" * 8, b"\0" * 8, bytes([random.randrange(256)])))
    return bytes(changed)


def json_file(whole: Any, random: Random) -> bytes | Callable[[Path], object]:
    match random.randrange(12):
        case 0:
            return random.choice(NO_FILES)
        case 1 | 2:
            return text(json.dumps(whole), random)
        case 3:
            return raw(json.dumps(whole).encode(), random)
    return text_of(plain(whole, random)).encode()


def yaml_file(whole: str, random: Random) -> bytes | Callable[[Path], object]:
    match random.randrange(10):
        case 0:
            return random.choice(NO_FILES)
        case 1 | 2 | 3:
            return text(whole, random)
        case 4:
            return raw(whole.encode(), random)
    changed = plain(yaml.safe_load(whole), random)
    try:
        made = yaml.safe_dump(changed)
    except RecursionError:  # JSON is YAML, and its writer nests further
        return text_of(changed).encode()
    return made.replace(HUGE, "1" + "0" * 5000).encode(errors="replace")


def npy_file(whole: bytes, random: Random) -> bytes | Callable[[Path], object]:
    """An array whose header says something else than what follows."""
    descr, shape = random.choice(TYPES), random.choice(SHAPES)
    data = bytes(random.choice((0, 1, 48, 49, 6, 24)))
    match random.randrange(6):
        case 0:
            return random.choice(NO_FILES)
        case 1 | 2:
            return raw(whole, random)
        case 3:
            return npy(text(described(), random), data, random.choice(((1, 0), (2, 0), (3, 0), (0, 0), (255, 255))))
    order = random.choice((False, True, None, "x"))
    return npy(described(descr, order, shape), data, length=random.choice((None, None, 0, 2**16 - 1)))


def tensor_file(name: str, random: Random) -> Callable[[Path], object]:
    """A change of a file of tensors in a directory."""

    def change(directory: Path) -> None:
        place = directory / name
        whole = place.read_bytes()
        header, data = header_of(whole)
        match random.randrange(7):
            case 0:
                place.write_bytes(raw(whole, random))
            case 1:
                place.write_bytes(tensors(header, data, random.choice((0, 1, 2**31, 2**63, 2**64 - 1))))
            case 2:
                number = random.choice((math.nan, math.inf, -math.inf, 3e38, -3e38, 1e30, 0.0))
                at = 4 * random.randrange(len(data) // 4)
                count = random.choice((1, (len(data) - at) // 4))
                changed = data[:at] + struct.pack("<f", number) * count + data[at + 4 * count :]
                place.write_bytes(tensors(header, changed))
            case 3 if "unmask" in header.get("__metadata__", {}):
                said = plain(json.loads(header["__metadata__"]["unmask"]), random)
                header["__metadata__"]["unmask"] = text_of(said)
                place.write_bytes(tensors(header, data))
            case 4:
                place.unlink()
                random.choice(NO_FILES)(place)
            case _:
                place.write_bytes(tensors(plain(header, random), data))

    return change


def network(random: Random) -> Callable[[Path], object]:
    """A change of one of the files that a network's directory has."""
    name = random.choice(("config.json", "config.json", "model.safetensors", "state.safetensors", "training.json"))
    if name.endswith("safetensors"):
        return tensor_file(name, random)

    def change(directory: Path) -> None:
        place = directory / name
        made = json_file(json.loads(place.read_text()), random)
        place.unlink()
        place.write_bytes(made) if isinstance(made, bytes) else made(place)

    return change


FILES = ("lock", "workers.log", "files")


def store(random: Random) -> Callable[[Path], object]:
    """A change of a sweep's store: bytes of it, values within a line, lines of it, or a file beside it."""

    def change(directory: Path) -> None:
        place = directory / STORE
        lines = place.read_text().splitlines()
        match random.randrange(8):
            case 0:
                place.write_bytes(raw(place.read_bytes(), random))
            case 1:
                beside = directory / random.choice(FILES)
                if beside.is_dir():
                    shutil.rmtree(beside)
                beside.unlink(missing_ok=True)
                if random.random() < 0.3:
                    random.choice(NO_FILES)(beside)
                else:
                    beside.write_bytes(text('{"pid": 1, "host": "x", "since": 1.5, "running": 2}', random))
            case 2:
                random.shuffle(lines)
                place.write_text("".join(f"{line}\n" for line in lines[random.randrange(len(lines)) :]))
            case _:
                at = random.randrange(len(lines))
                changed = plain(json.loads(lines[at]), random)
                if isinstance(changed, dict) and changed.get("type") == "cell" and random.random() < 0.7:
                    with suppress(ValueError, KeyError, TypeError, AttributeError):
                        changed = keyed(changed)
                lines[at] = text_of(changed)
                place.write_text("".join(f"{line}\n" for line in lines))

    return change
