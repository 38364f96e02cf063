"""Sequences on disk: .npy of integers (rows, length), or .jsonl with one list, or {"tokens": list}, a line.

Those of a text may be its words as well: .jsonl then says {"tokens": list, "text": text} and why the row has ended, and
.txt the texts alone, with a line of a form feed between them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from unmask.core.errors import UnmaskError, cut
from unmask.core.files import atomic
from unmask.core.memory import available, counted, size
from unmask.core.reading import fit, opened, read_json, read_lines, read_text

Ints = NDArray[np.int64]
SUFFIXES = (".npy", ".jsonl")
TEXT_SUFFIX, BETWEEN = ".txt", "\n\f\n"
ARCHIVE = b"PK\x03\x04"  # what an .npz begins with
HEADER = (ValueError, EOFError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError, tokenize.TokenError)
TOKEN = 8  # bytes, once it is read
TEXT = 12  # times a text is held at most while its tokens are read
Token = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Row(msgspec.Struct):
    """A line of .jsonl that says more than its tokens."""

    tokens: list[Token]


class Line(msgspec.Struct):
    """A line of .jsonl of which the text is read."""

    text: str


class HiddenRow(msgspec.Struct):
    tokens: list[Token | None]


class Origin(msgspec.Struct, frozen=True):
    """What is read of what a file says of where it came from; it says more."""

    code: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,64}$")] | None = None


class Account(msgspec.Struct):
    """What is read of the account of a generation; it says more."""

    tokens_sha256: str
    given_sha256: str | None = None
    impossible_rows: Annotated[int, msgspec.Meta(ge=0)] | None = None
    source: dict[str, Any] | None = None
    origin: Origin = Origin()


def check_suffix(path: str | Path, text: bool = False) -> None:
    known = (*SUFFIXES, TEXT_SUFFIX) if text else SUFFIXES
    if Path(path).suffix not in known:
        raise UnmaskError(f"{path}: samples are kept as {' or '.join(known)}, not {Path(path).suffix!r}")


def write_tokens(
    path: str | Path, tokens: Tensor, texts: Sequence[str] | None = None, reasons: Sequence[str] | None = None
) -> None:
    """texts: what each row says, where tokens are those of a text; reasons: why each of them has ended."""
    check_suffix(path, texts is not None)
    with atomic(path) as file:
        if Path(path).suffix == ".npy":
            np.save(file, tokens.numpy().astype(np.min_scalar_type(int(tokens.max()))), allow_pickle=False)
        elif texts is not None and Path(path).suffix == TEXT_SUFFIX:
            file.write(BETWEEN.join(texts).encode() + b"\n")
        elif texts is not None:
            why: Sequence[str | None] = [None] * len(texts) if reasons is None else reasons
            for row, text, reason in zip(tokens.tolist(), texts, why, strict=True):
                line = {"tokens": row, "text": text} | ({} if reason is None else {"reason": reason})
                file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        else:
            for row in tokens.tolist():
                file.write(json.dumps(row).encode() + b"\n")


def read_tokens(path: str | Path, hidden: int | None = None) -> Tensor:
    """(rows, length) int64, or an error that says what in the file is not that; null in a line is what is hidden."""
    check_suffix(path)
    tokens = _read_npy(Path(path)) if Path(path).suffix == ".npy" else _read_jsonl(Path(path), hidden)
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise UnmaskError(f"{path} has shape {tokens.shape}; expected (rows, length) with at least one of each")
    return torch.from_numpy(tokens.astype(np.int64))


def read_texts(path: str | Path) -> list[str]:
    """The texts of a .txt or .jsonl file, as they are written here; of .jsonl also a text alone a line."""
    suffix = Path(path).suffix
    if suffix == TEXT_SUFFIX:
        found = read_text(path).removesuffix("\n").split(BETWEEN)
    elif suffix == ".jsonl":
        found = [line if isinstance(line, str) else line.text for _, line in read_lines(path, str | Line)]
    else:
        raise UnmaskError(f"{path}: expected a file of texts, .txt or .jsonl")
    if not any(found):
        raise UnmaskError(f"{path} holds no text")
    return found


def _read_npy(path: Path) -> Ints:
    """The array behind a header that is of integers, and whose shape is what the file has bytes for."""
    with opened(path) as file:
        found = os.fstat(file.fileno()).st_size
        start = file.read(len(npy.MAGIC_PREFIX))
        if start.startswith(ARCHIVE):
            raise UnmaskError(f"{path} is an archive; expected one array of integers (rows, length)")
        file.seek(0)
        try:
            version = npy.read_magic(file)
            header = npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)
        except HEADER as error:
            reason = "it does not begin like one" if start != npy.MAGIC_PREFIX else cut(str(error))
            raise UnmaskError(f"{path} is not a complete .npy file: {reason}") from error
        shape, columns_first, dtype = header
        if dtype.hasobject:
            raise UnmaskError(f"{path} holds Python objects; expected integers (rows, length)")
        if dtype.kind not in "iu":
            raise UnmaskError(f"{path} holds {cut(str(dtype))}; expected integers (rows, length)")
        count = math.prod(shape) if all(type(size) is int and size >= 0 for size in shape) else -1
        if (expected := count * dtype.itemsize) != found - file.tell():
            what = f"the array of its header has {counted(expected)} bytes, and {found - file.tell()} follow"
            raise UnmaskError(f"{path} is not a complete .npy file: {what}")
        if expected > available() / (1 + TOKEN / dtype.itemsize):
            what = f"{counted(count)} tokens need {size(expected + TOKEN * count)}, and there are {size(available())}"
            raise UnmaskError(f"{path} does not fit into memory: {what}; score it in parts")
        tokens = np.fromfile(file, dtype, count).reshape(shape, order="F" if columns_first else "C")
    if tokens.size and int(tokens.max()) > np.iinfo(np.int64).max:
        raise UnmaskError(f"{path} holds the number {int(tokens.max())}; no token is that large")
    return tokens


def _read_jsonl(path: Path, hidden: int | None) -> Ints:
    schema = Row | list[Token] if hidden is None else HiddenRow | list[Token | None]
    rows: list[Ints] = []
    for number, line in read_lines(path, schema, most=available() // TEXT):
        tokens = line if isinstance(line, list) else line.tokens
        if not tokens:
            raise UnmaskError(f'{path}, line {number}: expected a list of tokens, or an object with "tokens"')
        if hidden is not None and None in tokens:
            tokens = [hidden if token is None else token for token in tokens]
        if rows and len(tokens) != len(rows[0]):
            expected = f"{len(tokens)} tokens, but the first row has {len(rows[0])}"
            raise UnmaskError(f"{path}, line {number} has {expected}; pad shorter sequences after their end")
        rows.append(np.fromiter(tokens, np.int64, len(tokens)))
    return np.stack(rows) if rows else np.empty((0, 0), np.int64)


def account_path(path: str | Path) -> Path:
    """Where a file of samples keeps what made it."""
    return Path(f"{path}.json")


def given_path(path: str | Path) -> Path:
    """Where a file of samples keeps what they were given: samples.npy in samples.given.npy; a text's in .given.npy."""
    path = Path(path)
    return path.with_suffix(f".given{SUFFIXES[0] if path.suffix == TEXT_SUFFIX else path.suffix}")


def read_given(path: str | Path, account: dict[str, Any]) -> Tensor | None:
    """What the samples of an account were given, which lies beside them; None where that was nothing."""
    if "given_sha256" not in account:
        return None
    given = read_tokens(given_path(path))
    if digest(given) != account["given_sha256"]:
        raise UnmaskError(f"{given_path(path)} is not what {path} was given; give that by --given")
    return given


def read_account(path: str | Path, tokens: Tensor) -> dict[str, Any]:
    """What a generation of ours wrote beside its samples; empty where there is none, or where it is about others."""
    place = account_path(path)
    if not os.path.exists(place):
        return {}
    account = read_json(place)
    if not isinstance(account, dict) or account.get("tokens_sha256") != digest(tokens):
        return {}
    fit(account, Account, str(place))
    return account


def digest(tokens: Tensor) -> str:
    return hashlib.sha256(np.ascontiguousarray(tokens.numpy(), np.int64).tobytes()).hexdigest()
