"""Sequences on disk: .npy of integers (rows, length), or .jsonl with one list, or {"tokens": list}, per line.

Sequences of text can include the text: a line of .jsonl is then {"tokens": list, "text": text}, with the reason why the
sequence ended. A .txt file has the texts alone, separated by a line with a form feed.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Annotated, Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.core.entries import chosen, given, taken
from unmask.core.errors import UnmaskError, cut
from unmask.core.files import atomic
from unmask.core.memory import available, fits
from unmask.core.reading import check_file, fit, opened, read_json, read_lines, read_text

Ints = NDArray[np.int64]
SUFFIXES = (".npy", ".jsonl")
TEXT_SUFFIX, BETWEEN = ".txt", "\n\f\n"
HEADER = (OSError, ValueError, EOFError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError, TokenError)
ARCHIVES = (b"PK\3\4", b"PK\5\6")  # their first bytes: of .npz, and of an empty one
TOKEN = 8  # bytes of a token in memory
TEXT = 12  # memory needed to read a .jsonl file, in multiples of its size, at most
Token = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Row(msgspec.Struct):
    """A line of .jsonl that is an object; fields other than these are ignored."""

    tokens: list[Token]


class Line(msgspec.Struct):
    """A line of .jsonl whose text is read."""

    text: str


class HiddenRow(msgspec.Struct):
    tokens: list[Token | None]


class Origin(msgspec.Struct, frozen=True):
    """The fields of a file's origin that are read."""

    code: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,64}$")] | None = None


class Account(msgspec.Struct):
    """The fields of a generation's account that are read."""

    tokens_sha256: str
    given_sha256: str | None = None
    source: dict[str, Any] | None = None
    chosen_among: Annotated[int, msgspec.Meta(ge=1)] = 1
    origin: Origin = Origin()


def check_suffix(path: str | Path, text: bool = False) -> None:
    known = (*SUFFIXES, TEXT_SUFFIX) if text else SUFFIXES
    if Path(path).suffix not in known:
        raise UnmaskError(f"{path} ends in {Path(path).suffix!r}; expected {' or '.join(known)}")


def write_tokens(
    path: str | Path, tokens: Tensor, texts: Sequence[str] | None = None, reasons: Sequence[str] | None = None
) -> None:
    """Write sequences, for text with the text of each one; reasons: why each sequence ended."""
    check_suffix(path, texts is not None)
    suffix = Path(path).suffix

    with atomic(path) as file:
        if suffix == ".npy":
            np.save(file, tokens.numpy().astype(np.min_scalar_type(int(tokens.max()))), allow_pickle=False)
        elif texts is None:
            file.writelines(json.dumps(row).encode() + b"\n" for row in tokens.tolist())
        elif suffix == TEXT_SUFFIX:
            file.write(BETWEEN.join(texts).encode() + b"\n")
        else:
            for number, row in enumerate(tokens.tolist()):
                line = {"tokens": row, "text": texts[number]} | given({"reason": taken(reasons, number)})
                file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")


def read_tokens(path: str | Path, hidden: int | None = None) -> Tensor:
    """(rows, length) int64; `hidden` replaces each null in a line."""
    check_suffix(path)
    path = Path(path)
    tokens = _read_npy(path) if path.suffix == ".npy" else _read_jsonl(path, hidden)
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise UnmaskError(f"{path} has shape {tokens.shape}; expected (rows, length) with at least one of each")
    return torch.from_numpy(tokens.astype(np.int64))


def read_texts(path: str | Path) -> list[str]:
    """The texts of a .txt or .jsonl file; a line of .jsonl is a string or an object with "text"."""
    suffix = Path(path).suffix
    if suffix == TEXT_SUFFIX:
        texts = read_text(path).removesuffix("\n").split(BETWEEN)
    elif suffix == ".jsonl":
        texts = [getattr(line, "text", line) for _, line in read_lines(path, str | Line)]
    else:
        raise UnmaskError(f"{path} is not a file of texts; expected .txt or .jsonl")
    if not any(texts):
        raise UnmaskError(f"{path} contains no text")
    return texts


def _read_npy(path: Path) -> Ints:
    """The array of a file; it is mapped, so its header allocates nothing."""
    total = check_file(path)
    with opened(path) as file:
        if file.read(4) in ARCHIVES:
            raise UnmaskError(f"{path} is an archive; expected one array of integers (rows, length)")

    try:
        with np.errstate(over="ignore"), warnings.catch_warnings(action="ignore"):  # of a size, and a header of old
            tokens = np.load(path, mmap_mode="r", allow_pickle=False)
        if tokens.offset + tokens.nbytes != total:
            raise ValueError(f"{total - tokens.offset} bytes follow its header; expected {tokens.nbytes}")
    except HEADER as error:
        reason = "its beginning is another" if "pickle" in str(error) else cut(str(error))
        raise UnmaskError(
            f"{path} is not a complete .npy file: {reason}", "Write it with numpy.save, or use .jsonl"
        ) from error

    if tokens.dtype.kind not in "iu":
        raise UnmaskError(f"{path} contains {cut(str(tokens.dtype))}; expected integers (rows, length)")
    fits(tokens.size, f"tokens of {path}", TOKEN, "their number: split the file")
    if tokens.size and int(tokens.max()) > np.iinfo(np.int64).max:
        raise UnmaskError(f"{path} contains the number {int(tokens.max())}; expected tokens below 2^63")
    return tokens


def _read_jsonl(path: Path, hidden: int | None) -> Ints:
    schema = Row | list[Token] if hidden is None else HiddenRow | list[Token | None]
    rows: list[Ints] = []
    for number, line in read_lines(path, schema, most=available() // TEXT):
        tokens = getattr(line, "tokens", line)
        if not tokens:
            raise UnmaskError(f'{path}, line {number} has no token; expected a list, or an object with "tokens"')
        if hidden is not None and None in tokens:
            tokens = [chosen(token, hidden) for token in tokens]
        if rows and len(tokens) != len(rows[0]):
            raise UnmaskError(
                f"{path}, line {number} has {len(tokens)} tokens, but the first row has {len(rows[0])}",
                "Pad shorter sequences after their end.",
            )
        rows.append(np.fromiter(tokens, np.int64, len(tokens)))
    return np.stack(rows) if rows else np.empty((0, 0), np.int64)


def account_path(path: str | Path) -> Path:
    """Path of the account of a file of samples: how they were generated."""
    return Path(f"{path}.json")


def given_path(path: str | Path) -> Path:
    """Path of the tokens that samples were given: samples.given.npy for samples.npy and for samples.txt."""
    path = Path(path)
    if path.suffix == TEXT_SUFFIX:
        return path.with_suffix(f".given{SUFFIXES[0]}")
    return path.with_suffix(f".given{path.suffix}")


def read_given(path: str | Path, account: dict[str, Any]) -> Tensor | None:
    """The tokens that the samples of an account were given, from the file next to them; None if there were none."""
    if "given_sha256" not in account:
        return None
    given = read_tokens(given_path(path))
    if digest(given) != account["given_sha256"]:
        raise UnmaskError(f"{given_path(path)} does not match the account of {path}. Pass the given tokens by --given.")
    return given


def read_account(path: str | Path, tokens: Tensor) -> dict[str, Any]:
    """The account that `generate` wrote next to its samples; empty if it is missing or belongs to other tokens."""
    source = account_path(path)
    if not os.path.exists(source):
        return {}
    account = read_json(source)
    if not isinstance(account, dict) or account.get("tokens_sha256") != digest(tokens):
        return {}
    fit(account, Account, str(source))
    return account


def digest(tokens: Tensor) -> str:
    return hashlib.sha256(np.ascontiguousarray(tokens.numpy(), np.int64).tobytes()).hexdigest()
