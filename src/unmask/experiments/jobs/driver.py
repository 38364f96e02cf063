"""The driver: hands out blocks, takes what comes back, and is the only one that writes the store.

Each turn is one transaction, what has come back together with what is given out next; only then is it given out.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from unmask.core import progress
from unmask.experiments.jobs import store as stores
from unmask.experiments.jobs.cells import Block, Cell, blocks
from unmask.experiments.jobs.engines import Engine, Outcome
from unmask.experiments.jobs.queue import Line
from unmask.experiments.jobs.store import Store

BEAT = 10.0  # seconds between heartbeats
BAR = 1000  # steps of the progress bar


@dataclass
class Driver:
    """attempts: how often a cell may lose its process before it has failed."""

    store: Store
    engine: Engine
    run: int
    attempts: int = 3
    line: Line = field(default_factory=Line)
    cells: dict[str, Cell] = field(default_factory=dict)
    open_blocks: dict[str, int] = field(default_factory=dict)  # of cells that are neither done nor failed
    flying: int = 0
    losses: dict[str, int] = field(default_factory=dict)
    shares: dict[Block, float] = field(default_factory=dict)  # cost that is behind us, of blocks that are running
    beaten: float = field(default_factory=time.monotonic)
    interrupts: int = 0

    def drive(self, todo: Sequence[tuple[str, Cell]], label: str) -> None:
        """Measure cells; after a KeyboardInterrupt, what was running is to do again."""
        self.cells, self.open_blocks = dict(todo), self.line.join(todo, self.store)
        self._give_up_in_vain()
        scale = BAR / max(self.line.cost, 1e-9)
        passed, shown = 0.0, 0
        with self._interruptible(), progress.track(label, BAR) as advance:

            def show() -> None:
                nonlocal shown
                at = int((passed + sum(self.shares.values())) * scale)
                advance(max(at - shown, 0))
                shown = max(at, shown)

            def tell(block: Block, share: float) -> None:
                self.shares[block] = share * block.cost
                show()

            self.engine.tell = tell
            try:
                came: list[Outcome] = []
                while True:
                    for seat, job in self._turn(came):
                        self.engine.give(seat, job)
                        self.flying += len(job)
                    for outcome in came:
                        self.shares.pop(outcome.block, None)
                        passed += outcome.block.cost * (outcome.kind not in ("killed", "unbegun"))
                    show()
                    if not self.flying:
                        break
                    came = self.engine.wait(1.0)
                    self.flying -= len(came)
            finally:
                self.engine.stop()
        if self.interrupts:
            raise self._stopped

    def _give_up_in_vain(self) -> None:
        """What needs a cell that has failed before fails with it."""
        lost = {key: error for key, error in self.store.failures().items() if key in self.line.needed_by}
        if lost:
            with self.store.writing() as connection:
                for key, error in lost.items():
                    self._fail_those_that_need(connection, key, error)

    def _turn(self, came: Sequence[Outcome]) -> list[tuple[str, list[Block]]]:
        """Write down what has come and who gets what next."""
        self.store.check_there()
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
                    stores.claim(connection, {block.key for block in job})
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
                self.line.free(key)
                self.line.learn(outcome)
            case "tally":
                stores.keep(connection, key, outcome.block.rows, outcome.found, outcome.seconds)
                self.open_blocks[key] -= 1
                if self.open_blocks[key] == 0:  # what they come to is somebody's code, and a worker's work
                    self.open_blocks[key] = self.line.add(blocks(self.cells[key], key, self.store.parts(key)))
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

    def _fail(self, connection: sqlite3.Connection, key: str, error: str) -> None:
        made = self.losses.get(key, self.store.attempts(key) + 1)
        stores.fail(connection, key, error, made, self.run)
        del self.open_blocks[key]
        self._fail_those_that_need(connection, key, error)

    def _fail_those_that_need(self, connection: sqlite3.Connection, failed: str, error: str) -> None:
        for key in self.line.in_vain(failed):
            metric = self.store.spec(failed)["metric"]
            self._fail(connection, key, f"it needs a cell of {metric!r}, which has failed: {error}")

    @property
    def _stopped(self) -> KeyboardInterrupt:
        return KeyboardInterrupt(
            f"what is done is kept in {self.store.directory}, and the same command goes on from there"
        )

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """The first Ctrl-C lets what is running end, the second does not; SIGTERM and SIGHUP are the second at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            self.interrupts += 1
            if number != signal.SIGINT or self.interrupts > 1:
                raise self._stopped
            progress.note("ending after the cells that are running; Ctrl-C again stops at once")

        ends = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup has it
            ends.append(signal.SIGHUP)
        before = {number: signal.signal(number, interrupt) for number in ends}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
