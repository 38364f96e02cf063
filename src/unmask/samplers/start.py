"""The start of a generation: the number of rows, their lengths, and the given tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.memory import PLACE_BYTES, fits
from unmask.core.run import Amount, Prompting
from unmask.core.samples import read_tokens
from unmask.denoisers import Denoiser
from unmask.languages import Language, LanguageLike, load
from unmask.languages.base import as_tokens

ROWS, LENGTH = 2000, 512  # defaults
PADDING = 0  # behind rows that are shorter than others; never read


def start(denoiser: Denoiser, given: Any, rows: int | None, length: int | None) -> tuple[int, int, Tensor, Tensor]:
    """(rows, length, tokens (rows, length) to start from, Bool (rows, length): False at padding)."""
    lines = _lines(given)
    if lines is None:
        pattern = None if given is None else _pattern(given)
        if pattern is not None:
            length = pattern.shape[-1] if length is None else length
            rows = len(pattern) if rows is None and pattern.dim() == 2 else rows
        rows, length = ROWS if rows is None else rows, LENGTH if length is None else length
        _check_size(denoiser, rows, length)
        if pattern is None:
            start = torch.tensor(denoiser.vocabulary).expand(rows, length)
        else:
            start = _checked_given(denoiser, torch.atleast_2d(pattern), rows, length).expand(rows, length)
        return rows, length, start, torch.ones((), dtype=torch.bool).expand(rows, length)
    if (rows, length) not in ((None, None), (len(lines), None), (len(lines), max(map(len, lines)))):
        problem = f"rows or length is set, and given has {len(lines)} rows of different lengths"
        raise UnmaskError(f"{problem}; expected neither. Leave rows and length out.")
    rows, length = len(lines), max(map(len, lines))
    start, valid = torch.full((rows, length), PADDING), torch.zeros((rows, length), dtype=torch.bool)
    for row, line in enumerate(lines):
        _check_size(denoiser, rows, len(line))
        try:
            start[row, : len(line)] = _checked_given(denoiser, torch.atleast_2d(_pattern(line)), 1, len(line))[0]
        except UnmaskError as error:
            raise UnmaskError(f"row {row}: {error}") from error
        valid[row, : len(line)] = True
    return rows, length, start, valid


def _lines(given: Any) -> list[Any] | None:
    """The rows, if they have different lengths, otherwise None."""
    if isinstance(given, Sequence) and given and all(hasattr(line, "__len__") for line in given):
        return list(given) if len({len(line) for line in given}) > 1 else None
    return None


def _check_size(denoiser: Denoiser, rows: int, length: int) -> None:
    arguments.length(length)
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
        row, position = (int(i) for i in bad.nonzero()[0])
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


def begun(
    source: Any,
    prompting: Prompting,
    amount: Amount,
    usual: tuple[int, int] | None = None,
    tokenizer: Any = None,
) -> dict[str, Any]:
    """Return given, rows and length of `generate` for a language or a network, whose tokenizer is that of its text."""
    each = arguments.whole("--rows-per-prompt", amount.rows_per_prompt)
    starts = {"--given": prompting.given, "--prompt": prompting.prompt, "--prompt-length": amount.prompt_length}
    arguments.at_most_one(starts)
    if prompting.given is not None:
        tokens = read_tokens(prompting.given, hidden=source.vocabulary).repeat_interleave(each, 0)
        many = len(tokens) if len(tokens) > 1 else ROWS
        length = tokens.shape[1] if amount.length is None else amount.length
        return {"given": tokens, "rows": many if amount.rows is None else amount.rows, "length": length}
    rows, length = usual or (ROWS, LENGTH)
    if not isinstance(source, Language):
        length = source.length
    elif usual is not None and amount.length is None:
        length = source.nearest_lengths(length)[-1]
    rows, length = rows if amount.rows is None else amount.rows, length if amount.length is None else amount.length
    given = None
    if amount.prompt_length is not None:
        if not isinstance(source, Language):
            raise UnmaskError("--prompt-length needs --language. Add it, or leave --prompt-length out")
        how = {"seed": amount.seed, "first_row": amount.first_row, "rows_per_prompt": each}
        given = prompts(source, rows, length, amount.prompt_length, **how)
    elif each > 1:
        raise UnmaskError("--rows-per-prompt needs prompts. Add --prompt-length, or --given with a file")
    elif prompting.prompt is not None:
        given = _encoded(prompting.prompt, length, tokenizer)
    return {"given": given, "rows": rows, "length": length}


def _encoded(prompt: str, length: int, tokenizer: Any) -> Tensor:
    """(1, L): the tokens of the prompt, then masks."""
    if tokenizer is None:
        raise UnmaskError("--prompt needs --model, the directory of a network that was trained on a text")
    tokens = torch.from_numpy(tokenizer.encode(prompt)).long()
    if len(tokens) >= length:
        expected = f"expected fewer than --length {length}. Shorten the prompt"
        raise UnmaskError(f"--prompt has {len(tokens)} tokens; {expected}")
    return torch.cat([tokens, torch.full((length - len(tokens),), tokenizer.vocabulary)]).unsqueeze(0)
