"""The driver: hands out blocks, takes what comes back, and is the only one that writes the store.

Each turn is one transaction, what has come back together with what is given out next; only then is it given out.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from unmask import progress
from unmask.sweeps import store as stores
from unmask.sweeps.cells import Block, Cell, blocks
from unmask.sweeps.engines import Engine, Outcome
from unmask.sweeps.measures import find, merge
from unmask.sweeps.store import Store

BEAT = 10.0  # seconds between heartbeats
BATCH_SECONDS = 0.05  # trivial cells are given out together, as many as last about so long
LARGEST_BATCH = 64


@dataclass
class Line:
    """The jobs that wait: blocks that belong together, in order."""

    jobs: deque[list[Block]] = field(default_factory=deque)
    seconds: dict[str, float] = field(default_factory=dict)  # of a cell of each metric, lately

    def join(self, cells: Sequence[tuple[str, Cell]], store: Store) -> dict[str, int]:
        """Everything that is left of some cells; answers how many blocks each of them has."""
        begun = store.begun()
        open_blocks: dict[str, int] = {}
        shared: dict[str, list[Block]] = {}
        for key, cell in cells:
            parts = blocks(cell, key, store.parts(key) if key in begun else ())
            open_blocks[key] = len(parts)
            if cell.measure.shares:
                job = shared.setdefault(cell.shared, [])
                if not job:
                    self.jobs.append(job)
                job += parts
            else:
                self.jobs += [[part] for part in parts]
        return open_blocks

    def next(self, seats: int, together: bool) -> list[Block]:
        """The next job; or, where `together`, several that are over in no time."""
        job = self.jobs.popleft()
        metric = job[0].spec["metric"]
        usual = self.seconds.get(metric)
        if not together or len(job) > 1 or usual is None:
            return job
        most = min(int(BATCH_SECONDS / max(usual, 1e-6)), LARGEST_BATCH, len(self.jobs) // (2 * seats))
        while len(job) < most and len(self.jobs[0]) == 1 and self.jobs[0][0].spec["metric"] == metric:
            job = job + self.jobs.popleft()
        return job

    def learn(self, outcome: Outcome) -> None:
        metric = outcome.block.spec["metric"]
        before = self.seconds.get(metric, outcome.seconds)
        self.seconds[metric] = 0.8 * before + 0.2 * outcome.seconds


@dataclass
class Driver:
    """attempts: how often a cell may lose its process before it has failed."""

    store: Store
    engine: Engine
    run: int
    attempts: int = 3
    line: Line = field(default_factory=Line)
    open_blocks: dict[str, int] = field(default_factory=dict)  # of cells that are neither done nor failed
    flying: int = 0
    losses: dict[str, int] = field(default_factory=dict)
    beaten: float = field(default_factory=time.monotonic)
    interrupts: int = 0

    def drive(self, todo: Sequence[tuple[str, Cell]]) -> None:
        """Measure cells; after a KeyboardInterrupt, what was running is to do again."""
        self.open_blocks = self.line.join(todo, self.store)
        costs = {key: max(cell.cost, 1e-3) for key, cell in todo}
        scale = 1000 / max(sum(costs.values()), 1e-9)
        with self._interruptible(), progress.track("sweep", 1000) as advance:
            try:
                shown = passed = 0.0
                came: list[Outcome] = []
                while True:
                    jobs = self._turn(came)
                    for seat, job in jobs:
                        self.engine.give(seat, job)
                        self.flying += len(job)
                    passed += sum(costs.pop(o.block.key, 0.0) for o in came if o.block.key not in self.open_blocks)
                    advance(int(passed * scale) - int(shown))
                    shown = int(passed * scale)
                    if not self.flying:
                        break
                    came = self.engine.wait(1.0)
                    self.flying -= len(came)
            finally:
                self.engine.stop()
        if self.interrupts:
            raise KeyboardInterrupt

    def _turn(self, came: Sequence[Outcome]) -> list[tuple[str, list[Block]]]:
        """Write down what has come and who gets what next."""
        due = time.monotonic() - self.beaten > BEAT
        idle = not self.interrupts and bool(self.line.jobs) and self.engine.seat() is not None
        if not (came or due or idle):
            return []
        given: list[tuple[str, list[Block]]] = []
        with self.store.writing() as connection:
            for outcome in came:
                self._settle(connection, outcome)
            if due:
                stores.beat(connection, self.run)
                self.beaten = time.monotonic()
            taken: set[str] = set()
            while self.line.jobs and not self.interrupts:
                seat = self.engine.seat(taken)
                if seat is None:
                    break
                job = [
                    block
                    for block in self.line.next(self.engine.seats, self.engine.reports_each)
                    if block.key in self.open_blocks
                ]
                if job:
                    taken.add(seat)
                    given.append((seat, job))
                    stores.claim(connection, {block.key for block in job}, seat)
            if self.interrupts and not self.flying:
                stores.release_all(connection)
        return given

    def _settle(self, connection: sqlite3.Connection, outcome: Outcome) -> None:
        key = outcome.block.key
        if key not in self.open_blocks:
            return  # another block of the cell has failed meanwhile
        self.store.write_files(key, outcome.files)  # before the cell is done: what is done has its files
        match outcome.kind:
            case "records":
                stores.finish(connection, key, outcome.found, outcome.seconds, self.run)
                del self.open_blocks[key]
                self.line.learn(outcome)
            case "tally":
                stores.keep(connection, key, outcome.block.rows, outcome.found, outcome.seconds)
                self.open_blocks[key] -= 1
                if self.open_blocks[key] == 0:
                    self._merge(connection, key)
            case "raised" | "hung":
                self._fail(connection, key, outcome.error)
            case "killed":
                self.losses[key] = self.losses.get(key, self.store.attempts(key)) + 1
                if self.losses[key] >= self.attempts:
                    self._fail(connection, key, outcome.error)
                else:
                    stores.release(connection, key, outcome.error, self.losses[key])
                    self.line.jobs.appendleft([outcome.block])
            case "unbegun":
                stores.release(connection, key)
                self.line.jobs.appendleft([outcome.block])

    def _merge(self, connection: sqlite3.Connection, key: str) -> None:
        spec = self.store.spec(key)
        parts = self.store.parts(key)
        records = find(spec["metric"]).records
        assert records is not None
        found = records(
            merge([tally for tally, _ in parts.values()]), **{k: v for k, v in spec.items() if k != "metric"}
        )
        stores.finish(connection, key, found, sum(seconds for _, seconds in parts.values()), self.run)
        del self.open_blocks[key]

    def _fail(self, connection: sqlite3.Connection, key: str, error: str) -> None:
        made = self.losses.get(key, self.store.attempts(key) + 1)
        stores.fail(connection, key, error, made, self.run)
        del self.open_blocks[key]

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """The first Ctrl-C lets what is running end, the second does not; SIGTERM is the second at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            self.interrupts += 1
            if number == signal.SIGTERM or self.interrupts > 1:
                raise KeyboardInterrupt
            progress.note("ending after the cells that are running; Ctrl-C again stops at once")

        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
