"""A server for tests: an exact language behind the chat protocol, with faults that can be switched on.

    with FakeServer(faults=["temperature"]) as server:
        audit(server.url, "fake")

The language is a Markov chain over the words 1 to 6: the first word is k with probability WEIGHTS[k - 1], and word k
follows j with probability WEIGHTS[k - j - 1 mod 6]. Temperature T raises each of them to the power 1/T. An answer to
a prompt with "one digit" has one word; others end with their budget of tokens, at most LONGEST. One word is one token.
A stream has a chunk for each block of BLOCK tokens.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import httpx

from unmask.diagnosis.client import CHAT

WEIGHTS = (0.3, 0.25, 0.15, 0.12, 0.1, 0.08)
BLOCK, LONGEST, USUAL = 32, 256, 64  # tokens of a block, at most, and without a given number
WINDOW = 0.01  # seconds for requests to meet, with the faults that need two of them
BEHAVIOR = {
    "temperature": "always writes the most likely token",
    "swallow": "ignores fields that it does not know",
    "seed": "ignores the seed",
    "load": "writes 6 while more than four requests are under way",
    "repetition": "ends a repeated answer with padding",
    "padding": "writes 6 beside a much longer prompt",
    "boundaries": "fills the last block, beyond the given number of tokens",
    "empty": "leaves the content empty while it thinks",
    "chunks": "sends the whole text in each chunk",
    "defaults": "has another temperature by default than documented",
    "stream-error": "refuses within a stream of status 200",
    "logits": "reports the probabilities of another temperature",
}
WIRE = {
    "not-json": "answers with HTML",
    "endless": "never ends its stream",
    "empty-stream": "ends its stream at once",
    "truncated-stream": "ends its stream without a finish reason and [DONE]",
    "wrong-length": "announces more bytes than it sends",
    "split-utf8": "cuts a character between two pieces",
    "huge": "answers with 10 MB",
    "slow": "sends its headers byte by byte",
    "redirect": "redirects to another host",
    "die": "closes the connection in the middle of its answer",
    "status-400": "refuses the request",
    "status-429": "asks to come back after 0 s",
    "status-500": "fails",
}
SPANS = {"temperature": (0, 2), "top_p": (0, 1), "max_tokens": (1, LONGEST)}
KINDS: dict[str, Any] = {"stop": str | list, "seed": int, "stream": bool, "stream_options": dict}
KINDS |= dict.fromkeys(("messages", "model", "chat_template_kwargs", "logprobs", "top_logprobs"), object)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    pieces: Iterable[bytes]


class FakeServer:
    """faults: names of BEHAVIOR and WIRE, or their probabilities.

    text: the answer to a prompt in place of the language's. `transport` answers within this process.
    """

    def __init__(
        self,
        faults: Iterable[str] | Mapping[str, float] = (),
        seed: int = 0,
        text: Callable[[str, random.Random], str] | None = None,
        port: int = 0,
    ) -> None:
        self.seed, self.text, self.port = seed, text, port
        self.faults = dict(faults) if isinstance(faults, Mapping) else dict.fromkeys(faults, 1.0)
        assert not self.faults.keys() - BEHAVIOR.keys() - WIRE.keys()
        self.requests: list[dict[str, Any]] | None = None  # set it to [] to keep them
        self.count = 0
        self._seen: Counter[str] = Counter()
        self._under_way: dict[int, int] = {}  # lengths of the prompts
        self._lock = threading.Lock()

    def start(self) -> FakeServer:
        """Listen, until `stop`; a `with` block does both."""
        self._http = _Server(("127.0.0.1", self.port), _Handler)
        self._http.fake = self
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    __enter__, __exit__ = start, stop

    @property
    def transport(self) -> httpx.MockTransport:
        """Of httpx, without a network."""

        async def answer(request: httpx.Request) -> httpx.Response:
            asked = request.method, request.url.path, await request.aread(), dict(request.headers)
            reply = await asyncio.to_thread(self.reply, *asked)

            async def pieces() -> AsyncIterator[bytes]:
                for piece in reply.pieces:
                    yield piece

            return httpx.Response(reply.status, headers=reply.headers, content=pieces())

        return httpx.MockTransport(answer)

    def reply(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        if method == "GET":
            return _json(200, {"data": [{"id": "fake"}]}) if path == "/v1/models" else _refused("path", 404)
        with self._lock:
            self.count += 1
            number = self.count
        try:
            content = json.loads(body)
        except ValueError:
            return _refused("body")
        if self.requests is not None:
            self.requests.append({"path": path, "body": content, "headers": dict(headers)})
        if path != CHAT or "messages" not in content:
            return _refused("messages", 404 if path != CHAT else 400)
        draw = random.Random(f"{self.seed}/wire/{number}").random()
        for fault, probability in self.faults.items():
            if fault in WIRE and fault not in ("truncated-stream", "split-utf8"):
                if draw < probability:
                    return _broken(fault)
                draw -= probability
        prompt = content["messages"][-1]["content"]
        with self._lock:
            self._under_way[number] = len(prompt)
            self._seen[prompt] += 1
            seen = self._seen[prompt]
        try:
            return self._generated(content, prompt, seen)
        finally:
            with self._lock:
                del self._under_way[number]

    def _generated(self, content: dict[str, Any], prompt: str, seen: int) -> Reply:
        refused = self._refusal(content)
        stream = bool(content.get("stream"))
        if refused and stream and "stream-error" in self.faults:
            return _events([{"type": "error", "error": {"message": f"{refused} is not supported", "param": refused}}])
        if refused:
            return _refused(refused)
        temperature = content.get("temperature", 0.3 if "defaults" in self.faults else 1.0)
        if "temperature" in self.faults:
            temperature = 0
        seeded = content.get("seed")
        if seeded is None or "seed" in self.faults:
            rng = random.Random(f"{self.seed}/{prompt}/{seen}")
        else:
            rng = random.Random(f"{self.seed}/{prompt}/seed {seeded}")
        tokens = content.get("max_tokens", USUAL)
        if "boundaries" in self.faults:
            tokens = -(-tokens // BLOCK) * BLOCK
        short = "one digit" in prompt
        words = self.words(1 if short else tokens, temperature, content.get("top_p", 1.0), rng)
        if self._disturbed(prompt):
            words = ["6 "] * len(words)
        finish = "stop" if short else "length"
        if self.text is not None:
            answer = self.text(prompt, rng)
            words = [answer[at : at + 2] for at in range(0, len(answer), 2)][:tokens]
            finish = "length" if len(answer) > 2 * tokens else "stop"
        stop = content.get("stop") or []
        for end in [stop] if isinstance(stop, str) else stop:
            if end in (text := "".join(words)):
                before = text[: text.index(end)]
                words = [before[at : at + 2] for at in range(0, len(before), 2)]
                finish = "stop"
        if "repetition" in self.faults and seen > 1:
            words.append("<pad>" * 3)
        if "split-utf8" in self.faults:
            words.append("\u00e9")
        return self._answered(content, words, finish, len(prompt.split()), stream)

    def _refusal(self, content: Mapping[str, Any]) -> str:
        """The first field that is unknown or has an impossible value."""
        for name, value in content.items():
            if name in SPANS:
                number = isinstance(value, int | float) and not isinstance(value, bool)
                bad = not (number and SPANS[name][0] <= value <= SPANS[name][1])
            else:
                bad = not (isinstance(value, KINDS[name]) if name in KINDS else "swallow" in self.faults)
            if bad:
                return name
        return ""

    def _disturbed(self, prompt: str) -> bool:
        """Whether other requests change the answer: never without the faults of load and padding."""
        if not self.faults.keys() & {"load", "padding"}:
            return False
        time.sleep(WINDOW)
        with self._lock:
            lengths = list(self._under_way.values())
        crowd = "load" in self.faults and len(lengths) > 4
        return crowd or ("padding" in self.faults and max(lengths) > 4 * len(prompt))

    @staticmethod
    def probabilities(before: int, temperature: float, top_p: float = 1.0) -> list[float]:
        """The probabilities of the words 1 to 6 after the word `before`, which is 6 at the beginning."""
        weights = [WEIGHTS[(k - before) % 6] for k in range(6)]
        if temperature == 0:
            return [float(weight == max(weights)) for weight in weights]
        powers = [(weight / max(weights)) ** (1 / temperature) for weight in weights]
        likely, total = set(), 0.0
        for k in sorted(range(6), key=lambda k: -powers[k]):
            if total < top_p * sum(powers):
                likely.add(k)
                total += powers[k]
        return [power / total if k in likely else 0.0 for k, power in enumerate(powers)]

    def words(self, many: int, temperature: float, top_p: float, rng: random.Random) -> list[str]:
        written, last = [], 6
        for _ in range(many):
            last = rng.choices(range(1, 7), self.probabilities(last, temperature, top_p))[0]
            written.append(f"{last} ")
        return written

    def _answered(self, content: Mapping[str, Any], words: list[str], finish: str, prompt: int, stream: bool) -> Reply:
        pieces = ["".join(words[at : at + BLOCK]) for at in range(0, len(words), BLOCK)] or [""]
        usage = {"prompt_tokens": prompt, "completion_tokens": len(words), "total_tokens": prompt + len(words)}
        if not stream:
            return _json(200, self._shaped(content, "".join(words), finish, usage), "split-utf8" in self.faults)
        if "chunks" in self.faults:
            pieces = ["".join(pieces[: n + 1]) for n in range(len(pieces))]
        chunks: list[Any] = [self._chunk(part) for part in pieces]
        if "truncated-stream" in self.faults:
            return _events(chunks, done=False)
        chunks.append(self._chunk("", finish))
        if dict(content.get("stream_options") or {}).get("include_usage"):
            chunks.append({"choices": [], "usage": usage})
        return _events(chunks)

    def _chunk(self, text: str, finish: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}]}

    def _shaped(self, content: Mapping[str, Any], text: str, finish: str, usage: dict[str, Any]) -> dict[str, Any]:
        thinks = dict(content.get("chat_template_kwargs") or {}).get("enable_thinking")
        message = {"role": "assistant", "content": text}
        if "empty" in self.faults and thinks:
            message |= {"content": "", "reasoning_content": text}
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "message": message}
        if content.get("logprobs"):
            choice["logprobs"] = self._logprobs(content.get("temperature", 1.0))
        return {"choices": [choice], "usage": usage}

    def _logprobs(self, temperature: float) -> dict[str, Any]:
        odds = self.probabilities(6, temperature / 2 if "logits" in self.faults else temperature)
        logarithms = {f"{k + 1}": math.log(p) for k, p in enumerate(odds) if p}
        return {
            "content": [{"top_logprobs": [{"token": token, "logprob": value} for token, value in logarithms.items()]}]
        }


def _json(status: int, content: Any, cut: bool = False) -> Reply:
    body = json.dumps(content, ensure_ascii=not cut).encode()
    at = body.index("\u00e9".encode()) + 1 if cut else len(body)
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    return Reply(status, headers, [piece for piece in (body[:at], body[at:]) if piece])


def _refused(field: str, status: int = 400) -> Reply:
    code = {"type": "invalid_request_error", "param": field, "code": "unsupported_for_diffusion"}
    return _json(status, {"error": {"message": f"{field} is not supported", **code}})


def _events(contents: Iterable[Any], done: bool = True) -> Reply:
    lines = [f"data: {json.dumps(content, ensure_ascii=False)}\n\n".encode() for content in contents]
    pieces = [part for line in lines for part in _cut(line)] + ([b"data: [DONE]\n\n"] if done else [])
    return Reply(200, {"content-type": "text/event-stream"}, pieces)


def _cut(line: bytes) -> list[bytes]:
    """The line in two pieces, within its first character of two bytes if there is one."""
    at = next((at for at, byte in enumerate(line) if byte > 127), 0) + 1
    return [line[:at], line[at:]] if at > 1 else [line]


def _broken(fault: str) -> Reply:
    kind = {"content-type": "application/json"}
    text = b'{"choices": [{"message": {"content": "1 2'
    if fault.startswith("status-"):
        after = {"retry-after": "0"} if fault == "status-429" else {}
        status, headers, pieces = _json(int(fault[7:]), {"error": {"message": WIRE[fault], "param": "temperature"}})
        return Reply(status, headers | after, pieces)
    match fault:
        case "not-json":
            return Reply(200, kind | {"content-length": "15"}, [b"<html>no</html>"])
        case "huge":
            return Reply(200, kind | {"content-length": str(10 * 2**20)}, (b" " * 2**16 for _ in range(160)))
        case "wrong-length":
            return Reply(200, kind | {"content-length": "9999"}, [text])
        case "redirect":
            return Reply(307, {"location": "http://elsewhere.invalid/v1?key=1", "content-length": "0"}, [])
        case "slow":
            return Reply(0, {}, ())
        case "die":
            return Reply(200, kind, _dying(text))
        case "empty-stream":
            return _events([], done=False)
    endless = (b'data: {"choices": [{"delta": {"content": "1 "}}]}\n\n' for _ in iter(int, 1))
    return Reply(200, {"content-type": "text/event-stream"}, endless)


def _dying(text: bytes) -> Iterator[bytes]:
    yield text
    raise ConnectionAbortedError


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    fake: FakeServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is usual."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        self._send(self.server.fake.reply("GET", self.path, b"", dict(self.headers)))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._send(self.server.fake.reply("POST", self.path, body, dict(self.headers)))

    def _send(self, reply: Reply) -> None:
        if not reply.status:
            for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10**4:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.02)
            return
        self.send_response(reply.status)
        chunked = "content-length" not in reply.headers
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        sent = 0
        for piece in reply.pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            self.wfile.flush()
            sent += len(piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        elif sent < int(reply.headers["content-length"]):
            self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing is printed."""
