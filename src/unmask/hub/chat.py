"""How a conversation becomes tokens: a template a family, as plain data; nobody's Jinja is run.

A template writes its symbols of control by name, and they become numbers; what people have said is text between them,
so that somebody who writes <|im_end|> ends no turn. Text that meets is encoded together, as it was in training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from unmask.core.errors import UnmaskError, shown, unknown
from unmask.text.published import Published

GAP = re.compile(r"___(?:\{(\d{1,5})\})?")  # what is to be written; {N}: of so many tokens
Role = Literal["system", "user", "assistant"]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Role
    content: Annotated[str, msgspec.Meta(max_length=2**24)]


@dataclass(frozen=True)
class Template:
    """What each turn is written as; {} is where its text stands. controls: what becomes a number; where a tokenizer has
    none of these for `marks`, they are text like any other."""

    user: str
    assistant: str
    system: str
    opening: str  # of the turn that is to be written
    end: str  # of it
    controls: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    begin: str = ""
    spoken: str | None = None  # what the system says where nobody makes it say anything
    trimmed: bool = False  # spaces around what was said are left out

    def tokens(self, tokenizer: Published, messages: Sequence[Message], begun: str = "") -> list[int]:
        """A conversation, up to where its next turn is to be written, or with what that begins with."""
        if not messages or messages[-1].role == "assistant":
            raise UnmaskError("a conversation ends with what the user says; it is the model's turn then")
        if any(message.role == "system" for message in messages[1:]):
            raise UnmaskError("the system speaks first in a conversation, or not at all")
        if messages[0].role != "system" and self.spoken is not None:
            messages = [Message("system", self.spoken), *messages]
        parts: list[int | str] = [*self._parts(tokenizer, self.begin)]
        for message in messages:
            before, _, after = getattr(self, message.role).partition("{}")
            said = message.content.strip() if self.trimmed else message.content
            parts += [*self._parts(tokenizer, before), said, *self._parts(tokenizer, after)]
        return joined(tokenizer, [*parts, *self._parts(tokenizer, self.opening), begun])

    def ends(self, tokenizer: Published) -> int | str:
        """What its turn ends with: a symbol, or where the tokenizer has none a text."""
        return next(self._parts(tokenizer, self.end))

    def _parts(self, tokenizer: Published, text: str) -> Iterator[int | str]:
        """Symbols of control by their numbers, and the text between them."""
        known = (*self.controls, *(mark for mark in self.marks if mark in tokenizer.controls))
        pattern = "|".join(map(re.escape, known))
        for part in re.split(f"({pattern})", text) if known else [text]:
            if part:
                yield tokenizer.control(part) if part in known else part


def joined(tokenizer: Published, parts: Sequence[int | str]) -> list[int]:
    """The tokens of texts and numbers; texts beside each other are one."""
    made: list[int] = []
    text = ""
    for part in (*parts, -1):
        if isinstance(part, str):
            text += part
            continue
        if text:
            made += (tokenizer.encode_inside(text) if made else tokenizer.encode(text)).tolist()
            text = ""
        made.append(part)
    return made[:-1]


def filled_in(tokenizer: Published, text: str, length: int, hidden: int) -> list[int]:
    """The tokens of a text with gaps, ___ of `length` places and ___{N} of N, which are `hidden`."""
    if not GAP.search(text):
        raise UnmaskError(f"the template {shown(text)} has no gap; write ___ where something is to be written")
    made: list[int] = []
    last = 0
    for gap in GAP.finditer(text):
        made += _after(tokenizer, made, text[last : gap.start()])
        made += [hidden] * (length if gap[1] is None else int(gap[1]))
        last = gap.end()
    return made + _after(tokenizer, made, text[last:])


def _after(tokenizer: Published, before: Sequence[int], text: str) -> list[int]:
    return [int(token) for token in (tokenizer.encode_inside(text) if before else tokenizer.encode(text))]


def template(name: str) -> Template:
    """A template by the name that a card says."""
    if name not in TEMPLATES:
        raise unknown("chat template", name, TEMPLATES)
    return TEMPLATES[name]


def _chatml(opening: str = "", spoken: str | None = None) -> Template:
    turn = "<|im_start|>{}\n{{}}<|im_end|>\n"
    return Template(
        user=turn.format("user"),
        assistant=turn.format("assistant"),
        system=turn.format("system"),
        opening=f"<|im_start|>assistant\n{opening}",
        end="<|im_end|>",
        controls=("<|im_start|>", "<|im_end|>"),
        marks=("<think>", "</think>"),
        spoken=spoken,
    )


def _ling() -> Template:
    turn = "<role>{}</role>{{}}<|role_end|>"
    return Template(
        user=turn.format("HUMAN"),
        assistant=turn.format("ASSISTANT"),
        system=turn.format("SYSTEM"),
        opening="<role>ASSISTANT</role>",
        end="<|role_end|>",
        controls=("<|role_end|>",),
        marks=("<role>", "</role>"),
        spoken="detailed thinking off",
    )


def _llada() -> Template:
    turn = "<|start_header_id|>{}<|end_header_id|>\n\n{{}}<|eot_id|>"
    return Template(
        user=turn.format("user"),
        assistant=turn.format("assistant"),
        system=turn.format("system"),
        opening="<|start_header_id|>assistant<|end_header_id|>\n\n",
        end="<|eot_id|>",
        controls=("<|startoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        begin="<|startoftext|>",
        trimmed=True,
    )


def _question() -> Template:
    return Template(
        user="[Question]\n{}\n[/Question]\n\n",
        assistant="[Answer]\n{}\n[/Answer]\n\n",
        system="[SYS]\n{}\n[/SYS]\n\n",
        opening="[Answer]\n",
        end="[/Answer]",
        marks=("[SYS]", "[/SYS]", "[Question]", "[/Question]", "[Answer]", "[/Answer]"),
        trimmed=True,
    )


TEMPLATES: Mapping[str, Template] = {
    "llada": _llada(),
    "chatml": _chatml(),
    "qwen2": _chatml(spoken="You are a helpful assistant."),
    "qwen3": _chatml(opening="<think>\n\n</think>\n\n"),  # which thinks nothing
    "ling": _ling(),
    "question": _question(),
}
