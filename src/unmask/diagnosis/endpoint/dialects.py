"""The protocols of servers as data: how a request is built, and where an answer or a chunk of a stream has its text.

A path as "choices.0.message.content" names a value within JSON. Names of fields are those of OpenAI; a dialect
translates them. A field that is not given is not sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Paths = tuple[str, ...]  # the first that has a value counts
USUAL = {"temperature": 1.0, "top_p": 1.0}  # documented defaults


@dataclass(frozen=True)
class Dialect:
    name: str
    path: str
    prompt: str  # the field of the prompt; "messages" for a conversation
    text: Paths
    chunk: Paths  # the text in a chunk of a stream
    finish: Paths
    replaces: bool = False  # whether a chunk has the whole text, or only what is new
    inside: str = ""  # the object of the sampling fields
    beside: frozenset[str] = frozenset()  # fields that are not in it
    names: Mapping[str, str] = field(default_factory=dict)
    reasoning: Paths = ()
    tokens: Paths = ("usage.completion_tokens",)
    forwards: Paths = ("usage.forwards",)
    drafts: Mapping[str, Any] = field(default_factory=dict)  # fields that ask a stream for the edits of each step
    thinking: Mapping[str, Any] = field(default_factory=dict)  # fields that ask for reasoning
    counting: Mapping[str, Any] = field(default_factory=dict)  # fields that ask a stream for its usage
    probabilities: Mapping[str, Any] = field(default_factory=dict)  # fields that ask for those of the first token
    models: bool = True  # whether a request names its model

    def body(self, prompt: str, model: str | None, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON of a request."""
        content: Any = [{"role": "user", "content": prompt}] if self.prompt == "messages" else prompt
        body: dict[str, Any] = {self.prompt: content} | ({"model": model} if model and self.models else {})
        for name, value in fields.items():
            own = self.names.get(name, name)
            inner = body if not self.inside or own in self.beside else body.setdefault(self.inside, {})
            inner[own] = str(value) if own == "rid" else value
        return body


def dig(content: Any, paths: Paths) -> Any:
    """The first value at one of the paths that is not null."""
    for path in paths:
        inner = content
        for part in path.split("."):
            if isinstance(inner, Mapping):
                inner = inner.get(part)
            elif isinstance(inner, list) and part.isdecimal() and int(part) < len(inner):
                inner = inner[int(part)]
            else:
                inner = None
        if inner is not None:
            return inner
    return None


_OPENAI: dict[str, Any] = {
    "finish": ("choices.0.finish_reason",),
    "drafts": {"stream_mode": "edits"},
    "counting": {"stream_options": {"include_usage": True}},
}
_THOUGHTS = ("message.reasoning_content", "message.reasoning", "delta.reasoning_content", "delta.reasoning")
CHAT = Dialect(
    "openai-chat",
    path="/v1/chat/completions",
    prompt="messages",
    text=("choices.0.message.content",),
    chunk=("choices.0.delta.content",),
    reasoning=tuple(f"choices.0.{path}" for path in _THOUGHTS),
    thinking={"chat_template_kwargs": {"enable_thinking": True}},
    probabilities={"logprobs": True, "top_logprobs": 10},
    **_OPENAI,
)
COMPLETIONS = Dialect(
    "openai-completions",
    path="/v1/completions",
    prompt="prompt",
    text=("choices.0.text",),
    chunk=("choices.0.text",),
    probabilities={"logprobs": 10},
    **_OPENAI,
)
SGLANG = Dialect(
    "sglang-generate",
    path="/generate",
    prompt="text",
    text=("text",),
    chunk=("text",),
    finish=("meta_info.finish_reason.type", "meta_info.finish_reason"),
    replaces=True,
    inside="sampling_params",
    beside=frozenset({"stream", "rid", "return_logprob"}),
    names={"max_tokens": "max_new_tokens", "seed": "rid"},
    tokens=("meta_info.completion_tokens",),
    forwards=("meta_info.dllm_forward_counts",),
    models=False,
)
DIALECTS = {one.name: one for one in (CHAT, COMPLETIONS, SGLANG)}
