"""Evaluate the model behind a server: the same items, checks and records as for a model on disk.

STORE/answers.jsonl has one line per request, written when its answer has come; the same command resumes there. A
request without an answer is sent again.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from unmask.core import arguments, progress
from unmask.core.errors import UnmaskError
from unmask.core.files import make_directory
from unmask.core.reading import read_lines
from unmask.endpoint import prices, probe
from unmask.endpoint.client import Answer, Client, Journal, Query
from unmask.endpoint.wire import Exchange, Limits
from unmask.experiments.evaluation import checking, records
from unmask.experiments.evaluation.run import Evaluation
from unmask.tasks import TASKS, Item, Task, asking
from unmask.tasks import sample as samples
from unmask.tasks.contract import find, fingerprint
from unmask.tasks.sample import Sample

ANSWERS = "answers.jsonl"
DONE = ("ok", "truncated", "empty")  # outcomes of requests that are not sent again
REFUSED = 0.02  # fraction of refused requests that stops a run
SEEDS = 2**31


@dataclass(frozen=True)
class Remote:
    """send: further fields of each request, also those that the task would send; None leaves a field out.

    seed: each item gets its own seed, a digest of this one; without it no seed is sent.
    """

    url: str
    task: str
    model: str | None = None
    dialect: str = "auto"
    concurrency: Sequence[int] = (1,)
    data: str | None = None
    limit: int | None = None
    each: int = 1
    length: int | None = None
    system: str | None = None
    until: bool = True
    send: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    prices: Path | None = None
    max_usd: float | None = None
    limits: Limits = Limits()


@dataclass(frozen=True)
class Run:
    """The requests of one concurrency in this run."""

    concurrency: int
    requests: int
    seconds: float
    tokens: int
    reasoning_tokens: int
    usd: float | None
    stopped: str = ""  # the reason of an early end
    refused: bool = False  # whether too many refusals were the reason


def evaluate_endpoint(remote: Remote, out: str | Path, link: Exchange | None = None) -> tuple[Evaluation, list[Run]]:
    """Send the missing requests, then check all answers."""
    for many in remote.concurrency:
        arguments.whole("concurrency", many, 1, 1024)
    arguments.whole("each", remote.each, 1, 10**4)
    task, directory = TASKS.make(remote.task), make_directory(arguments.path("out", out))
    data = remote.data or find(task.file)
    every = task.items(data)
    items = every[: remote.limit]
    client = probe.connect(remote.url, remote.model, remote.dialect, remote.limits, link)
    if remote.system is not None and not client.dialect.chat:
        raise UnmaskError(f"--system needs a conversation, and {client.dialect.name} has none. Leave it out")
    fields: dict[str, Any] = {"max_tokens": task.length if remote.length is None else remote.length} | dict(remote.send)
    fields = {name: value for name, value in fields.items() if value is not None}
    if fields.get("stream"):
        fields = dict(client.dialect.counting) | fields
    obeyed = probe.fields(client, [name for name in fields if name in probe.FIELDS])
    if ignored := [name for name, verdict in obeyed.items() if verdict == probe.IGNORED]:
        progress.note(f"the server ignores {', '.join(ignored)}")
    how: dict[str, Any] = {"length": fields.get("max_tokens", task.length), "sampler": client.dialect.name}
    how |= {"chat": client.dialect.chat, "system": remote.system, "seed": remote.seed}
    how |= {"until": [] if client.dialect.chat or not remote.until else list(task.until)}
    how["fields"] = {name: value for name, value in fields.items() if name not in ("max_tokens", "stream_options")}
    about = {"task": asking(remote.task), "data": fingerprint(every), "server": {"fields": obeyed}}
    about["model"] = {"card": client.model or "unnamed", "dtype": "as served", "cache": "as served"}
    runs, written = [], []
    for many in remote.concurrency:
        queries = _queries(remote, task, items, client, fields, many)
        cost = None if remote.prices is None else prices.read(remote.prices, client.model)
        runs.append(_run(client, queries, directory / ANSWERS, many, cost, remote.max_usd, how["length"]))
        answers = _read(directory / ANSWERS, {client.request(query)[0] for query in queries})
        now = about | {"how": how | {"concurrency": many}}
        own = [
            _sample(query, row, answers.get(client.request(query)[0]), now, items, many)
            for row, query in enumerate(queries)
        ]
        written += _checked([one for one in own if one is not None], answers, remote.task, every)
        if runs[-1].stopped:
            break
    path = directory / records.RECORDS
    settings = {records.setting(sample) for sample in written}
    earlier = records.read(directory) if path.exists() else []
    result = [sample for sample in earlier if records.setting(sample) not in settings] + written
    samples.write(path, result)
    return Evaluation(directory, result), runs


def _queries(
    remote: Remote, task: Task, items: Sequence[Item], client: Client, fields: Mapping[str, Any], many: int
) -> list[Query]:
    first = [] if remote.system is None else [{"role": "system", "content": remote.system}]
    queries = []
    for item in items:
        for number in range(remote.each):
            seed = {}
            if remote.seed is not None:
                name = hashlib.sha256(f"{remote.seed}/{item.name}/{number}".encode()).digest()
                seed = {"seed": int.from_bytes(name[:8], "big") % SEEDS}
            talk = [{"role": m.role, "content": m.content} for m in task.messages(item)] if client.dialect.chat else []
            prompt = "" if client.dialect.chat else task.prompt(item)
            queries.append(
                Query(f"{many}/{item.name}", prompt, [*first, *talk] if talk else (), dict(fields) | seed, number)
            )
    return queries


def _run(
    client: Client,
    queries: Sequence[Query],
    path: Path,
    many: int,
    cost: prices.Prices | None,
    most: float | None,
    length: int,
) -> Run:
    """Send the requests that have no answer, in a random order that is always the same."""
    if most is not None and cost is None:
        raise UnmaskError("--max-usd needs prices. Add --prices FILE")
    journal, stop, began = Journal(path), threading.Event(), time.monotonic()
    by_key = {client.request(query)[0]: query for query in queries}
    left = [query for key, query in by_key.items() if journal.answers.get(key) not in DONE]
    random.Random(0).shuffle(left)
    if cost is not None:
        progress.note(f"{len(left)} requests cost about {cost.most(left, length):.2f} USD, at most")
    tally = {"requests": 0, "tokens": 0, "reasoning": 0, "refused": 0}
    usd, stopped = 0.0, ""
    try:
        with progress.track(f"requests, concurrency {many}", len(left)) as advance:

            def record(answer: Answer) -> None:
                nonlocal usd, stopped
                journal(answer)
                tally["requests"] += 1
                tally["tokens"] += answer.tokens or 0
                tally["reasoning"] += answer.reasoning_tokens or 0
                tally["refused"] += answer.outcome == "refused"
                usd += 0.0 if cost is None else cost.of(answer, by_key[answer.key])
                if answer.outcome == "refused" and tally["refused"] > REFUSED * len(queries):
                    field = f" It names the field {answer.param}: add --drop {answer.param}." if answer.param else ""
                    stopped = (
                        f"the server refused {tally['refused']} of {len(queries)} requests: {answer.error}.{field}"
                    )
                elif most is not None and usd >= most:
                    stopped = f"the requests cost {usd:.2f} USD; --max-usd is {most:g}. Raise it to continue"
                if stopped:
                    stop.set()
                advance(1)

            client.ask_all(left, many, record, stop)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{tally['requests']} answers are in {path}; the same command resumes") from None
    finally:
        journal.close()
    seconds, paid = time.monotonic() - began, None if cost is None else usd
    refused = tally["refused"] > REFUSED * len(queries)
    return Run(many, tally["requests"], seconds, tally["tokens"], tally["reasoning"], paid, stopped, refused)


def _read(path: Path, keys: set[str]) -> dict[str, Answer]:
    """The last answer to each of these requests."""
    return {answer.key: answer for _, answer in read_lines(path, Answer, samples.MOST) if answer.key in keys}


def _sample(
    query: Query, row: int, answer: Answer | None, about: dict[str, Any], items: Sequence[Item], many: int
) -> Sample | None:
    if answer is None:
        return None
    prompt = query.prompt or "\n".join(message["content"] for message in query.messages)
    return Sample(
        item=query.item.partition("/")[2],
        number=query.number,
        row=row,
        about=about,
        prompt=prompt,
        prompt_sha256=hashlib.sha256(prompt.encode()).hexdigest(),
        prompt_tokens=answer.prompt_tokens or 0,
        tokens=[],
        reported_tokens=answer.tokens,
        order=[],
        reason=(answer.finish or "stop") if answer.answered else answer.outcome,
        model_calls={} if answer.forwards is None else {"endpoint": answer.forwards},
        forwards=answer.forwards or 0,
        flops=0.0,
        seconds=answer.seconds,
        memory=None,
        batch=many,
        text=answer.text if answer.answered else "",
    )


def _checked(
    written: Sequence[Sample], answers: Mapping[str, Answer], task: str, items: Sequence[Item]
) -> list[Sample]:
    """The samples with their verdicts, and the speed of each answer among their values."""
    speeds = {(answer.item, answer.number): _speed(answer) for answer in answers.values()}
    return [
        msgspec.structs.replace(one, values=one.values | speeds[f"{one.batch}/{one.item}", one.number])
        for one in checking.checked(written, task, items)
    ]


def _speed(answer: Answer) -> dict[str, float]:
    """Rates over the whole request, never from the gaps between chunks."""
    if not answer.answered or not answer.seconds:
        return {}
    counts = {"tokens_per_second": answer.tokens, "forwards_per_second": answer.forwards}
    speeds = {name: count / answer.seconds for name, count in counts.items() if count is not None}
    if answer.chunks and answer.first_text is not None:
        speeds |= {"seconds_to_first_text": answer.first_text}
    return speeds
