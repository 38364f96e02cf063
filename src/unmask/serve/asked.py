"""What a client asks in OpenAI's words, and ours beside them, as settings of `hub.answering`; checked at once,
so that nothing wrong waits in a queue.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import from_json
from unmask.denoisers.marginals import check_sharpening
from unmask.hub.answering import usual
from unmask.hub.chat import Message
from unmask.hub.prompted import Asked, Text, TooLong, ends, rows_of
from unmask.samplers.contract import CAUSAL, as_sampler
from unmask.schedules import deltas

if TYPE_CHECKING:
    from unmask.hub import OpenModel

USUAL = 256  # tokens of an answer, where nobody says; or what fits
EACH = 1024  # numbers of rows that belong to one seed
SEEDS = 2**40
ROUNDS = 16  # for each token of the longest answer
SILENT = {"logit_bias": {}, "response_format": {"type": "text"}}  # what these say where they ask for nothing
FIELDS = ("sampler", "schedule", "steps", "block_length", "temperature", "top_p", "top_k", "guidance")


class Refused(UnmaskError):
    """What cannot be answered, as OpenAI's clients are told: an HTTP status, and a code for programs."""

    def __init__(self, message: str, status: int = 400, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    def to_dict(self) -> dict[str, Any]:
        kinds = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error"}
        kind = kinds.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True)
class Limits:
    """What is refused at once, and how many rows are made together."""

    tokens: int = 1024  # of an answer
    answers: int = 16  # to one request: its prompts times n
    waiting: int = 64  # rows in the queue
    batch: int = 8  # rows
    body: int = 2**20  # bytes
    seconds: float = 600.0  # of making an answer
    patience: float = 10.0  # seconds in which a client sends its request

    def __post_init__(self) -> None:
        for name in ("tokens", "waiting", "batch", "body"):
            arguments.whole(f"limit of {name}", getattr(self, name))
        for name in ("seconds", "patience"):
            arguments.number(f"limit of {name}", getattr(self, name), 0, above=True)
        arguments.whole("limit of answers", self.answers, 1, EACH)


class Piece(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text"]
    text: Text


class Said(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[Piece]
    name: str | None = None

    def message(self) -> Message:
        text = self.content if isinstance(self.content, str) else "".join(piece.text for piece in self.content)
        return Message("system" if self.role == "developer" else self.role, text)


class Streamed(msgspec.Struct):
    include_usage: bool = False


class Common(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of both. Behind the first lines: what says nothing of the answer, and what cannot be had."""

    model: str
    temperature: float | None = None
    top_p: float | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    stream_options: Streamed | None = None
    sampler: str | None = None
    schedule: str | list[float] | None = None
    steps: int | None = None
    block_length: int | None = None
    top_k: int | None = None
    guidance: float | None = None

    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None

    presence_penalty: Any = None
    frequency_penalty: Any = None
    logit_bias: Any = None
    logprobs: Any = None


class Chat(Common, kw_only=True, forbid_unknown_fields=True):
    """/v1/chat/completions."""

    messages: Annotated[list[Said], msgspec.Meta(min_length=1)]
    max_completion_tokens: int | None = None
    top_logprobs: Any = None
    tools: Any = None
    tool_choice: Any = None
    parallel_tool_calls: Any = None
    response_format: Any = None
    reasoning_effort: Any = None
    modalities: Any = None
    audio: Any = None

    def asked(self) -> list[Asked]:
        messages = [said.message() for said in self.messages]
        if messages[-1].role == "assistant" and len(messages) > 1:
            return [Asked(messages=messages[:-1], begun=messages[-1].content)]
        return [Asked(messages=messages)]


class Completion(Common, kw_only=True, forbid_unknown_fields=True):
    """/v1/completions."""

    prompt: Text | Annotated[list[Text], msgspec.Meta(min_length=1)]
    max_completion_tokens: int | None = None
    best_of: Any = None
    echo: Any = None
    suffix: Any = None

    def asked(self) -> list[Asked]:
        prompts = [self.prompt] if isinstance(self.prompt, str) else self.prompt
        return [Asked(prompt=prompt) for prompt in prompts]


NEVER = (  # fields that would change an answer, and that nobody here can follow
    *("presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "tools", "response_format"),
    *("modalities", "audio", "best_of", "echo", "suffix", "reasoning_effort"),
)
Request = TypeVar("Request", Chat, Completion)


@dataclass(frozen=True)
class Task:
    """A request as rows: those of one key are generated together."""

    asked: tuple[Asked, ...]  # one a row
    each: int  # rows of one prompt, one after another
    numbers: tuple[int, ...]  # of the rows, by which they have their luck
    until: tuple[str, ...]
    strings: tuple[str, ...]  # what ends a row as a text, the model's own end among it
    length: int
    seed: int
    options: dict[str, Any]
    revises: bool  # whether what has been written may be taken back
    streams: bool
    counted: bool  # whether a stream ends with what it has cost

    @property
    def talks(self) -> bool:
        return self.asked[0].messages is not None

    @property
    def key(self) -> str:
        return json.dumps([self.talks, self.until, self.length, self.options], sort_keys=True)


def read(body: bytes, kind: type[Request], model: OpenModel, names: Sequence[str], limits: Limits) -> Task:
    """The task that a request is; Refused where it is none."""
    request: Request = _or_refused(lambda: from_json(body, kind, "the request"))
    if request.model not in names:
        raise Refused(
            f"there is no model {shown(request.model)} here; there is {names[0]}", 404, "model_not_found", "model"
        )
    for field in NEVER:
        value = getattr(request, field, None)
        if value and value != SILENT.get(field):
            raise Refused(f"{field} is {shown(value)}, which cannot be had here; leave it out", param=field)
    asked: list[Asked] = _or_refused(request.asked)
    until: list[str] = [request.stop] if isinstance(request.stop, str) else list(request.stop or ())
    until = [string for string in until if string]
    each = _or_refused(lambda: arguments.whole("n", 1 if request.n is None else request.n))
    seed = secrets.randbelow(SEEDS) if request.seed is None else request.seed
    _or_refused(lambda: arguments.whole("seed", seed, 0, SEEDS - 1))
    if len(asked) * each > limits.answers:
        what = f"{len(asked) * each} answers are asked for, and {limits.answers} are given to a request at most"
        raise Refused(f"{what}; ask for fewer", 413, "too_many_answers", "n")
    try:
        longest = max(map(len, _or_refused(lambda: rows_of(model, asked, 0))))
    except TooLong as error:
        raise Refused(str(error), code="context_length_exceeded") from error
    length = _length(request, model, longest, limits)
    given = {name: value for name in FIELDS if (value := getattr(request, name)) is not None}
    schedule = given.get("schedule")
    if max(given.get("steps", 1), len(schedule) if isinstance(schedule, list) else 1) > ROUNDS * limits.tokens:
        raise Refused(f"more than {ROUNDS * limits.tokens} steps are asked for; ask for fewer", 413, param="steps")
    options = _or_refused(lambda: _options(model, length, given))
    rows = tuple(one for one in asked for _ in range(each))
    return Task(
        asked=rows,
        each=each,
        numbers=tuple(seed * EACH + place for place in range(len(rows))),
        until=tuple(until),
        strings=(*until, *ends(model, asked[0].messages is not None)[1]),
        length=length,
        seed=seed,
        options=options,
        revises=as_sampler(options["sampler"]).revises,
        streams=bool(request.stream),
        counted=request.stream_options is not None and request.stream_options.include_usage,
    )


def _length(request: Common, model: OpenModel, longest: int, limits: Limits) -> int:
    """The tokens of an answer."""
    said = getattr(request, "max_completion_tokens", None)
    said = request.max_tokens if said is None else said
    room = model.length - longest
    if said is None and room > 0:
        return min(USUAL, limits.tokens, room)
    length = _or_refused(lambda: arguments.whole("max_tokens", 1 if said is None else said))
    if length > limits.tokens:
        what = f"max_tokens is {length}, and an answer has {limits.tokens} at most"
        raise Refused(f"{what}; ask for fewer", 413, "too_many_tokens", "max_tokens")
    if length > room:
        what = f"{longest} tokens are given and {length} asked for, and {model.name} was made for {model.length}"
        raise Refused(f"{what}; ask for fewer, or give fewer", code="context_length_exceeded", param="max_tokens")
    return length


def _options(model: OpenModel, length: int, given: dict[str, Any]) -> dict[str, Any]:
    """Options of `generate`, which it will take."""
    options = usual(model, length, **given)
    reads = as_sampler(options["sampler"]).reads
    if model.card.causal and reads != CAUSAL:
        raise UnmaskError(f"{model.name} is an AR model, which cannot fill a canvas; take sampler autoregressive")
    if reads & CAUSAL and not model.card.causal and model.reader is None:
        raise UnmaskError(f"{model.name} has no AR model beside it, and sampler {shown(options['sampler'])} reads one")
    check_sharpening(options.get("temperature", 1.0), options.get("top_p", 1.0), options.get("top_k"))
    arguments.number("guidance", options.get("guidance", 0.0))
    schedule = options.get("schedule", "linear")
    if isinstance(schedule, list):
        options.pop("steps", None)  # as many as shares
    deltas(schedule, options.get("steps", 1) if isinstance(schedule, str) else None)
    return options


Found = TypeVar("Found")


def _or_refused(make: Callable[[], Found]) -> Found:
    try:
        return make()
    except (Refused, TooLong):
        raise
    except (UnmaskError, ValueError) as error:
        raise Refused(str(error)) from error
