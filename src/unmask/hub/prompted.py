"""What an open model is asked: prompts, conversations and texts with gaps become rows, each as long as it needs; and
when what it writes has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import read_lines
from unmask.hub.chat import Message, Template, filled_in, template
from unmask.samplers.stopping import AtToken, Either, StopRule, Until
from unmask.text.published import Published

if TYPE_CHECKING:
    from unmask.hub import OpenModel

Text = Annotated[str, msgspec.Meta(max_length=2**24)]
Messages = Annotated[list[Message], msgspec.Meta(min_length=1)]


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one of prompt, messages and template."""

    prompt: Text | None = None  # which the row begins with
    messages: Messages | None = None  # a conversation, in the model's own template
    template: Text | None = None  # a text with gaps, ___ or ___{N}
    begun: Text = ""  # what the answer to messages begins with

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.prompt, self.messages, self.template)) != 1:
            raise ValueError("Expected one of prompt, messages and template")
        if self.begun and self.messages is None:
            raise ValueError("Expected messages beside begun, which their answer begins with")


class TooLong(UnmaskError):
    """What is asked has more tokens than the model was made for."""


def read_prompts(path: str | Path) -> list[Asked]:
    """A line each: a text, messages, or {"prompt": text}, {"messages": [..]}, {"template": text}."""
    lines = (line for _, line in read_lines(path, Asked | Text | Messages))
    found = [Asked(prompt=line) if isinstance(line, str) else _asked(line) for line in lines]
    if not found:
        raise UnmaskError(f"{path} holds no prompts; write one a line, as a text in quotes")
    return found


def _asked(line: Asked | list[Message]) -> Asked:
    return Asked(messages=line) if isinstance(line, list) else line


def speaker(model: OpenModel) -> Published:
    """Its tokenizer; an error where it has none."""
    if not isinstance(model.tokenizer, Published):
        what = "it can only be given tokens, --given; put tokenizer.json beside the weights"
        raise UnmaskError(f"{model.name} has no tokenizer in its directory: {what}")
    return model.tokenizer


def chats(model: OpenModel) -> Template:
    """How it holds conversations; an error where it holds none."""
    if model.card.template is None:
        raise UnmaskError(f"{model.name} holds no conversations (its card has no chat template); give it --prompt")
    return template(model.card.template)


def rows_of(
    model: OpenModel, asked: Sequence[Asked], length: int, chat: bool = False, system: str | None = None
) -> list[Tensor]:
    """A row each, V where it is to be written: `length` tokens behind a prompt, or in each gap that does not say how
    many. chat: a prompt is what a user says; system: what the system says before all of them."""
    tokenizer, found = speaker(model), []
    first = () if system is None else (Message("system", system),)
    for number, one in enumerate(asked):
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
            what = f"{len(row)} tokens with what is to be written, and {model.name} was made for {model.length}"
            raise TooLong(f"prompt {number} ({_label(one)}) has {what}; ask for fewer (--length)")
        if max(row, default=0) > model.vocabulary:
            raise UnmaskError(f"prompt {number} ({_label(one)}) has token {max(row)}, which {model.name} does not know")
        found.append(torch.tensor(row))
    return found


def _label(one: Asked) -> str:
    text = one.prompt or one.template or (one.messages[-1].content if one.messages else "")
    return shown(text if len(text) < 40 else f"{text[:40]}..")


def ends(model: OpenModel, chat: bool = False) -> tuple[set[int], list[str]]:
    """What a row ends with by itself: tokens, the model's end and that of a turn, which may be a string instead."""
    tokens = model.card.tokens
    found = {token for token in (tokens.eos, tokens.end_of_turn) if token is not None}
    strings = []
    if chat:
        end = chats(model).ends(speaker(model))
        if isinstance(end, str):
            strings.append(end)
        else:
            found.add(end)
    return {token for token in found if token < model.vocabulary}, strings


def ending(model: OpenModel, until: Sequence[str] = (), chat: bool = False, own: bool = True) -> StopRule | None:
    """A row ends where one of these strings is complete; and, its own, with the model's end or that of a turn."""
    tokens, strings = ends(model, chat) if own else (set(), [])
    strings = [*until, *strings]
    card = model.card.tokens
    fills = [token for token in (card.pad, card.eos, *sorted(tokens)) if token is not None and token != card.mask]
    fill = next((token for token in fills if token < model.vocabulary), 0)
    rules: list[StopRule] = [AtToken(tuple(sorted(tokens)), fill)] if tokens else []
    if strings:
        rules.append(Until(tuple(strings), speaker(model).written, fill))
    return None if not rules else rules[0] if len(rules) == 1 else Either(tuple(rules))
