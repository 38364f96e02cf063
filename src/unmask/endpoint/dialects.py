"""The protocols of servers as data: how a request is built, and where answers and chunks of a stream have their text.

A path as "choices.0.message.content" names a value within JSON. Names of fields are those of OpenAI; a dialect
translates them. A field that is not given is not sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

APPEND, REPLACE, CANVAS = "append", "replace", "canvas"  # a chunk: new text, all final text, or the whole draft
Paths = tuple[str, ...]  # the first that has a value counts
CHOICE = "choices.0."


@dataclass(frozen=True)
class Dialect:
    name: str
    path: str
    prompt: str  # the field of the prompt; "messages" for conversations
    text: Paths
    chunk: Paths  # the text in a chunk of a stream
    finish: Paths
    chunks: str = APPEND
    kinds: Mapping[str, str] = field(default_factory=dict)  # of chunks, by the name or type of their event
    drafts: Mapping[str, Any] = field(default_factory=dict)  # fields that ask for drafts, or for edits of one
    whole: bool = False  # whether each chunk then is a whole draft
    inside: str = ""  # the object of the sampling fields
    beside: frozenset[str] = frozenset()  # fields that are not in it
    names: Mapping[str, str] = field(default_factory=dict)
    reasoning: Paths = ()
    thinking: Mapping[str, Any] = field(default_factory=dict)  # fields that ask for reasoning
    tokens: Paths = ("usage.completion_tokens",)
    prompt_tokens: Paths = ("usage.prompt_tokens",)
    reasoning_tokens: Paths = ("usage.completion_tokens_details.reasoning_tokens", "usage.reasoning_tokens")
    forwards: Paths = ("usage.forwards",)
    counting: Mapping[str, Any] = field(default_factory=dict)  # fields that ask a stream for its usage
    probabilities: Mapping[str, Any] = field(default_factory=dict)  # fields that ask for those of the first token
    usual: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 1.0, "top_p": 1.0})  # documented defaults
    models: bool = True  # whether a request names its model

    @property
    def chat(self) -> bool:
        return self.prompt == "messages"

    def body(
        self, prompt: str, messages: Sequence[Mapping[str, str]], model: str | None, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The JSON of a request."""
        prompts: Any = list(messages) or [{"role": "user", "content": prompt}] if self.chat else prompt
        body: dict[str, Any] = {self.prompt: prompts} | ({"model": model} if model and self.models else {})
        for name, value in fields.items():
            own = self.names.get(name, name)
            inner = body if not self.inside or own in self.beside else body.setdefault(self.inside, {})
            inner[own] = str(value) if own == "rid" else value
        return body

    def kind(self, event: str, content: Mapping[str, Any], body: Mapping[str, Any]) -> str:
        """How a chunk changes the text."""
        if self.kinds:
            return self.kinds.get(event or str(content.get("type") or content.get("event")), "")
        return CANVAS if self.whole and self.drafts.items() <= body.items() else self.chunks


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
    "finish": (f"{CHOICE}finish_reason",),
    "counting": {"stream_options": {"include_usage": True}},
}
_CHAT: dict[str, Any] = _OPENAI | {
    "path": "/v1/chat/completions",
    "prompt": "messages",
    "text": (f"{CHOICE}message.content",),
    "chunk": (f"{CHOICE}delta.content",),
    "reasoning": tuple(
        f"{CHOICE}{p}.{name}" for p in ("message", "delta") for name in ("reasoning_content", "reasoning")
    ),
}
DIALECTS = {
    one.name: one
    for one in (
        Dialect(
            "openai-chat",
            **_CHAT,
            drafts={"stream_mode": "edits"},
            thinking={"chat_template_kwargs": {"enable_thinking": True}},
            probabilities={"logprobs": True, "top_logprobs": 10},
        ),
        Dialect(
            "openai-completions",
            path="/v1/completions",
            prompt="prompt",
            text=(f"{CHOICE}text",),
            chunk=(f"{CHOICE}text",),
            drafts={"stream_mode": "edits"},
            probabilities={"logprobs": 10},
            **_OPENAI,
        ),
        Dialect(
            "sglang-generate",
            path="/generate",
            prompt="text",
            text=("text",),
            chunk=("text",),
            finish=("meta_info.finish_reason.type", "meta_info.finish_reason"),
            chunks=REPLACE,
            inside="sampling_params",
            beside=frozenset({"stream", "rid", "model", "return_logprob"}),
            names={"max_tokens": "max_new_tokens", "seed": "rid"},
            tokens=("meta_info.completion_tokens",),
            prompt_tokens=("meta_info.prompt_tokens",),
            forwards=("meta_info.dllm_forward_counts",),
            models=False,
        ),
        Dialect(
            "diffulex",
            path="/generate",
            prompt="prompt",
            text=("text",),
            chunk=("text",),
            finish=("finish_reason",),
            kinds={"append": APPEND, "buffer_snapshot": CANVAS, "final": REPLACE},
            tokens=("token_ids",),
            prompt_tokens=(),
            forwards=("nfe",),
            usual={"temperature": 1.0},
            models=False,
        ),
        Dialect(
            "mercury",
            **_CHAT,
            drafts={"diffusing": True},
            whole=True,
            thinking={"reasoning_effort": "high"},
        ),
    )
}
