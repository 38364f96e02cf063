"""The routes: /v1/models, /v1/chat/completions and /v1/completions, as JSON or as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from unmask.core.errors import shown
from unmask.core.extras import needed
from unmask.core.registry import imports
from unmask.hub.answering import Answered
from unmask.serve.asked import Chat, Completion, Limits, Refused, Task, read
from unmask.serve.batches import IN_REQUEST, Batches, Event, Row

with needed("serve", "a server"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

if TYPE_CHECKING:
    from unmask.hub import OpenModel

DONE = "data: [DONE]\n\n"
REASONS = {"stopped": "stop", "length": "length"}


class Endpoint:
    """One model, and who may ask it: with a token whoever has it, else whoever asks this machine by its own name."""

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
            Route("/v1/chat/completions", self._asks(Chat, "chat.completion"), methods=["POST"]),
            Route("/v1/completions", self._asks(Completion, "text_completion"), methods=["POST"]),
        ]

        @asynccontextmanager
        async def living(app: Starlette) -> AsyncIterator[None]:
            self.batches.start()
            try:
                yield
            finally:
                await run_in_threadpool(self.batches.close)

        errors: dict[Any, Any] = {Refused: _refuse, HTTPException: _refuse_http, ClientDisconnect: _nobody}
        errors[Exception] = _defect
        return Starlette(routes=routes, lifespan=living, exception_handlers=errors)

    async def models(self, request: Request) -> Response:
        self._check(request)
        about = {"id": self.model.name, "object": "model", "created": self.began}
        about |= {"owned_by": self.model.card.repository, "context": self.model.length}
        name = request.path_params.get("name")
        if name is None:
            return JSONResponse({"object": "list", "data": [about]})
        if name not in self.names:
            raise Refused(f"there is no model {shown(name)} here; there is {self.names[0]}", 404, "model_not_found")
        return JSONResponse(about)

    def _check(self, request: Request) -> None:
        if self.token is not None:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self.token.encode()):
                what = "the token is missing, or another one; send it as the API key"
                raise Refused(what, 401, "invalid_api_key")
        elif not is_local(request.url.hostname or ""):
            raise Refused("this server has no token, and answers to this machine's own names alone", 403, "wrong_host")

    async def _body(self, request: Request) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # which no page of another site can send without being asked
            raise Refused(f"the request is of type {shown(kind)}; send application/json", 415)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > self.limits.body:
                what = f"the request has more than {self.limits.body} bytes"
                raise Refused(f"{what}; send less", 413, "request_too_large")
        return body

    def _asks(self, kind: Any, label: str) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            self._check(request)
            body = await self._body(request)

            def checked() -> Task:
                with imports(self.allowed, IN_REQUEST):
                    return read(body, kind, self.model, self.names, self.limits)

            task = await run_in_threadpool(checked)
            loop, events = asyncio.get_running_loop(), asyncio.Queue[tuple[int, Event]]()

            def tell(row: Row, event: Event) -> None:
                with suppress(RuntimeError):  # a loop that has been closed waits for nothing
                    loop.call_soon_threadsafe(events.put_nowait, (row.place, event))

            rows = [Row(task, place, tell) for place in range(len(task.asked))]
            self.batches.put(rows)
            about = {"id": f"unmask-{secrets.token_hex(12)}", "object": label, "created": int(time.time())}
            about |= {"model": self.model.name}
            if task.streams:
                about |= {"object": label if label == "text_completion" else f"{label}.chunk"}
                sent = self._stream(task, rows, events, about)
                return StreamingResponse(sent, media_type="text/event-stream", headers={"cache-control": "no-store"})
            try:
                return JSONResponse(await self._whole(request, task, rows, events, about))
            finally:
                self.batches.drop(rows)

        return answer

    async def _whole(
        self, request: Request, task: Task, rows: Sequence[Row], events: asyncio.Queue[Any], about: dict[str, Any]
    ) -> dict[str, Any]:
        found: dict[int, Answered] = {}
        leaving = asyncio.ensure_future(_left(request))
        try:
            while len(found) < len(rows):
                news = asyncio.ensure_future(events.get())
                await asyncio.wait({news, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not news.done():
                    news.cancel()
                    raise ClientDisconnect
                place, event = news.result()
                if isinstance(event, Refused):
                    raise event
                found[place] = event
        finally:
            leaving.cancel()
        choices = []
        for place in range(len(rows)):
            said = found[place]
            choice: dict[str, Any] = {"index": place, "finish_reason": REASONS[said.reason], "logprobs": None}
            if task.talks:
                choice["message"] = {"role": "assistant", "content": said.text, "refusal": None}
            else:
                choice["text"] = said.text
            choices.append(choice)
        return about | {"choices": choices, "usage": _usage(task, found), "unmask": _how(task)}

    async def _stream(
        self, task: Task, rows: Sequence[Row], events: asyncio.Queue[Any], about: dict[str, Any]
    ) -> AsyncIterator[str]:
        found: dict[int, Answered] = {}

        def chunk(place: int, text: str | None, reason: str | None = None, role: bool = False) -> str:
            choice: dict[str, Any] = {"index": place, "finish_reason": reason, "logprobs": None}
            if task.talks:
                said = {} if text is None else {"content": text}
                choice["delta"] = {"role": "assistant"} | said if role else said
            else:
                choice["text"] = text or ""
            return _event(about | {"choices": [choice]} | ({"usage": None} if task.counted else {}))

        try:
            if task.talks:
                for row in rows:
                    yield chunk(row.place, "", role=True)
            while len(found) < len(rows):
                place, event = await events.get()
                if isinstance(event, Refused):
                    yield _event(event.to_dict())
                    return
                if isinstance(event, str):
                    yield chunk(place, event)
                    continue
                found[place] = event
                yield chunk(place, None, REASONS[event.reason])
            if task.counted:
                yield _event(about | {"choices": [], "usage": _usage(task, found), "unmask": _how(task)})
            yield DONE
        finally:  # also where the client has gone away
            self.batches.drop(rows)


def is_local(name: str) -> bool:
    """Whether it is this machine's own name, which no page of another site can have."""
    with suppress(ValueError):
        return ip_address(name.strip("[]")).is_loopback
    return name.lower() == "localhost"


def _usage(task: Task, found: dict[int, Answered]) -> dict[str, int]:
    """A prompt that is answered several times is counted once."""
    given = sum(found[place].given for place in range(0, len(found), task.each))
    written = sum(len(answer.tokens) for answer in found.values())
    needed = sum(answer.evaluations for answer in found.values())
    return {
        "prompt_tokens": given,
        "completion_tokens": written,
        "total_tokens": given + written,
        "evaluations": needed,
    }


def _how(task: Task) -> dict[str, Any]:
    """What makes the same answers again: `unmask generate --first-row`, or seed of another request."""
    return {"seed": task.seed, "first_row": task.numbers[0], "max_tokens": task.length} | task.options


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"


async def _left(request: Request) -> None:
    """Until the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {"retry-after": "1"} if error.status in (429, 503) else {}
    headers |= {"www-authenticate": "Bearer"} if error.status == 401 else {}
    return JSONResponse(error.to_dict(), error.status, headers)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path}: {error.detail.lower()}"
    routes = "/v1/models, /v1/chat/completions and /v1/completions"
    return JSONResponse(Refused(f"{what}; there are {routes}", error.status_code).to_dict(), error.status_code)


async def _defect(request: Request, error: Exception) -> Response:
    what = f"this is a defect of unmask: {type(error).__name__}: {error}"
    return JSONResponse(Refused(what, 500).to_dict(), 500)


async def _nobody(request: Request, error: Exception) -> Response:
    return Response(status_code=499)
