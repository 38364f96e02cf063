"""The routes: /v1/models, /v1/chat/completions and /v1/completions, as JSON or as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import torch

from unmask.core.errors import UnmaskError, shown
from unmask.core.extras import needed
from unmask.core.registry import imports
from unmask.samplers import SAMPLERS
from unmask.serve.batches import IN_REQUEST, LONGEST_TRACE, Batches, Event, Reply, Row, refusal
from unmask.serve.forwards import details
from unmask.serve.requests import USUAL, Chat, Completion, Limits, Refused, Task, no_model, options_of, read

with needed("serve", "a server"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route

if TYPE_CHECKING:
    from unmask.hub import OpenModel

DONE = "data: [DONE]\n\n"
REASONS = {"stopped": "stop", "length": "length"}


class Endpoint:
    """The routes of one model. With a token each request needs it; otherwise only local host names are accepted."""

    def __init__(
        self,
        model: OpenModel,
        *,
        names: Sequence[str] = (),
        limits: Limits | None = None,
        token: str | None = None,
        allow_imports: Sequence[str] = (),
    ) -> None:
        self.model, self.names, self.limits, self.token = model, [model.name, *names], limits or Limits(), token
        self.allowed = tuple(allow_imports)
        self.batches = Batches(model, self.limits, self.allowed)
        self.began = int(time.time())

    def app(self) -> Starlette:
        routes = [
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.models),
            Route("/v1/chat/completions", self._route(Chat, "chat.completion"), methods=["POST"]),
            Route("/v1/completions", self._route(Completion, "text_completion"), methods=["POST"]),
            Route("/metrics", self.metrics),
        ]

        @asynccontextmanager
        async def living(app: Starlette) -> AsyncIterator[None]:
            self.batches.start()
            try:
                yield
            finally:
                await run_in_threadpool(self.batches.close)

        errors: dict[Any, Any] = {Refused: _refuse, HTTPException: _refuse_http, ClientDisconnect: _disconnected}
        errors[Exception] = _defect
        return Starlette(routes=routes, lifespan=living, exception_handlers=errors)

    async def models(self, request: Request) -> Response:
        self._check(request)
        about = {"id": self.model.name, "object": "model", "created": self.began}
        about |= {"owned_by": self.model.card.repository, "context": self.model.length, "diffusion": self.abilities}
        name = request.path_params.get("name")
        if name is None:
            return JSONResponse({"object": "list", "data": [about]})
        if name not in self.names:
            raise no_model(name, self.names)
        return JSONResponse(about)

    @cached_property
    def abilities(self) -> dict[str, Any]:
        """Values that a request may set."""
        length, algorithms = min(USUAL, self.limits.tokens, self.model.length), []
        for name in SAMPLERS.names():
            with suppress(UnmaskError):
                options_of(self.model, length, {"sampler": name})
                algorithms.append(name)
        return {
            "algorithms": algorithms,
            "canvas_lengths": {"least": 1, "most": self.limits.tokens},
            "defaults": options_of(self.model, length, {}) | {"max_tokens": length},
            "limits": asdict(self.limits),
        }

    async def metrics(self, request: Request) -> Response:
        """The counters of the server, in the text format of Prometheus."""
        self._check(request)
        batches = self.batches
        counters = {
            "forwards_total": (batches.spent.forwards, "forward passes of the model, each of a batch"),
            "forward_rows_total": (batches.spent.rows, "rows of these forward passes"),
            "forward_positions_total": (batches.spent.tokens, "computed positions of these rows"),
            "batches_total": (batches.batches, "batches of answers"),
            "answers_total": (batches.answered, "complete answers"),
            "tokens_total": (batches.written, "tokens of these answers"),
            "queue": (len(batches), "answers that wait"),
        }
        lines = []
        for name, (value, about) in counters.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP unmask_{name} {about}", f"# TYPE unmask_{name} {kind}", f"unmask_{name} {value}"]
        return PlainTextResponse("\n".join([*lines, ""]))

    def _check(self, request: Request) -> None:
        if self.token is not None:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self.token.encode()):
                raise Refused("the token is missing or incorrect. Send it as the API key", 401, "invalid_api_key")
        elif not is_local(request.url.hostname or ""):
            problem = "the host name is not local. Use localhost, or start the server with --token-file"
            raise Refused(problem, 403, "wrong_host")

    async def _body(self, request: Request) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # pages of other sites cannot send it without a CORS preflight
            raise Refused(f"the content type is {shown(kind)}; expected application/json", 415)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > self.limits.body:
                problem = f"the request is too long; expected at most {self.limits.body} bytes"
                raise Refused(problem, 413, "request_too_large")
        return body

    def _route(self, kind: Any, label: str) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            self._check(request)
            body = await self._body(request)

            def checked() -> Task:
                with imports(self.allowed, IN_REQUEST):
                    return read(body, kind, self.model, self.names, self.limits)

            task = await run_in_threadpool(checked)
            loop, events = asyncio.get_running_loop(), asyncio.Queue[tuple[int, Event]]()

            def send(row: Row, event: Event) -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(events.put_nowait, (row.index, event))

            rows = [Row(task, index, send) for index in range(len(task.queries))]
            self.batches.put(rows)
            about = {"id": f"unmask-{secrets.token_hex(12)}", "object": label, "created": int(time.time())}
            about |= {"model": self.model.name}
            if task.streams:
                about |= {"object": label if label == "text_completion" else f"{label}.chunk"}
                chunks = self._stream(task, rows, events, about)
                return StreamingResponse(chunks, media_type="text/event-stream", headers={"cache-control": "no-store"})
            try:
                return JSONResponse(await self._whole(request, task, rows, events, about))
            finally:
                self.batches.drop(rows)

        return answer

    async def _whole(
        self, request: Request, task: Task, rows: Sequence[Row], events: asyncio.Queue[Any], about: dict[str, Any]
    ) -> dict[str, Any]:
        replies: dict[int, Reply] = {}
        disconnected = asyncio.ensure_future(_disconnect(request))
        try:
            while len(replies) < len(rows):
                news = asyncio.ensure_future(events.get())
                await asyncio.wait({news, disconnected}, return_when=asyncio.FIRST_COMPLETED)
                if not news.done():
                    news.cancel()
                    raise ClientDisconnect
                index, event = news.result()
                if isinstance(event, Refused):
                    raise event
                replies[index] = event
        finally:
            disconnected.cancel()
        choices = []
        for index in range(len(rows)):
            answer = replies[index].answer
            choice: dict[str, Any] = {"index": index, "finish_reason": REASONS[answer.reason], "logprobs": None}
            choice |= {"trace": replies[index].trace} if task.trace else {}
            if task.talks:
                choice["message"] = {"role": "assistant", "content": answer.text, "refusal": None}
            else:
                choice["text"] = answer.text
            choices.append(choice)
        return about | {"choices": choices} | self._account(task, replies)

    async def _stream(
        self, task: Task, rows: Sequence[Row], events: asyncio.Queue[Any], about: dict[str, Any]
    ) -> AsyncIterator[str]:
        replies: dict[int, Reply] = {}

        def chunk(index: int, text: str | None, reason: str | None = None, role: bool = False, **more: Any) -> str:
            choice: dict[str, Any] = {"index": index, "finish_reason": reason, "logprobs": None} | more
            if task.talks:
                content = {} if text is None else {"content": text}
                choice["delta"] = {"role": "assistant"} | content if role else content
            else:
                choice["text"] = text or ""
            return _event(about | {"choices": [choice]} | ({"usage": None} if task.counted else {}))

        try:
            if task.talks:
                for row in rows:
                    yield chunk(row.index, "", role=True)
            while len(replies) < len(rows):
                index, event = await events.get()
                if isinstance(event, Refused):
                    yield _event(event.to_dict())
                    return
                if isinstance(event, str):
                    yield chunk(index, event)
                elif isinstance(event, dict):
                    yield chunk(index, None, **event)
                else:
                    replies[index] = event
                    more = {"trace": event.trace} if task.trace else {}
                    yield chunk(index, None, REASONS[event.answer.reason], **more)
            about |= {"choices": []} | self._account(task, replies)
            if task.counted or about["warnings"]:
                yield _event(about)
            yield DONE
        finally:  # also after the client has disconnected
            self.batches.drop(rows)

    def _account(self, task: Task, replies: dict[int, Reply]) -> dict[str, Any]:
        """The cost and the settings of complete answers (docs/serving.md)."""
        forwards = [replies[index].forwards for index in sorted(replies)]
        sums = details(forwards)
        parameters = {name: value for name, value in task.options.items() if name != "sampler"}
        same = self.model.body.dtype == torch.float64 or self.limits.batch == 1
        about = {"algorithm": task.options["sampler"], "parameters": parameters | {"max_tokens": task.length}}
        about |= {"blocks": max(len(one.per_block) for one in forwards), "canvas_length": task.canvas}
        warnings = list(task.warnings)
        if task.trace and any(reply.trace is None for reply in replies.values()):
            warnings.append(f"trace has no effect: it has more than {LONGEST_TRACE} bytes")
        return {
            "usage": _usage(task, replies, sums),
            "meta_info": {"dllm_forward_counts": sums["per_block"]},
            "diffusion": about | {"seed": task.seed, "first_row": task.numbers[0], "deterministic": same},
            "warnings": warnings,
        }


def is_local(name: str) -> bool:
    """Whether a host name is this machine's own, which pages of other sites cannot have."""
    with suppress(ValueError):
        return ip_address(name.strip("[]")).is_loopback
    return name.lower() == "localhost"


def _usage(task: Task, replies: dict[int, Reply], sums: dict[str, Any]) -> dict[str, Any]:
    """Tokens and forwards; a prompt with several answers counts once."""
    given = sum(replies[index].answer.given for index in range(0, len(replies), task.each))
    written = sum(len(reply.answer.tokens) for reply in replies.values())
    forwards = sum(reply.forwards.total for reply in replies.values())
    canvas, revised = task.length * len(replies), sum(reply.forwards.revised for reply in replies.values())
    return {
        "prompt_tokens": given,
        "completion_tokens": written,
        "total_tokens": given + written,
        "forwards": forwards,
        "tokens_per_forward": written / forwards if forwards else None,
        "completion_tokens_details": {
            "canvas_tokens": canvas,
            "pad_tokens": canvas - written,
            "revised_tokens": revised,
        },
        "forwards_details": sums,
    }


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"


async def _disconnect(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {"retry-after": "1"} if error.status in (429, 503) else {}
    headers |= {"www-authenticate": "Bearer"} if error.status == 401 else {}
    return JSONResponse(error.to_dict(), error.status, headers)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = f"{request.method} {request.url.path}: {error.detail.lower()}"
    routes = "/v1/models, /v1/chat/completions or /v1/completions"
    return JSONResponse(Refused(f"{problem}; expected {routes}", error.status_code).to_dict(), error.status_code)


async def _defect(request: Request, error: Exception) -> Response:
    return JSONResponse(refusal(error).to_dict(), 500)


async def _disconnected(request: Request, error: Exception) -> Response:
    return Response(status_code=499)
