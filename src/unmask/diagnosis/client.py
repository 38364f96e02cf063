"""A client of a served engine in OpenAI's chat protocol, by httpx; each request has exactly one outcome.

    ok             a text that the server ended itself
    truncated      a text that ended with its budget of tokens
    empty          an answer without text
    refused        the server refuses the request (4xx), or redirects it, which is not followed
    timeout        a limit of time was reached
    transport      the connection failed, or broke in the answer
    server_error   the server failed (5xx, 408, 409, 425, 429), also within a stream
    malformed      the answer is not in the protocol: no JSON, no end, too large

A request is repeated before the first byte of its answer, or after a status that asks for it, after a waiting time
uniform in [0, 0.5 * 2^n] s (full jitter). The key comes from UNMASK_API_KEY. No string of a server is cut, kept or
printed before the key is masked: also in other case, in base64, hexadecimal and percent form.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from string import ascii_uppercase
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from unmask.core import arguments
from unmask.core.errors import UnmaskError, cut, needed, shown

with needed("endpoint", "the audit of a server"):
    import httpx

KEY = "UNMASK_API_KEY"
MASK, PART = "***", 8  # in place of each part of the key of so many characters or more
CODED = 10  # characters of base64 that seven bytes determine, wherever they begin
ALIKE = {**{ord(a): a.lower() for a in ascii_uppercase}, ord("-"): "+", ord("_"): "/"}  # case, and base64 in addresses
SIGN = re.compile("%[0-9a-fA-F]{2}|.", re.DOTALL)  # of an address
CONNECT, SILENCE, TOTAL = 5.0, 120.0, 600.0  # seconds to connect, without a byte, and of a whole answer
MOST, MOST_TOKENS = 2**23, 2**31  # bytes and tokens of an answer
AGAIN = (408, 409, 425, 429, 500, 502, 503, 504)
ATTEMPTS, FIRST = 5, 0.5  # and seconds: half of the longest first waiting time
CHAT, MODELS = "/v1/chat/completions", "/v1/models"
Result = TypeVar("Result")


@dataclass
class Answer:
    outcome: str = "malformed"
    text: str = ""
    reasoning: str = ""
    finish: str = ""
    status: int | None = None
    error: str = ""  # one line
    param: str = ""  # the field that the server names in its refusal
    tokens: int | None = None
    probabilities: dict[str, float] = field(default_factory=dict)  # of the first token
    chunks: list[int] = field(default_factory=list)  # characters of each chunk of a stream

    @property
    def answered(self) -> bool:
        return self.outcome in ("ok", "truncated")


class Failed(Exception):
    """An exchange without an answer: its outcome, and a message."""


class Client:
    """Asks one server. transport: of httpx, in place of the network."""

    def __init__(self, url: str, model: str | None = None, timeout: float = TOTAL, transport: Any = None) -> None:
        self.timeout = arguments.number("timeout", timeout, above=True)
        self.key = os.environ.get(KEY, "")
        if not (self.key.isascii() and self.key.isprintable()):
            raise UnmaskError(f"{KEY} holds no key; expected one line of ASCII characters. Set it again")
        self.url = self.masked(url)
        self.base, self.host = _address(url, self.url)
        self.model, self.transport = model, transport
        self.sent = 0
        self.rng = random.Random()
        self.sleep = asyncio.sleep

    def ask(self, prompt: str, **fields: Any) -> Answer:
        return self.ask_all([prompt], **fields)[0]

    def ask_all(self, prompts: Sequence[str], concurrency: int = 1, **fields: Any) -> list[Answer]:
        """The answers to prompts, in their order; concurrency: number of simultaneous requests."""
        if self.model:
            fields = {"model": self.model} | fields

        async def work() -> list[Answer]:
            free = asyncio.Semaphore(concurrency)
            async with self._http() as http:

                async def one(prompt: str) -> Answer:
                    async with free:
                        messages = [{"role": "user", "content": prompt}]
                        return await self._ask(http, {"messages": messages} | fields)

                return await asyncio.gather(*map(one, prompts))

        return _run(work())

    def models(self) -> str | None:
        """The first model that the server lists."""

        async def work() -> str | None:
            try:
                async with asyncio.timeout(CONNECT), self._http() as http, http.stream("GET", MODELS) as response:
                    listing = self._json(await _whole(response, MOST), "the list of models")
                    return str(dig(listing, "data.0.id") or "") or None if response.status_code == 200 else None
            except (Failed, TimeoutError, httpx.HTTPError):
                return None

        return _run(work())

    def masked(self, value: Any) -> Any:
        """A text or JSON without the key and its parts."""
        if isinstance(value, Mapping):
            return {self.masked(name): self.masked(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return list(map(self.masked, value))
        return _masked(value, self.key) if isinstance(value, str) and self.key else value

    def _http(self) -> httpx.AsyncClient:
        """Connections without compression, by the proxies and certificates of the environment."""
        headers = {"Accept-Encoding": "identity"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"

        try:
            return httpx.AsyncClient(
                base_url=self.base,
                headers=headers,
                timeout=httpx.Timeout(SILENCE, connect=CONNECT),
                transport=self.transport,
                limits=httpx.Limits(max_connections=None),
            )
        except (ValueError, OSError, ImportError, httpx.InvalidURL) as error:
            problem = self.masked(f"{type(error).__name__}: {error}")
            raise UnmaskError(f"no HTTP: {cut(problem)}. Check HTTP_PROXY, ALL_PROXY and SSL_CERT_FILE") from None

    async def _ask(self, http: httpx.AsyncClient, body: dict[str, Any]) -> Answer:
        """Send one request, again if that is safe, and return its answer."""
        for attempt in range(ATTEMPTS):
            if attempt:
                await self.sleep(self.rng.uniform(0, FIRST * 2**attempt))
            self.sent += 1
            answer, again = await self._attempt(http, body)
            if not again:
                break
        answer.error = cut(answer.error)
        return answer

    async def _attempt(self, http: httpx.AsyncClient, body: dict[str, Any]) -> tuple[Answer, bool]:
        """(answer, whether it may be repeated)"""
        answer, again = Answer(), True
        try:
            async with asyncio.timeout(self.timeout), http.stream("POST", CHAT, json=body) as response:
                again, answer.status = response.status_code in AGAIN, response.status_code
                if response.status_code != 200:
                    answer.outcome, answer.error, answer.param = await self._refusal(response)
                else:
                    stream = "event-stream" in response.headers.get("content-type", "")
                    await (self._stream if stream else self._read)(answer, response)
                    answer.outcome = "truncated" if answer.finish in ("length", "max_tokens") else "ok"
                    if not answer.text.strip():
                        answer.outcome = "empty"
        except Failed as failed:
            answer.outcome, answer.error = failed.args
        except TimeoutError:
            answer.outcome, answer.error, again = "timeout", f"the whole answer took over {self.timeout:g} s", False
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            answer.outcome = "timeout" if isinstance(error, httpx.TimeoutException) else "transport"
            secure = "SSL" in str(error) or "CERTIFICATE" in str(error)
            again = answer.status is None and not secure and not isinstance(error, httpx.ReadTimeout)
            where = f"no connection to {self.host}" if again else "no whole answer"
            if secure:
                where = f"no secure connection to {self.host}"
            answer.error = self.masked(f"{where}: {str(error) or type(error).__name__}")
        return answer, again

    async def _read(self, answer: Answer, response: httpx.Response) -> None:
        content = self._json(await _whole(response, MOST), "the answer")
        if (error := dig(content, "error")) is not None:
            raise Failed("server_error", f"status 200 with an error: {_message(error)}")
        message = dig(content, "choices.0.message")
        if not isinstance(message, Mapping):
            raise Failed("malformed", "the answer has no choices.0.message; is it in another protocol?")
        answer.text, answer.reasoning = _text(dig(message, "content")), _reasoning(message)
        self._account(answer, content)

    async def _stream(self, answer: Answer, response: httpx.Response) -> None:
        ended = False
        async for name, data in _events(response, MOST):
            if ended := data == "[DONE]":
                break
            content = self._json(data.encode(), "an event")
            if name == "error" or content.get("error") is not None or content.get("type") == "error":
                message = _message(content.get("error") or content)
                raise Failed("server_error", f"an error within a stream of status 200: {message}")

            delta = dig(content, "choices.0.delta")
            if text := _text(dig(delta, "content")):
                answer.chunks.append(len(text))
                answer.text += text
            answer.reasoning += _reasoning(delta)
            self._account(answer, content)

        if not ended and not answer.finish:
            raise Failed("malformed", "the stream stopped without its end: neither a finish reason nor [DONE]")
        answer.text, answer.reasoning = self.masked(answer.text), self.masked(answer.reasoning)

    def _account(self, answer: Answer, content: Mapping[str, Any]) -> None:
        """Tokens, the finish reason and probabilities, as far as they are reported."""
        answer.finish = cut(str(dig(content, "choices.0.finish_reason") or answer.finish))
        tokens = dig(content, "usage.completion_tokens")
        if type(tokens) is int and 0 <= tokens < MOST_TOKENS:
            answer.tokens = tokens

        top = dig(content, "choices.0.logprobs.content.0.top_logprobs")
        if isinstance(top, list):
            answer.probabilities.clear()
            for one in top:
                x = dig(one, "logprob")
                if isinstance(x, int | float) and -745 < x <= 1e-6:
                    answer.probabilities[_text(dig(one, "token"))] = math.exp(min(x, 0.0))

    async def _refusal(self, response: httpx.Response) -> tuple[str, str, str]:
        """(outcome, message in one line, field that it names) of a status other than 200."""
        status = response.status_code
        if 300 <= status < 400:
            where = cut(self.masked(unquote(response.headers.get("location", ""))).partition("?")[0])
            return "refused", f"status {status} redirects to {where}; redirects are not followed", ""

        try:
            content: Any = self._json(await _whole(response, 2**16), "the error")
        except Failed:
            content = None

        error = dig(content, "error") or dig(content, "detail") or content
        outcome = "refused" if 400 <= status < 500 and status not in AGAIN else "server_error"
        param = dig(error, "param") or dig(error, "0.loc.1") or dig(error, "0.loc.0")
        return outcome, f"status {status}" + (f": {_message(error)}" if error else ""), cut(str(param or ""))

    def _json(self, content: bytes, what: str) -> dict[str, Any]:
        try:
            value = self.masked(msgspec.json.decode(content))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            beginning = cut(self.masked(content.decode(errors="replace"))[:60])
            raise Failed("malformed", f"{what} is not JSON: {beginning!r}") from None
        if not isinstance(value, dict):
            raise Failed("malformed", f"{what} is a {type(value).__name__}; expected a JSON object")
        return value


def dig(content: Any, path: str) -> Any:
    """The value at a path within JSON, such as "choices.0.message"; None without one."""
    for part in path.split("."):
        if isinstance(content, Mapping):
            content = content.get(part)
        elif isinstance(content, list) and part.isdecimal() and int(part) < len(content):
            content = content[int(part)]
        else:
            return None
    return content


def _masked(text: str, key: str) -> str:
    """The text without parts of the key, in any of its forms; of a short key, only the whole."""
    hidden = bytearray(len(text))
    plain = text.translate(ALIKE)
    whole = range(len(text) + 1)
    for form, size in _forms(key):
        _hide(hidden, plain, whole, form, size)

    if "%" in text:
        ends = [*(sign.start() for sign in SIGN.finditer(text)), len(text)]
        _hide(hidden, unquote(text, "latin-1").translate(ALIKE), ends, *_forms(key)[0])

    shown, end = [], 0
    for run in re.finditer(b"\1+", hidden):
        shown += [text[end : run.start()], MASK]
        end = run.end()
    return "".join([*shown, text[end:]])


@cache
def _forms(key: str) -> tuple[tuple[str, int], ...]:
    """(form of the key, the least characters of it that are hidden): itself, hexadecimal, and base64 from each byte."""
    size, content = min(PART, len(key)), key.encode()
    forms = [(key, size), (content.hex(), 2 * size)]
    for before in range(3):
        coded = b64encode(bytes(before) + content).decode().rstrip("=")
        inner = coded[(4 * before + 2) // 3 : len(coded) - 1]  # the ends depend on what is around the key
        if len(inner) >= PART:
            forms.append((inner, min(CODED, len(inner))))
    return tuple((form.translate(ALIKE), least) for form, least in forms)


def _hide(hidden: bytearray, text: str, ends: Sequence[int], form: str, size: int) -> None:
    """Mark where parts of a form are in a text; ends: where each of its characters begins in the marked text."""
    for part in {form[at : at + size] for at in range(len(form) - size + 1)}:
        at = text.find(part)
        while at >= 0:
            hidden[ends[at] : ends[at + size]] = b"\1" * (ends[at + size] - ends[at])
            at = text.find(part, at + 1)


def _address(url: str, masked: str) -> tuple[str, str]:
    """(address without /v1, host) of a server."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        wrong = parts.scheme not in ("http", "https") or not host or parts.username is not None or parts.query
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        wrong = True

    if wrong:
        raise UnmaskError(
            f"--endpoint is {shown(masked.partition('?')[0].rpartition('@')[2])}",
            "expected http://HOST:PORT or https://HOST, without a user, a password or a query",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}", str(host)


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:  # a notebook has a loop of its own
        return pool.submit(asyncio.run, work).result()


async def _whole(response: httpx.Response, most: int) -> bytes:
    """The body of an answer."""
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > most:
            raise Failed("malformed", f"the answer has over {most:,} bytes")
    return bytes(body)


async def _events(response: httpx.Response, most: int) -> AsyncIterator[tuple[str, str]]:
    """(name, data) of the server-sent events of a body. A line is decoded when it is complete, never within a sign."""
    rest, name, data = b"", "", []
    size = 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > most:
            raise Failed("malformed", f"the stream has over {most:,} bytes, without an end")

        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            try:
                text = line.decode().rstrip("\r")
            except UnicodeDecodeError:
                raise Failed("malformed", "the stream is not UTF-8") from None
            if text.startswith("data:"):
                data.append(text[5:].removeprefix(" "))
            elif text.startswith("event:"):
                name = text[6:].strip()
            elif not text and data:
                yield name, "\n".join(data)
                name, data = "", []


def _text(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise Failed("malformed", f"a text of the answer is a {type(value).__name__}; expected a string")
    return value or ""


def _reasoning(message: Any) -> str:
    return _text(dig(message, "reasoning_content") or dig(message, "reasoning"))


def _message(error: Any) -> str:
    for path in ("message", "msg", "0.msg", "error"):
        if (text := dig(error, path)) is not None:
            return cut(str(text))
    return cut(str(error))
