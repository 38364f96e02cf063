"""Answers of an open model: the same prompts, ends and steps for commands and the harness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from unmask.core.errors import UnmaskError
from unmask.core.registry import parse
from unmask.models.open.prompted import Query, ending, ends, rows_of, speaker
from unmask.samplers import SAMPLERS
from unmask.samplers.making import generate

if TYPE_CHECKING:
    from unmask.models.open import OpenModel

BLOCK = 32  # LLaDA's block length, for cards without one


class Answer(NamedTuple):
    text: str  # without the string that ended it
    tokens: list[int]  # the written tokens, with the end
    given: int  # tokens of the prompt
    reason: str  # "stopped", or "length" if no end was written
    model_calls: int


def usual(
    model: OpenModel,
    length: int,
    *,
    sampler: str | None = None,
    block_length: int | None = None,
    steps: int | None = None,
    temperature: float | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Options of `generate`. By default AR models take the most likely token; masked models fill blocks from left to
    right like LLaDA, one token per step.

    A temperature goes to the sampler if it has such an option, since these samplers score at temperature 1; otherwise
    it applies to the marginals.
    """
    if model.card.causal:
        sampler, temperature = sampler or "autoregressive", 0.0 if temperature is None else temperature
    else:
        steps = length if steps is None else steps
        if sampler is None:
            sampler, block_length = "llada", block_length or min(model.card.block or BLOCK, length)
    return tempered(sampler, temperature, block_length=block_length, steps=steps, **options)


def tempered(
    sampler: str, temperature: float | None, block_length: int | None = None, **options: Any
) -> dict[str, Any]:
    """Options of `generate` without None. A temperature is the sampler's own if it has such an option, as is a
    block length; another temperature applies to the marginals."""
    name, written = parse("sampler", sampler)
    given = {"block_length": block_length, "temperature": temperature}
    own = {key: value for key, value in given.items() if value is not None and key in SAMPLERS.entry(name).options}
    if block_length is not None and "block_length" not in own:
        raise UnmaskError(f"sampler {name!r} has no option block_length. Leave it out, or use 'llada' or 'blocks'")
    if own:
        sampler = f"{name}({', '.join(f'{key}={value!r}' for key, value in (own | written).items())})"
    SAMPLERS.make(sampler)  # raises an error for an unknown sampler
    if temperature is not None and "temperature" not in own:
        options["temperature"] = temperature
    options |= {"sampler": sampler}
    return {key: value for key, value in options.items() if value is not None}


def answers(
    model: OpenModel,
    queries: Sequence[Query],
    length: int,
    *,
    until: Sequence[str] = (),
    **options: Any,
) -> list[Answer]:
    """Generate an answer of up to `length` tokens to each query, in one batch.

    until: strings that end an answer, besides the model's own end, or that of a turn. options: of `generate`; a
    sequence depends only on the seed and its number, counted from first_row.
    """
    rows = rows_of(model, queries, length)
    talks = any(query.messages is not None for query in queries)
    alike = len({len(row) for row in rows}) == 1
    stop = ending(model, until, talks)
    result = generate(model, given=torch.stack(rows) if alike else rows, stop=stop, **options)
    replies, strings = [], [*until, *ends(model, talks)[1]]
    for row, (text, given) in enumerate(zip(result.texts(speaker(model)), rows, strict=True)):
        end = int(result.lengths[row])
        tokens = result.tokens[row, :end][result.order[row, :end] > 0].tolist()
        answer = before_any(text, strings)
        stopped = result.reasons[row] != "filled" or answer != text
        known, needed = int((given != model.vocabulary).sum()), int(result.model_calls[row])
        replies.append(Answer(answer, tokens, known, "stopped" if stopped else "length", needed))
    return replies


def before_any(text: str, strings: Sequence[str]) -> str:
    """The part of a text before the first of these strings."""
    return text[: min((at for string in strings if (at := text.find(string)) >= 0), default=len(text))]
