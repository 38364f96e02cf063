"""The driver starts batches in a pool and writes their answers, one transaction for each turn."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from unmask.core import progress
from unmask.experiments.sweeps.cells import Block, Cell
from unmask.experiments.sweeps.pools import Answers, Pool
from unmask.experiments.sweeps.queue import Batch, Queue
from unmask.experiments.sweeps.store import Store
from unmask.experiments.sweeps.work import Answer

BAR = 1000  # steps of the progress bar
WAIT = 1.0  # seconds between two updates of the progress bar


@dataclass
class Driver:
    """attempts: number of processes that a cell may lose before it fails."""

    store: Store
    pool: Pool
    run: int
    cells: Mapping[str, Cell]
    attempts: int = 3
    interrupts: int = 0

    def drive(self, label: str) -> None:
        """Measure the cells; after a KeyboardInterrupt the unfinished cells remain to be measured."""
        self.queue = Queue(list(self.cells.values()), self.store)
        self.running: dict[str, int] = {}  # running blocks of each cell
        passed, drawn, scale = 0.0, 0, BAR / max(self.queue.cost, 1e-9)
        with self._interruptible(), progress.track(label, BAR) as advance:

            def show() -> None:
                nonlocal drawn
                now = int((passed + self.pool.progress) * scale)
                advance(max(now - drawn, 0))
                drawn = max(now, drawn)

            self.pool.show = show
            try:
                self._fail_without_needs()
                batches = self._turn([])
                while self.running:
                    for batch in batches:
                        self.pool.start(batch)
                    answers = self.pool.wait(WAIT)
                    batches = self._turn(answers)
                    passed += sum(block.cost for block, answer in answers if not answer.lost)
                    show()
            finally:
                self.pool.stop()
        if self.interrupts:
            raise self._stopped

    def _turn(self, answers: Answers) -> list[Batch]:
        """Write answers; return the next batches."""
        self.store.check_there()
        if self.running and not answers:
            return []
        with self.store.writing():
            for block, answer in answers:
                self._count(block.key, -1)
                if block.key in self.queue.open_blocks:  # otherwise another block of the cell failed
                    self._settle(block, answer)
            batches = [] if self.interrupts else list(self.queue.take(len(self.pool.free), len(self.pool.slots)))
            for block in (block for batch in batches for block in batch):
                self._count(block.key, 1)
            self.store.progress(self.run, len(self.running))
        return batches

    def _count(self, key: str, change: int) -> None:
        self.running[key] = self.running.get(key, 0) + change
        if not self.running[key]:
            del self.running[key]

    def _settle(self, block: Block, answer: Answer) -> None:
        key, queue = block.key, self.queue
        if answer.error:
            lost = self.store.lose(key, answer.error)
            if answer.lost and lost < self.attempts:
                queue.first([block])
            else:
                self._fail(key, answer.error)
        elif answer.lost:
            queue.first([block])
        else:
            self.store.write_files(key, answer.files)  # first, so that every finished cell has its files
            if block.tally is None:
                queue.learn(block, answer.seconds)
            if block.whole:
                self.store.finish(key, answer.result, answer.seconds, self.run)
                queue.close(key)
            else:
                self.store.keep(key, block.rows, answer.result, answer.seconds)
                queue.open_blocks[key] -= 1
                if not queue.open_blocks[key]:  # a worker computes the records: the job may be untrusted code
                    queue.open_blocks[key] = 1
                    queue.first(self.cells[key].blocks(self.store.tallies(key)))

    def _fail(self, key: str, error: str) -> None:
        self.store.fail(key, error, self.run)
        for other in self.queue.drop(key):
            self._fail(other, f"it needs a cell of {self.store.spec(key)['job']!r}, which has failed: {error}")

    def _fail_without_needs(self) -> None:
        """Fail the cells that need a cell that failed in an earlier run."""
        failed = {key: error for key, error in self.store.failures().items() if key in self.queue.needed_by}
        if failed:
            with self.store.writing():
                for key, error in failed.items():
                    self._fail(key, error)

    @property
    def _stopped(self) -> KeyboardInterrupt:
        return KeyboardInterrupt(f"{self.store.directory} has the finished cells; the same command continues there")

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """The first Ctrl-C lets running batches finish; a second one, SIGTERM or SIGHUP stops them at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            self.interrupts += 1
            if number != signal.SIGINT or self.interrupts > 1:
                raise self._stopped
            progress.note("stopping after the running cells; press Ctrl-C again to stop at once")

        ends = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # which nohup ignores
            ends.append(signal.SIGHUP)
        before = {number: signal.signal(number, interrupt) for number in ends}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
