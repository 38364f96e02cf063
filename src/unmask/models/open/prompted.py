"""Turn prompts, conversations and texts with gaps into sequences for an open model, and define where they end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import read_lines
from unmask.models.open.chat import Message, Template, filled_in, template
from unmask.models.text.published import Published
from unmask.samplers.stopping import AtToken, Either, StopRule, Until

if TYPE_CHECKING:
    from unmask.models.open import OpenModel

Text = Annotated[str, msgspec.Meta(max_length=2**24)]
Messages = Annotated[list[Message], msgspec.Meta(min_length=1)]


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one of prompt, messages and template."""

    prompt: Text | None = None  # the beginning of the sequence
    messages: Messages | None = None  # a conversation, written in the model's chat template
    template: Text | None = None  # a text with gaps, ___ or ___{N}
    begun: Text = ""  # the beginning of the answer to messages

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.prompt, self.messages, self.template)) != 1:
            raise ValueError("Expected one of prompt, messages and template")
        if self.begun and self.messages is None:
            raise ValueError("begun, the beginning of an answer, needs messages. Pass both, or leave begun out")


class TooLong(UnmaskError):
    """The prompt and its answer have more tokens than the model allows."""


def read_prompts(path: str | Path) -> list[Query]:
    """Read one query per line: a text, messages, or {"prompt": text}, {"messages": [..]}, {"template": text}."""
    queries = [_query(line) for _, line in read_lines(path, Query | Text | Messages)]
    if not queries:
        raise UnmaskError(f"{path} contains no prompts; expected one per line, as a text in quotes")
    return queries


def _query(line: Query | str | list[Message]) -> Query:
    if isinstance(line, str):
        return Query(prompt=line)
    return Query(messages=line) if isinstance(line, list) else line


def speaker(model: OpenModel) -> Published:
    """The model's tokenizer; an error if it has none."""
    if not isinstance(model.tokenizer, Published):
        remedy = "Put tokenizer.json next to the weights, or pass tokens with --given"
        raise UnmaskError(f"{model.name} has no tokenizer in its directory. {remedy}")
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
    tokenizer, rows = speaker(model), []
    first = () if system is None else (Message("system", system),)
    for number, one in enumerate(queries):
        if one.template is not None:
            row = filled_in(tokenizer, one.template, length, model.vocabulary)
        else:
            messages = [*first, Message("user", one.prompt)] if chat and one.prompt is not None else one.messages
            if messages is not None:
                row = chats(model).tokens(tokenizer, messages, one.begun)
            else:
                row = tokenizer.encode(one.prompt or "").tolist()
            row = row + [model.vocabulary] * length
        if len(row) > model.length:
            problem = f"prompt {number} ({_label(one)}) and its answer have {len(row)} tokens"
            raise TooLong(f"{problem}; expected at most {model.length} for {model.name}. Reduce --length")
        if max(row, default=0) > model.vocabulary:
            problem = f"prompt {number} ({_label(one)}) contains token {max(row)}"
            raise UnmaskError(f"{problem}; expected 0 to {model.vocabulary - 1}, the vocabulary of {model.name}")
        rows.append(torch.tensor(row))
    return rows


def _label(one: Query) -> str:
    text = one.prompt or one.template or (one.messages[-1].content if one.messages else "")
    return shown(text if len(text) < 40 else f"{text[:40]}..")


def ends(model: OpenModel, chat: bool = False) -> tuple[set[int], list[str]]:
    """(tokens, strings) that end a sequence: the model's own end, and that of a turn."""
    card = model.card.tokens
    tokens = {token for token in (card.eos, card.end_of_turn) if token is not None}
    strings = []
    if chat:
        end = chats(model).ends(speaker(model))
        if isinstance(end, str):
            strings.append(end)
        else:
            tokens.add(end)
    return {token for token in tokens if token < model.vocabulary}, strings


def ending(model: OpenModel, until: Sequence[str] = (), chat: bool = False, own: bool = True) -> StopRule | None:
    """The rule that ends a sequence at one of these strings; own: also at the model's end, or that of a turn."""
    tokens, strings = ends(model, chat) if own else (set(), [])
    strings = [*until, *strings]
    card = model.card.tokens
    fills = [token for token in (card.pad, card.eos, *sorted(tokens)) if token is not None and token != card.mask]
    fill = next((token for token in fills if token < model.vocabulary), 0)
    rules: list[StopRule] = [AtToken(tuple(sorted(tokens)), fill)] if tokens else []
    if strings:
        rules.append(Until(tuple(strings), speaker(model).written, fill))
    return None if not rules else rules[0] if len(rules) == 1 else Either(tuple(rules))
