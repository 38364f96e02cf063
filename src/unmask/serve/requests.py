"""Read requests in OpenAI's format, with unmask's additional fields, and check them before they enter the queue."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.core.reading import from_json
from unmask.core.registry import parse, written
from unmask.denoisers.marginals import check_sharpening
from unmask.diagnosis.audit.specimens import deciding
from unmask.hub.answering import usual
from unmask.hub.chat import Message
from unmask.hub.prompted import Query, Text, TooLong, ends, rows_of
from unmask.samplers import SAMPLERS, Sampler
from unmask.samplers.blocks import Blocks
from unmask.samplers.contract import CAUSAL, as_sampler
from unmask.schedules import deltas

if TYPE_CHECKING:
    from unmask.hub import OpenModel

USUAL = 256  # tokens of an answer by default, or fewer where the model allows fewer
EACH = 1024  # numbers of rows per seed
SEEDS = 2**40
STEPS_PER_TOKEN = 16  # the largest number of steps, per token of the longest answer
NEUTRAL = {"logit_bias": {}, "response_format": {"type": "text"}}  # values that request nothing
FIELDS = ("sampler", "schedule", "steps", "block_length", "temperature", "top_p", "top_k", "guidance")
BOUNDS = {"threshold": ("threshold", "threshold"), "entropy_bound": ("entropy-bounded", "gamma")}  # sampler, its option
TRACES = ("summary", "steps", "probs")
MODES = ("append", "canvas", "edits")
UNSUPPORTED_CODE = "unsupported_for_diffusion"
MOST_TRACED = 2**20  # steps times tokens of a traced answer


class Refused(UnmaskError):
    """An error in OpenAI's format, with an HTTP status and a code for programs."""

    def __init__(self, message: str, status: int = 400, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param

    def to_dict(self) -> dict[str, Any]:
        kinds = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error"}
        kind = kinds.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True)
class Limits:
    """Limits of requests, and the size of a batch."""

    tokens: int = 1024  # of an answer
    answers: int = 16  # per request: its prompts times n
    waiting: int = 64  # rows in the queue
    batch: int = 8  # rows
    body: int = 2**20  # bytes
    seconds: float = 600.0  # to generate an answer
    patience: float = 10.0  # seconds within which a client has to send its request

    def __post_init__(self) -> None:
        for name in ("tokens", "waiting", "batch", "body"):
            arguments.whole(f"limit of {name}", getattr(self, name))
        for name in ("seconds", "patience"):
            arguments.number(f"limit of {name}", getattr(self, name), 0, above=True)
        arguments.whole("limit of answers", self.answers, 1, EACH)


class Piece(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text"]
    text: Text


class ChatMessage(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[Piece]
    name: str | None = None

    def message(self) -> Message:
        text = self.content if isinstance(self.content, str) else "".join(piece.text for piece in self.content)
        return Message("system" if self.role == "developer" else self.role, text)


class StreamOptions(msgspec.Struct):
    include_usage: bool = False


class Diffusion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The field `diffusion` of a request (docs/serving.md)."""

    algorithm: str | None = None
    steps: int | None = None
    threshold: float | None = None
    entropy_bound: float | None = None
    block_length: int | None = None
    canvas_length: int | None = None  # here the same as block_length
    max_forwards: int | None = None
    revise: bool | None = None


class Common(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of both routes: first the supported ones, then ignored ones, then unsupported ones."""

    model: str
    temperature: float | None = None
    top_p: float | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    sampler: str | None = None
    schedule: str | list[float] | None = None
    steps: int | None = None
    block_length: int | None = None
    top_k: int | None = None
    guidance: float | None = None
    diffusion: Diffusion | None = None
    trace: bool | str | None = None
    stream_mode: str | None = None

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

    @property
    def extension(self) -> Diffusion:
        return self.diffusion or Diffusion()


class Chat(Common, kw_only=True, forbid_unknown_fields=True):
    """/v1/chat/completions."""

    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    max_completion_tokens: int | None = None
    top_logprobs: Any = None
    tools: Any = None
    tool_choice: Any = None
    parallel_tool_calls: Any = None
    response_format: Any = None
    reasoning_effort: Any = None
    modalities: Any = None
    audio: Any = None

    def queries(self) -> list[Query]:
        messages = [message.message() for message in self.messages]
        if messages[-1].role == "assistant" and len(messages) > 1:
            return [Query(messages=messages[:-1], begun=messages[-1].content)]
        return [Query(messages=messages)]


class Completion(Common, kw_only=True, forbid_unknown_fields=True):
    """/v1/completions."""

    prompt: Text | Annotated[list[Text], msgspec.Meta(min_length=1)]
    max_completion_tokens: int | None = None
    best_of: Any = None
    echo: Any = None
    suffix: Any = None

    def queries(self) -> list[Query]:
        prompts = [self.prompt] if isinstance(self.prompt, str) else self.prompt
        return [Query(prompt=prompt) for prompt in prompts]


UNSUPPORTED = (  # fields that would change an answer
    *("presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "tools", "response_format"),
    *("modalities", "audio", "best_of", "echo", "suffix", "reasoning_effort"),
)
IGNORED = (  # fields without effect, of which the answer warns
    *("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"),
    *("tool_choice", "parallel_tool_calls"),
)


@dataclass(frozen=True)
class Task:
    """A request as rows; rows with the same key are generated in one batch."""

    queries: tuple[Query, ...]  # one per row
    each: int  # successive rows of one prompt
    numbers: tuple[int, ...]  # of the random streams of the rows
    until: tuple[str, ...]
    strings: tuple[str, ...]  # all strings that end a text, also the model's own
    length: int
    seed: int
    options: dict[str, Any]
    sampler: Sampler
    streams: bool
    counted: bool  # whether a stream ends with its cost
    mode: str  # of the stream, one of MODES
    trace: str | None  # one of TRACES
    most: int | None  # model calls after which an answer ends
    canvas: int  # positions of a block, or of the whole answer
    warnings: tuple[str, ...]  # fields that had no effect, or only in part

    @property
    def revises(self) -> bool:
        """Whether the sampler may change written tokens."""
        return self.sampler.revises

    @property
    def talks(self) -> bool:
        return self.queries[0].messages is not None

    @property
    def key(self) -> str:
        return json.dumps([self.talks, self.until, self.length, self.options], sort_keys=True)


def read(body: bytes, kind: type[Chat | Completion], model: OpenModel, names: Sequence[str], limits: Limits) -> Task:
    """The task of a request; raises Refused for an invalid one."""
    try:
        return _task(from_json(body, kind, "the request"), model, names, limits)
    except Refused:
        raise
    except TooLong as error:
        raise Refused(str(error), code="context_length_exceeded") from error
    except (UnmaskError, ValueError) as error:
        raise _named(str(error), kind) from error


def _named(message: str, kind: type[Chat | Completion]) -> Refused:
    """A refusal with the field that a message names."""
    unknown = re.search(r"(?:no|unknown) key (?:of (diffusion): )?'([^']*)'", message)
    if unknown:
        return Refused(message, code="unknown_parameter", param=".".join(filter(None, unknown.groups())))
    inner = {name: f"diffusion.{name}" for name in Diffusion.__struct_fields__}
    fields = inner | {name: name for name in (*inner.values(), *kind.__struct_fields__) if name != "model"}
    field = next((fields[word] for word in re.findall(r"(?:diffusion\.)?\w+", message) if word in fields), None)
    return Refused(message, code=field and "invalid_value", param=field)


def _task(request: Chat | Completion, model: OpenModel, names: Sequence[str], limits: Limits) -> Task:
    if request.model not in names:
        raise no_model(request.model, names)
    for field in UNSUPPORTED:
        value = getattr(request, field, None)
        if value and value != NEUTRAL.get(field):
            raise _unsupported(field, f"{field} is {shown(value)}; this field is not supported. Leave it out")
    queries = request.queries()
    until: list[str] = [request.stop] if isinstance(request.stop, str) else list(request.stop or ())
    until = [string for string in until if string]
    each = arguments.whole("n", 1 if request.n is None else request.n)
    seed = secrets.randbelow(SEEDS) if request.seed is None else request.seed
    arguments.whole("seed", seed, 0, SEEDS - 1)
    if (count := len(queries) * each) > limits.answers:
        problem = f"the request is for {count} answers; expected at most {limits.answers}"
        raise Refused(f"{problem}. Reduce n or the prompts", 413, "too_many_answers", "n")
    length = _length(request, model, max(map(len, rows_of(model, queries, 0))), limits)
    given = _extended({name: value for name in FIELDS if (value := getattr(request, name)) is not None}, request)
    schedule = given.get("schedule")
    if max(given.get("steps", 1), len(schedule) if isinstance(schedule, list) else 1) > STEPS_PER_TOKEN * limits.tokens:
        problem = f"steps is too large; expected at most {STEPS_PER_TOKEN * limits.tokens}"
        raise Refused(f"{problem}. Reduce steps", 413, param="steps")
    options = options_of(model, length, given)
    sampler = as_sampler(options["sampler"])
    trace = "steps" if request.trace is True else request.trace or None
    if trace is not None:
        arguments.word("trace", trace, TRACES)
        if (size := length * options.get("steps", length)) > MOST_TRACED:
            problem = f"the trace has up to {size} tokens; expected at most {MOST_TRACED}"
            raise Refused(f"{problem}. Reduce max_tokens or steps", 413, "trace_too_large", "trace")
    mode = arguments.word("stream_mode", request.stream_mode or MODES[0], MODES)
    most, revise = request.extension.max_forwards, request.extension.revise
    own_loop = deciding(sampler).implements("run") and sampler.reads != CAUSAL  # it need not stop at a limit
    if most is not None and arguments.whole("diffusion.max_forwards", most) and own_loop:
        problem = f"diffusion.max_forwards is {most}; sampler {sampler.spec} cannot stop before its end"
        raise _unsupported("diffusion.max_forwards", f"{problem}. Leave it out")
    if revise not in (None, sampler.revises):
        problem = f"diffusion.revise is {shown(revise)}, but {sampler.revises} for sampler {sampler.spec}"
        raise _unsupported("diffusion.revise", f"{problem}. Leave it out, or set another diffusion.algorithm")
    return Task(
        queries=tuple(query for query in queries for _ in range(each)),
        each=each,
        numbers=tuple(range(seed * EACH, seed * EACH + count)),
        until=tuple(until),
        strings=(*until, *ends(model, queries[0].messages is not None)[1]),
        length=length,
        seed=seed,
        options=options,
        sampler=sampler,
        streams=bool(request.stream),
        counted=request.stream_options is not None and request.stream_options.include_usage,
        mode=mode,
        trace=trace,
        most=most,
        canvas=min(sampler.block_length, length) if isinstance(sampler, Blocks) else length,
        warnings=tuple(_warnings(request, sampler, mode)),
    )


def _unsupported(field: str, message: str) -> Refused:
    return Refused(message, code=UNSUPPORTED_CODE, param=field)


def _extended(given: dict[str, Any], request: Common) -> dict[str, Any]:
    """Options of `generate` with those of the field `diffusion`."""
    extension = request.extension
    blocks = {getattr(extension, name) for name in ("block_length", "canvas_length")} - {None}
    if len(blocks) > 1:
        problem = f"diffusion.canvas_length is {extension.canvas_length} and block_length {extension.block_length}"
        raise _unsupported("diffusion.canvas_length", f"{problem}; expected equal lengths. Leave one out")
    more = {"sampler": extension.algorithm, "steps": extension.steps, "block_length": next(iter(blocks), None)}
    more = {name: value for name, value in more.items() if value is not None}
    for name in more.keys() & given.keys():
        raise Refused(f"{name} is given twice, also in diffusion. Leave one out", code="invalid_value", param=name)
    given = given | more
    bounds = [name for name in BOUNDS if getattr(extension, name) is not None]
    for name in bounds:
        field, (usual_name, option) = f"diffusion.{name}", BOUNDS[name]
        kind, options = parse("sampler", given.get("sampler", usual_name))
        if len(bounds) > 1 or option in options or option not in SAMPLERS.entry(kind).options:
            problem = f"{field} is {getattr(extension, name)}; sampler {kind!r} has no such option, or has it already"
            raise _unsupported(field, f"{problem}. Leave {field} out, or diffusion.algorithm")
        options[option] = getattr(extension, name)
        if "temperature" in SAMPLERS.entry(kind).options:  # by default the most likely tokens, as without `diffusion`
            options["temperature"] = given.pop("temperature", 0.0)
        given["sampler"] = written(kind, options)
        if "block_length" in given and "block_length" not in SAMPLERS.entry(kind).options:
            given["sampler"] = f"blocks(inner={given['sampler']!r})"
    return given


def _warnings(request: Common, sampler: Sampler, mode: str) -> Iterator[str]:
    """Fields that have no effect, or only in part."""
    for field in IGNORED:
        if getattr(request, field, None) is not None:
            yield f"{field} has no effect"
    if deciding(sampler).pace == "free" and (request.steps or request.extension.steps):
        yield f"steps has no effect on sampler {sampler.spec}"
    if request.stream_mode is not None and not request.stream:
        yield "stream_mode has no effect without stream"
    if request.stream and mode == MODES[0] and sampler.revises:
        yield f"sampler {sampler.spec} revises tokens, so the text is sent at its end"


def _length(request: Common, model: OpenModel, longest: int, limits: Limits) -> int:
    """Tokens of an answer."""
    given = getattr(request, "max_completion_tokens", None)
    given = request.max_tokens if given is None else given
    left = model.length - longest
    if given is None and left > 0:
        return min(USUAL, limits.tokens, left)
    length = arguments.whole("max_tokens", 1 if given is None else given)
    if length > limits.tokens:
        problem = f"max_tokens is {length}; expected at most {limits.tokens}"
        raise Refused(f"{problem}. Reduce max_tokens", 413, "too_many_tokens", "max_tokens")
    if length > left:
        problem = f"the prompt has {longest} tokens and the answer {length}; expected at most {model.length} together"
        remedy = "Reduce max_tokens or shorten the prompt"
        raise Refused(f"{problem}. {remedy}", code="context_length_exceeded", param="max_tokens")
    return length


def options_of(model: OpenModel, length: int, given: dict[str, Any]) -> dict[str, Any]:
    """Checked options of `generate`."""
    options = usual(model, length, **given)
    reads = as_sampler(options["sampler"]).reads
    if model.card.causal and reads != CAUSAL:
        raise UnmaskError(f"{model.name} is an AR model. Set sampler to autoregressive")
    if reads & CAUSAL and not model.card.causal and model.reader is None:
        problem = f"sampler {shown(options['sampler'])} needs an AR model"
        raise UnmaskError(f"{problem}. Start the server with --causal-model, or use another sampler")
    check_sharpening(options.get("temperature", 1.0), options.get("top_p", 1.0), options.get("top_k"))
    arguments.number("guidance", options.get("guidance", 0.0))
    schedule = options.get("schedule", "linear")
    if isinstance(schedule, list):
        options.pop("steps", None)  # the schedule has its own number of steps
    deltas(schedule, options.get("steps", 1) if isinstance(schedule, str) else None)
    return options


def no_model(name: str, names: Sequence[str]) -> Refused:
    return Refused(f"there is no model {shown(name)}; expected {names[0]}", 404, "model_not_found", "model")
