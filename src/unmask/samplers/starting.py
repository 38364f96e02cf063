"""The tokens that a generation starts from: all hidden, or some given; for all rows, or for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.memory import PLACE_BYTES, fits
from unmask.denoisers import Denoiser
from unmask.languages import LanguageLike, load
from unmask.languages.base import as_tokens

ROWS, LENGTH = 2000, 512  # defaults
PADDING = 0  # behind rows that are shorter than others; never read
Start = tuple[int, int, Tensor, Tensor]  # rows, length, tokens (rows, length), Bool (rows, length): False at padding


def start(denoiser: Denoiser, given: Any, rows: int | None, length: int | None) -> Start:
    """The rows to start from: all hidden, or with given tokens."""
    lines = given if isinstance(given, Sequence) and all(hasattr(line, "__len__") for line in given) else ()
    if len({len(line) for line in lines}) > 1:
        return _start_of_lines(denoiser, lines, rows, length)

    tokens = torch.tensor(denoiser.vocabulary)
    if given is not None:
        tokens = _pattern(given)
        if length is None:
            length = tokens.shape[-1]
        if rows is None and tokens.dim() == 2:
            rows = len(tokens)
    if rows is None:
        rows = ROWS
    if length is None:
        length = LENGTH
    _check_size(denoiser, rows, length)

    if given is not None:
        tokens = _checked_given(denoiser, torch.atleast_2d(tokens), rows, length)
    return rows, length, tokens.expand(rows, length), torch.ones((), dtype=torch.bool).expand(rows, length)


def _start_of_lines(denoiser: Denoiser, lines: Sequence[Any], rows: int | None, length: int | None) -> Start:
    """The rows to start from, if their given tokens have different lengths: with padding behind the shorter ones."""
    longest = max(map(len, lines))
    if (rows, length) not in ((None, None), (len(lines), None), (len(lines), longest)):
        raise UnmaskError(
            f"rows or length is set, and given has {len(lines)} rows of different lengths",
            "expected neither",
            "Leave rows and length out.",
        )

    tokens = torch.full((len(lines), longest), PADDING)
    valid = torch.zeros(tokens.shape, dtype=torch.bool)
    for row, line in enumerate(lines):
        _check_size(denoiser, len(lines), len(line))
        try:
            tokens[row, : len(line)] = _checked_given(denoiser, torch.atleast_2d(_pattern(line)), 1, len(line))[0]
        except UnmaskError as error:
            raise UnmaskError(f"row {row}: {error}") from error
        valid[row, : len(line)] = True
    return len(lines), longest, tokens, valid


def _check_size(denoiser: Denoiser, rows: int, length: int) -> None:
    arguments.whole("length", length, 1, arguments.MOST_LENGTH)
    arguments.whole("rows", rows)
    fits(rows, f"rows of {length} tokens", PLACE_BYTES * length)
    if denoiser.language is not None:
        denoiser.language.check_length(length)


def _pattern(given: Any) -> Tensor:
    """(L), for all rows, or (B, L) whole numbers."""
    pattern = as_tokens(given, "given tokens")
    if pattern.dim() not in (1, 2):
        raise UnmaskError(f"given has shape {tuple(pattern.shape)}; expected (length) or (rows, length)")
    return pattern


def _checked_given(denoiser: Denoiser, pattern: Tensor, rows: int, length: int) -> Tensor:
    """The pattern (1, L) or (B, L) after its checks; an error where no sequence can start from it."""
    if denoiser.language is not None:
        return denoiser.language.check_given(pattern, rows, length)

    vocabulary = denoiser.vocabulary
    if pattern.shape[1] != length or len(pattern) not in (1, rows):
        raise UnmaskError(f"given has shape {tuple(pattern.shape)}; expected ({length},) or ({rows}, {length})")
    bad = (pattern < 0) | (pattern > vocabulary)
    if bad.any():
        row, position = bad.nonzero()[0].tolist()
        where = f"given row {row}, position {position}"
        token = int(pattern[row, position])
        raise UnmaskError(f"{where}: token is {token}; expected 0 to {vocabulary}, {vocabulary} for hidden")
    return pattern


def prompts(
    language: LanguageLike,
    rows: int,
    length: int,
    prompt_length: int,
    *,
    rows_per_prompt: int = 1,
    seed: int = 0,
    first_row: int = 0,
) -> Tensor:
    """(rows, length) for `given`: prefixes of x ~ q, then V. Row r continues sequence r // rows_per_prompt."""
    language = load(language)
    language.check_length(length)
    arguments.whole("prompt_length", prompt_length, 0, length)
    arguments.whole("rows_per_prompt", rows_per_prompt)
    arguments.whole("rows", rows)
    arguments.whole("first_row", first_row, 0, arguments.MOST - rows)
    fits(rows, f"rows of {length} tokens", PLACE_BYTES * length)

    which = torch.arange(first_row, first_row + rows) // rows_per_prompt
    first = int(which[0])
    drawn = language.sample(int(which[-1]) - first + 1, length, seed=seed, first_row=first)[which - first]
    drawn[:, prompt_length:] = language.vocabulary
    return drawn
