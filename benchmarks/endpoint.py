"""What the client of servers costs: CPU of a request and memory, with a fake server in a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import Measurement, Report, main, say
from unmask.endpoint import DIALECTS, Client, Query
from unmask.endpoint.client import Answer, Journal
from unmask.endpoint.wire import Link

SERVER = "from unmask.testing import FakeServer\nwith FakeServer() as s:\n    print(s.url, flush=True); input()"
REQUESTS = {"toy": 40, "quick": 2000, "full": 10_000}
CONCURRENCY, TOKENS = 32, 16


def measure(report: Report) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            for stream in (False, True):
                asked(report, url, stream)
        finally:
            server.communicate("\n")


def asked(report: Report, url: str, stream: bool) -> None:
    many, what = REQUESTS[report.size], "stream" if stream else "answer"
    say(f"endpoint: {many} requests, {what}")
    client = Client(Link(url), DIALECTS["openai-chat"], "fake")
    fields = {"max_tokens": TOKENS} | ({"stream": True} if stream else {})
    with tempfile.TemporaryDirectory() as directory:
        journal = Journal(Path(directory) / "answers.jsonl")
        memory: list[int] = []

        def record(answer: Answer) -> None:
            assert answer.outcome == "truncated", answer.error
            journal(answer)
            if len(journal.answers) % max(many // 10, 1) == 0:
                memory.append(resident())

        cpu, began = processor(), time.perf_counter()
        client.ask_all((Query(str(n), "Hello there", fields=fields) for n in range(many)), CONCURRENCY, record)
        cpu, seconds = processor() - cpu, time.perf_counter() - began
        journal.close()
    task = f"endpoint, {what}"
    report.measurements.append(
        Measurement(task, "unmask", many, TOKENS, CONCURRENCY, seconds, seconds, seconds, 1, seconds)
    )
    report.at_most(f"{task}: CPU of the client for a request", cpu / many, 1e-3)
    report.at_most(f"{task}: memory from the first tenth to the end", (memory[-1] - memory[0]) / 2**20, 8, "MiB")


def processor() -> float:
    """Seconds of this process on processors."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main(__doc__, measure)
