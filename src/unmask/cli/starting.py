"""The tokens that commands start from: those of a file, of a text, or prompts of a language; for `generate`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.run import Amount, Prompting
from unmask.core.samples import read_tokens
from unmask.languages import Language
from unmask.samplers import prompts
from unmask.samplers.starting import LENGTH, ROWS


def started(
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
        rows = len(tokens) if len(tokens) > 1 else ROWS
        return {"given": tokens} | _asked(amount, rows, tokens.shape[1])

    rows, length = usual or (ROWS, LENGTH)
    if not isinstance(source, Language):
        length = getattr(source, "length", length)
    elif usual is not None and amount.length is None:
        length = source.nearest_lengths(length)[-1]
    size = _asked(amount, rows, length)

    given = None
    if amount.prompt_length is not None:
        if not isinstance(source, Language):
            raise UnmaskError("--prompt-length needs --language. Add it, or leave --prompt-length out")
        given = prompts(
            source,
            prompt_length=amount.prompt_length,
            seed=amount.seed,
            first_row=amount.first_row,
            rows_per_prompt=each,
            **size,
        )
    elif each > 1:
        raise UnmaskError("--rows-per-prompt needs prompts. Add --prompt-length, or --given with a file")
    elif prompting.prompt is not None:
        given = _encoded(prompting.prompt, size["length"], tokenizer)
    return {"given": given} | size


def _asked(amount: Amount, rows: int, length: int) -> dict[str, int]:
    """The size that flags ask for, or else these rows and this length."""
    return {
        "rows": rows if amount.rows is None else amount.rows,
        "length": length if amount.length is None else amount.length,
    }


def _encoded(prompt: str, length: int, tokenizer: Any) -> Tensor:
    """(1, L): the tokens of the prompt, then masks."""
    if tokenizer is None:
        raise UnmaskError("--prompt needs --model, the directory of a network that was trained on a text")
    tokens = torch.from_numpy(tokenizer.encode(prompt)).long()
    if len(tokens) >= length:
        raise UnmaskError(
            f"--prompt has {len(tokens)} tokens", f"expected fewer than --length {length}", "Shorten the prompt"
        )
    return torch.cat([tokens, torch.full((length - len(tokens),), tokenizer.vocabulary)]).unsqueeze(0)
