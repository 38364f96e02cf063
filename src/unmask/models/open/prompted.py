"""Prompts, conversations and texts with gaps as sequences for an open model; where they end; and its answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import torch
from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import read_lines
from unmask.core.run import Amount, Prompting
from unmask.core.samples import read_tokens
from unmask.core.specs import parse, written
from unmask.models.open.chat import Message, Template, Text, filled_in, template
from unmask.models.text.published import Published
from unmask.samplers import SAMPLERS
from unmask.samplers.generation import generate
from unmask.samplers.stopping import AtToken, Either, StopRule, Until

if TYPE_CHECKING:
    from unmask.models.open import OpenModel

BLOCK = 32  # LLaDA's block length, for cards without one
NEW = 128  # default number of new tokens
SHORT: dict[type, str] = {str: "prompt", list: "messages"}  # of a line that is not an object

Messages = Annotated[list[Message], msgspec.Meta(min_length=1)]


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one of prompt, messages and template."""

    prompt: Text | None = None  # the beginning of the sequence
    messages: Messages | None = None  # a conversation, written in the model's chat template
    template: Text | None = None  # a text with gaps, ___ or ___{N}
    begun: Text = ""  # the beginning of the answer to messages

    def __post_init__(self) -> None:
        if len(entries.present([self.prompt, self.messages, self.template])) != 1:
            raise ValueError("Expected one of prompt, messages and template")
        if self.begun and self.messages is None:
            raise ValueError("begun, the beginning of an answer, needs messages. Pass both, or leave begun out")

    @property
    def label(self) -> str:
        text = (self.messages or [Message("user", self.prompt or self.template or "")])[-1].content
        return shown(text if len(text) < 40 else f"{text[:40]}..")


class TooLong(UnmaskError):
    """The prompt and its answer have more tokens than the model allows."""


def read_prompts(path: str | Path) -> list[Query]:
    """Read one query per line: a text, messages, or {"prompt": text}, {"messages": [..]}, {"template": text}."""
    queries = []
    for _, line in read_lines(path, Query | Text | Messages):
        if not isinstance(line, Query):
            line = Query(**{SHORT[type(line)]: line})
        queries.append(line)
    if not queries:
        raise UnmaskError(f"{path} contains no prompts; expected one per line, as a text in quotes")
    return queries


def speaker(model: OpenModel) -> Published:
    """The model's tokenizer; an error if it has none."""
    if not isinstance(model.tokenizer, Published):
        raise UnmaskError(
            f"{model.name} has no tokenizer",
            "Put tokenizer.json next to the weights (your own model: masked(.., tokenizer=DIR)), or use --given",
        )
    return model.tokenizer


def chats(model: OpenModel) -> Template:
    """The model's chat template; an error if it has none."""
    if model.card.template is None:
        raise UnmaskError(f"{model.name} has no chat template in its card. Use --prompt without --chat")
    return template(model.card.template)


def rows_of(
    model: OpenModel, queries: Sequence[Query], length: int, chat: bool = False, system: str | None = None
) -> list[Tensor]:
    """A sequence per query with V at hidden positions: `length` after a prompt, or in each gap without a number.

    chat: prompts are messages of a user; system: the message of the system before them.
    """
    rows = []
    tokenizer = speaker(model)
    first = () if system is None else (Message("system", system),)

    for number, one in enumerate(queries):
        hidden = [model.vocabulary] * length
        if one.template is not None:
            row = filled_in(tokenizer, one.template, length, model.vocabulary)
        elif one.messages is not None:
            row = chats(model).tokens(tokenizer, one.messages, one.begun) + hidden
        elif chat:
            row = chats(model).tokens(tokenizer, [*first, Message("user", one.prompt or "")], one.begun) + hidden
        else:
            row = tokenizer.encode(one.prompt or "").tolist() + hidden

        if len(row) > model.length:
            problem = f"prompt {number} ({one.label}) and its answer have {len(row)} tokens"
            raise TooLong(f"{problem}; expected at most {model.length} for {model.name}. Reduce --length")

        if max(row, default=0) > model.vocabulary:
            raise UnmaskError(
                f"prompt {number} ({one.label}) contains token {max(row)}",
                f"expected 0 to {model.vocabulary - 1}, the vocabulary of {model.name}",
            )

        rows.append(torch.tensor(row))
    return rows


def ends(model: OpenModel, chat: bool = False) -> set[int]:
    """The tokens that end a sequence: the model's own end, and that of a turn."""
    card = model.card.tokens
    turn = speaker(model).control(chats(model).end) if chat else None
    return {token for token in (card.eos, card.end_of_turn, turn) if token is not None and token < model.vocabulary}


def ending(model: OpenModel, until: Sequence[str] = (), chat: bool = False, own: bool = True) -> StopRule | None:
    """The rule that ends a sequence at one of these strings; own: also at the model's end, or that of a turn."""
    card = model.card.tokens
    tokens = sorted(ends(model, chat)) if own else []
    fills = [token for token in (card.pad, card.eos, *tokens) if token is not None and token != card.mask]
    fill = next((token for token in fills if token < model.vocabulary), 0)

    rules: list[StopRule] = []
    if tokens:
        rules.append(AtToken(tuple(tokens), fill))
    if until:
        rules.append(Until(tuple(until), speaker(model).written, fill))
    if len(rules) > 1:
        return Either(tuple(rules))
    return next(iter(rules), None)


def queries_of(how: Prompting) -> list[Query]:
    """The queries of a command, checked before a model is loaded."""
    options = {"--given": how.given, "--prompt": how.prompt, "--prompts": how.prompts, "--template": how.template}
    arguments.at_most_one(options)
    queries: list[Query] = []
    if how.prompts is not None:
        queries = read_prompts(how.prompts)
    elif how.prompt is not None or how.template is not None:
        queries = [Query(prompt=how.prompt, template=how.template)]
    if how.chat and set(entries.column(queries, "prompt")) <= {None}:
        raise UnmaskError("--chat needs a user message. Add --prompt or --prompts")
    if how.system is not None and not how.chat:
        raise UnmaskError("--system needs --chat. In a file of --prompts, write a system message instead")
    return queries


def begun(model: OpenModel, queries: Sequence[Query], how: Prompting, amount: Amount) -> dict[str, Any]:
    """given, rows, length and stop of `generate` for the queries of a command."""
    each = arguments.whole("--rows-per-prompt", amount.rows_per_prompt)
    rows, length = amount.rows, amount.length

    conversations = how.chat or any(entries.column(queries, "messages"))
    if conversations:
        chats(model)

    ends = None in entries.column(queries, "template")  # a text with gaps, or without a prompt, has no end
    start = {"stop": ending(model, how.until, conversations, own=ends and how.stop)}

    if how.given is not None:
        tokens = read_tokens(how.given, hidden=model.vocabulary).repeat_interleave(each, 0)
        return start | {"given": tokens, "rows": entries.chosen(rows, len(tokens)), "length": length}

    if not queries:
        if each > 1:
            raise UnmaskError("--rows-per-prompt needs prompts. Add --prompt, or --prompts with a file")
        return start | {"given": None, "rows": entries.chosen(rows, 1), "length": entries.chosen(length, model.length)}

    # --rows stands for rows of the only prompt
    many = len(queries)
    if rows is not None and many == 1 == each:
        each = arguments.whole("--rows", rows)
    elif rows is not None and rows != many * each:
        raise UnmaskError(
            f"--rows is {rows}; {many} prompts with {each} rows each make {many * each}",
            "Leave --rows out, and set --rows-per-prompt",
        )

    if length is None:
        longest = max(map(len, rows_of(model, queries, 0, how.chat, how.system)))
        length = max(min(NEW, model.length - longest), 1)

    given = rows_of(model, queries, arguments.whole("--length", length), how.chat, how.system)
    given = [row for row in given for _ in range(each)]

    if len(set(map(len, given))) > 1:
        return start | {"given": given, "rows": None, "length": None}
    return start | {"given": torch.stack(given), "rows": len(given), "length": None}


class Answer(NamedTuple):
    text: str  # without the string that ended it
    tokens: list[int]  # the written tokens, with the end
    given: int  # tokens of the prompt
    reason: str  # "stopped", or "length" if no end was written
    model_calls: int


def answers(
    model: OpenModel, queries: Sequence[Query], length: int, *, until: Sequence[str] = (), **options: Any
) -> list[Answer]:
    """Generate an answer of up to `length` tokens to each query, in one batch; `until` ends it, too."""
    rows = rows_of(model, queries, length)
    talks = any(entries.column(queries, "messages"))
    given = torch.stack(rows) if len(set(map(len, rows))) == 1 else rows
    result = generate(model, given=given, stop=ending(model, until, talks), **options)

    replies = []
    for row, (text, given_row) in enumerate(zip(result.texts(speaker(model)), rows, strict=True)):
        end = int(result.lengths[row])

        tokens = result.tokens[row, :end][result.order[row, :end] > 0].tolist()
        answer = before_any(text, until)
        stopped = result.reasons[row] != "filled" or answer != text

        known = int((given_row != model.vocabulary).sum())
        needed = int(result.model_calls[row])
        replies.append(Answer(answer, tokens, known, "stopped" if stopped else "length", needed))
    return replies


def before_any(text: str, strings: Sequence[str]) -> str:
    """The part of a text before the first of these strings."""
    return text[: min((at for string in strings if (at := text.find(string)) >= 0), default=len(text))]


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
    right like LLaDA, one token per step."""
    if model.card.causal:
        sampler = sampler or "autoregressive"
        temperature = entries.chosen(temperature, 0.0)
    else:
        steps = entries.chosen(steps, length)
        if sampler is None:
            sampler = "llada"
            block_length = block_length or min(model.card.block or BLOCK, length)

    return tempered(sampler, temperature, block_length=block_length, steps=steps, **options)


def tempered(
    sampler: str, temperature: float | None, block_length: int | None = None, **options: Any
) -> dict[str, Any]:
    """Options of `generate` without None. A temperature is the sampler's own if it has such an option, since these
    samplers score at temperature 1, as is a block length; another temperature applies to the marginals."""
    name, its = parse("sampler", sampler)
    both = entries.given({"block_length": block_length, "temperature": temperature})
    own = {key: value for key, value in both.items() if key in SAMPLERS.entry(name).options}

    if block_length is not None and "block_length" not in own:
        raise UnmaskError(f"sampler {name!r} has no option block_length. Leave it out, or use 'llada' or 'blocks'")

    if own:
        sampler = written(name, own | its)

    SAMPLERS.make(sampler)  # raises an error for an unknown sampler

    if "temperature" not in own:
        options["temperature"] = temperature
    return entries.given(options | {"sampler": sampler})
