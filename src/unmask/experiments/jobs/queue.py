"""The jobs that a run has still to start, in order: each cell after the cells that it needs, quick ones together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from unmask.experiments.jobs.cells import Block, Cell
from unmask.experiments.jobs.store import Store
from unmask.experiments.measures.catalogue import TRIVIAL_COST

BATCH_SECONDS = 0.05  # quick cells are started together, as many as last about so long
LARGEST_BATCH = 64

Job = list[Block]


class Queue:
    """Jobs of one block, of the blocks of cells that share a pass, or of several quick cells."""

    def __init__(self, cells: Sequence[Cell], store: Store) -> None:
        self.jobs: deque[Job] = deque()
        self.waiting: dict[str, tuple[set[str], list[Job]]] = {}  # key: keys of unfinished cells that it needs, jobs
        self.needed_by: dict[str, list[str]] = {}
        self.open_blocks: dict[str, int] = {}  # of cells that are neither done nor failed
        self.seconds: dict[str, float] = {}  # a block of each metric, lately
        begun = store.begun()
        done = store.done() if any(cell.measure.needs(cell.arguments) for cell in cells) else set()
        shared: dict[str, Job] = {}
        for cell in cells:
            blocks = cell.blocks(store.tallies(cell.key) if cell.key in begun else {})
            self.open_blocks[cell.key] = len(blocks)
            if missing := set(blocks[0].needed) - done:
                self.waiting[cell.key] = missing, [[block] for block in blocks]
                for other in missing:
                    self.needed_by.setdefault(other, []).append(cell.key)
            elif cell.measure.shares and cell.shared in shared:
                shared[cell.shared] += [replace(block, cost=TRIVIAL_COST) for block in blocks]
            elif cell.measure.shares:
                shared[cell.shared] = blocks
                self.jobs.append(blocks)
            else:
                self.jobs += [[block] for block in blocks]
        waiting = [job for _, jobs in self.waiting.values() for job in jobs]
        self.cost = sum(block.cost for job in [*self.jobs, *waiting] for block in job)

    def take(self, free: int, slots: int) -> Iterator[Job]:
        """The next jobs for so many free slots of a pool."""
        while self.jobs and free:
            if job := [block for block in self._next(slots) if block.key in self.open_blocks]:
                free -= 1
                yield job

    def _next(self, slots: int) -> Job:
        job = self.jobs.popleft()
        metric = job[0].spec["metric"]
        if len(job) == 1 and metric in self.seconds:
            most = min(
                int(BATCH_SECONDS / max(self.seconds[metric], 1e-6)), LARGEST_BATCH, len(self.jobs) // (2 * slots)
            )
            while len(job) < most and len(self.jobs[0]) == 1 and self.jobs[0][0].spec["metric"] == metric:
                job = job + self.jobs.popleft()
        return job

    def first(self, blocks: Sequence[Block]) -> None:
        """Measure these next, each alone."""
        self.jobs.extendleft([block] for block in blocks)

    def learn(self, block: Block, seconds: float) -> None:
        """A block has taken so long."""
        metric = block.spec["metric"]
        self.seconds[metric] = 0.5 * self.seconds.get(metric, seconds) + 0.5 * seconds

    def close(self, key: str) -> None:
        """A cell is done: the cells that waited for nothing else come next."""
        del self.open_blocks[key]
        for other in self._waiting_for(key):
            missing, jobs = self.waiting[other]
            missing.discard(key)
            if not missing:
                del self.waiting[other]
                self.jobs += jobs

    def drop(self, key: str) -> list[str]:
        """A cell has failed: the cells that waited for it."""
        self.open_blocks.pop(key, None)
        lost = self._waiting_for(key)
        for other in lost:
            del self.waiting[other]
        return lost

    def _waiting_for(self, key: str) -> list[str]:
        return [other for other in self.needed_by.pop(key, ()) if other in self.waiting]
