"""Sequences on disk: .npy of integers (rows, length), or .jsonl with one list, or {"tokens": list}, a line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.files import atomic, read_json, read_text

SUFFIXES = (".npy", ".jsonl")


def check_suffix(path: str | Path) -> None:
    if Path(path).suffix not in SUFFIXES:
        raise UnmaskError(f"{path}: samples are kept as {' or '.join(SUFFIXES)}, not {Path(path).suffix!r}")


def write_tokens(path: str | Path, tokens: Tensor) -> None:
    check_suffix(path)
    with atomic(path) as file:
        if Path(path).suffix == ".npy":
            np.save(file, tokens.numpy().astype(np.min_scalar_type(int(tokens.max()))), allow_pickle=False)
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


def _read_npy(path: Path) -> np.ndarray:
    try:
        with path.open("rb") as file:
            tokens = np.load(file, allow_pickle=False)
    except OSError as error:
        raise UnmaskError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        if "Object arrays" in str(error):
            raise UnmaskError(f"{path} holds Python objects; expected integers (rows, length)") from error
        reason = "it does not begin like one" if "pickle" in str(error) else str(error)
        raise UnmaskError(f"{path} is not a complete .npy file: {reason}") from error
    if not isinstance(tokens, np.ndarray):
        raise UnmaskError(f"{path} is an archive; expected one array of integers (rows, length)")
    if tokens.dtype.kind not in "iu":
        raise UnmaskError(f"{path} holds {tokens.dtype}; expected integers (rows, length)")
    if tokens.size and int(tokens.max()) > np.iinfo(np.int64).max:
        raise UnmaskError(f"{path} holds the number {int(tokens.max())}; no token is that large")
    return tokens


def _read_jsonl(path: Path, hidden: int | None) -> np.ndarray:
    rows: list[list[int]] = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UnmaskError(f"{path}, line {number} is not JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:  # endless digits, or brackets
            raise UnmaskError(f"{path}, line {number} cannot be read: {error}") from error
        if isinstance(row, dict):
            row = row.get("tokens")
        if not isinstance(row, list) or not row:
            raise UnmaskError(f'{path}, line {number}: expected a list of tokens, or an object with "tokens"')
        if hidden is not None:
            row = [hidden if token is None else token for token in row]
        for position, token in enumerate(row):
            if type(token) is not int or not -(2**63) <= token < 2**63:
                raise UnmaskError(f"{path}, line {number}, position {position}: {token!r} is not an integer token")
        if rows and len(row) != len(rows[0]):
            expected = f"{len(row)} tokens, but the first row has {len(rows[0])}; pad shorter sequences after their end"
            raise UnmaskError(f"{path}, line {number} has {expected}")
        rows.append(row)
    return np.array(rows, dtype=np.int64)


def account_path(path: str | Path) -> Path:
    """Where a file of samples keeps what made it."""
    return Path(f"{path}.json")


def given_path(path: str | Path) -> Path:
    """Where a file of samples keeps what they were given: samples.npy in samples.given.npy."""
    path = Path(path)
    return path.with_suffix(f".given{path.suffix}")


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
    if not account_path(path).exists():
        return {}
    account = read_json(account_path(path))
    fits = isinstance(account, dict) and account.get("tokens_sha256") == digest(tokens)
    return account if fits else {}


def digest(tokens: Tensor) -> str:
    return hashlib.sha256(np.ascontiguousarray(tokens.numpy(), np.int64).tobytes()).hexdigest()
