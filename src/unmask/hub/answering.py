"""What an open model answers to whoever asks: the same rows, ends and rounds for a command, a harness and a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from unmask.core.errors import UnmaskError
from unmask.core.registry import parse
from unmask.generation.making import generate
from unmask.generation.result import Generation
from unmask.hub.prompted import Asked, ending, ends, rows_of, speaker
from unmask.samplers import SAMPLERS
from unmask.samplers.stopping import StopRule

if TYPE_CHECKING:
    from unmask.hub import OpenModel

BLOCK = 32  # of LLaDA's, where a card has none


class Answered(NamedTuple):
    text: str  # what was written, up to where it has ended, without the string that ended it
    tokens: list[int]  # what was written, with what ended it
    given: int  # tokens
    reason: str  # "stopped"; "length" where there was no room for more
    evaluations: int


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
    """Options of `generate`. Unless told otherwise an AR model takes the likeliest token, and a masked model fills
    blocks from left to right as LLaDA does, one token a round.

    A temperature is the sampler's own where it has one, since such samplers score at 1; else that of the marginals.
    """
    if model.card.causal:
        sampler, temperature = sampler or "autoregressive", 0.0 if temperature is None else temperature
    else:
        steps = length if steps is None else steps
        if sampler is None:
            sampler, block_length = "llada", block_length or min(model.card.block or BLOCK, length)
    name, said = parse("sampler", sampler)
    asked = {"block_length": block_length, "temperature": temperature}
    own = {key: value for key, value in asked.items() if value is not None and key in SAMPLERS.entry(name).options}
    if block_length is not None and "block_length" not in own:
        raise UnmaskError(f"sampler {name!r} has no option block_length; leave it out, or take 'llada' or 'blocks'")
    if own:
        sampler = f"{name}({', '.join(f'{key}={value!r}' for key, value in (own | said).items())})"
    SAMPLERS.make(sampler)  # which refuses one that there is not
    if temperature is not None and "temperature" not in own:
        options["temperature"] = temperature
    found = {"sampler": sampler, "steps": steps} | options
    return {key: value for key, value in found.items() if value is not None}


def answers(
    model: OpenModel,
    asked: Sequence[Asked],
    length: int,
    *,
    until: Sequence[str] = (),
    chat: bool = False,
    system: str | None = None,
    own: bool = True,
    watch: Callable[[StopRule | None], StopRule] | None = None,
    **options: Any,
) -> tuple[list[Answered], Generation]:
    """An answer of up to `length` tokens to each that is asked, generated together.

    until: where one of these is complete an answer ends; own: as it does with the model's end, or that of a turn. chat:
    a prompt is what a user says. watch: makes of the rule that ends rows another, which sees them after each round.
    options: of `generate`; first_row numbers the rows, and a row depends on its number and the seed alone.
    """
    rows = rows_of(model, asked, length, chat, system)
    talks = chat or any(one.messages is not None for one in asked)
    rule = ending(model, until, talks, own)
    alike = len({len(row) for row in rows}) == 1
    stop = rule if watch is None else watch(rule)
    made = generate(model, given=torch.stack(rows) if alike else rows, stop=stop, **options)
    found, strings = [], [*until, *(ends(model, talks)[1] if own else ())]
    for row, (text, given) in enumerate(zip(made.texts(speaker(model)), rows, strict=True)):
        end = int(made.lengths[row])
        tokens = made.tokens[row, :end][made.order[row, :end] > 0].tolist()
        said = before_any(text, strings)
        stopped = made.reasons[row] != "filled" or said != text
        known, needed = int((given != model.vocabulary).sum()), int(made.evaluations[row])
        found.append(Answered(said, tokens, known, "stopped" if stopped else "length", needed))
    return found, made


def before_any(text: str, strings: Sequence[str]) -> str:
    """What stands before the first of these."""
    places = [place for string in strings if (place := text.find(string)) >= 0]
    return text[: min(places)] if places else text
