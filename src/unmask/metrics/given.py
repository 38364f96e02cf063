"""Conditional metrics: given tokens, and the number of independent prompts (theory.md 2, the last paragraph).

    TER = 2^{E_c E_{x~q(.|c)}[-log2 p(x|c) / |x|]}          SER = E_c[1 - p(L_q(c) | c)],  L_q(c) = {x: q(x|c) > 0}

|x| counts the tokens to write. Rows with equal given tokens have one prompt, and only prompts are independent: m
samples each of K prompts have the variance (between prompts + within / m) / K.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.languages import Language


def patterns(language: Language, given: Tensor, rows: int, length: int) -> Tensor:
    """(rows, L) given tokens with V where hidden, from one pattern for all or one per row."""
    return language.check_given(given, rows, length).expand(rows, length)


def prompt_numbers(given: Tensor | None) -> Tensor | None:
    """(rows): number of the prompt that each row continues; None without given tokens."""
    return None if given is None else given.unique(dim=0, return_inverse=True)[1]


def own_sizes(language: Language, tokens: Tensor, given: Tensor | None) -> Tensor:
    """|x| of each row (B): its tokens up to and including the first end, without given ones."""
    if given is None:
        return language.sizes(tokens)
    inside = torch.arange(tokens.shape[1]) < language.sizes(tokens).unsqueeze(1)
    return (inside & (given == language.vocabulary)).sum(1)


def hidden_counts(language: Language, given: Tensor) -> Tensor:
    """(rows): number of hidden positions, at least one."""
    counts = (given == language.vocabulary).sum(1)
    if bool((counts == 0).any()):
        row = int((counts == 0).int().argmax())
        raise UnmaskError(f"given row {row} has no hidden position; expected at least one token to predict")
    return counts
