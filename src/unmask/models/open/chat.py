"""Turn conversations and texts with gaps into tokens. Each family has a template: plain data; no Jinja template is run.

Templates contain special tokens by name. Messages are always text, so a message with <|im_end|> does not end a turn.
Adjacent texts are encoded together, as in training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, shown
from unmask.models.text.published import Published

GAP = re.compile(r"___(?:\{(\d{1,5})\})?")  # a gap to fill; {N}: its number of tokens
Text = Annotated[str, msgspec.Meta(max_length=2**24)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]
    content: Text


@dataclass(frozen=True)
class Template:
    """The text of each turn, with {} for its message. controls: special tokens; marks: special tokens that are plain
    text in tokenizers without them."""

    user: str
    assistant: str
    system: str
    opening: str  # the beginning of the turn to write
    end: str  # the special token that ends that turn
    controls: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    begin: str = ""
    spoken: str | None = None  # the default message of the system
    trimmed: bool = False  # whether spaces around messages are removed

    def tokens(self, tokenizer: Published, messages: Sequence[Message], begun: str = "") -> list[int]:
        """Tokens of a conversation up to the beginning of its next turn, followed by `begun`."""
        if not messages or messages[-1].role == "assistant":
            raise UnmaskError("the last message is not of the user; expected one, which the model answers")
        if "system" in entries.column(messages[1:], "role"):
            raise UnmaskError("a system message follows other messages; expected it to be the first")
        if messages[0].role != "system" and self.spoken is not None:
            messages = [Message("system", self.spoken), *messages]
        parts: list[int | str] = [*self._parts(tokenizer, self.begin)]
        for message in messages:
            before, _, after = getattr(self, message.role).partition("{}")
            text = message.content.strip() if self.trimmed else message.content
            parts += [*self._parts(tokenizer, before), text, *self._parts(tokenizer, after)]
        return joined(tokenizer, [*parts, *self._parts(tokenizer, self.opening), begun])

    def _parts(self, tokenizer: Published, text: str) -> Iterator[int | str]:
        """Split a text into special tokens, as numbers, and the text between them."""
        known = (*self.controls, *(mark for mark in self.marks if mark in tokenizer.controls))
        pattern = "|".join(map(re.escape, known))
        for part in re.split(f"({pattern})", text) if known else [text]:
            if part:
                yield tokenizer.control(part) if part in known else part


def _turns(turn: str, end: str, names: Sequence[str] = ("user", "assistant", "system"), **more: Any) -> Template:
    """A template whose turns differ only in the name of the speaker, {}; the message follows the name."""
    user, assistant, system = map(turn.format, names)
    opening = assistant + more.pop("opening", "")
    return Template(f"{user}{{}}{end}", f"{assistant}{{}}{end}", f"{system}{{}}{end}", opening, end.strip(), **more)


def _chatml(**more: Any) -> Template:
    controls, marks = ("<|im_start|>", "<|im_end|>"), ("<think>", "</think>")
    return _turns("<|im_start|>{}\n", "<|im_end|>\n", controls=controls, marks=marks, **more)


TEMPLATES: Mapping[str, Template] = {
    "llada": _turns(
        "<|start_header_id|>{}<|end_header_id|>\n\n",
        "<|eot_id|>",
        controls=("<|startoftext|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        begin="<|startoftext|>",
        trimmed=True,
    ),
    "chatml": _chatml(),
    "qwen2": _chatml(spoken="You are a helpful assistant."),
    "qwen3": _chatml(opening="<think>\n\n</think>\n\n"),  # with an empty thought
}


def template(name: str) -> Template:
    """The template of this name."""
    return TEMPLATES[arguments.word("chat template", name, TEMPLATES)]


def joined(tokenizer: Published, parts: Sequence[int | str]) -> list[int]:
    """Tokens of texts and numbers; adjacent texts are encoded together."""
    tokens: list[int] = []
    text = ""
    for part in (*parts, -1):
        if isinstance(part, str):
            text += part
            continue
        if text:
            tokens += (tokenizer.encode_inside(text) if tokens else tokenizer.encode(text)).tolist()
            text = ""
        tokens.append(part)
    return tokens[:-1]


def filled_in(tokenizer: Published, text: str, length: int, hidden: int) -> list[int]:
    """Tokens of a text with gaps, which become `hidden`: `length` tokens for ___, and N for ___{N}."""
    before, *rest = GAP.split(text)  # each gap gives its N, or None, and the text after it
    if not rest:
        raise UnmaskError(f"the template {shown(text)} has no gap. Write ___ where text is to be generated")
    parts: list[int | str] = [before]
    for number, after in zip(rest[::2], rest[1::2], strict=True):
        parts += [*[hidden] * int(number or length), after]
    return joined(tokenizer, parts)
