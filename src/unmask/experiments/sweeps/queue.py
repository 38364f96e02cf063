"""The queue of a run: each cell after the cells that it needs, quick cells together in batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from unmask.experiments.jobs.catalogue import TRIVIAL_COST
from unmask.experiments.sweeps.cells import Block, Cell
from unmask.experiments.sweeps.store import Store

BATCH_SECONDS = 0.05  # duration of a batch of quick cells
LARGEST_BATCH = 64

Batch = list[Block]


class Queue:
    """Batches: one block, the blocks of cells that need the same pass, or several quick cells."""

    def __init__(self, cells: Sequence[Cell], store: Store) -> None:
        self.batches: deque[Batch] = deque()
        self.waiting: dict[str, tuple[set[str], list[Batch]]] = {}  # key: (unfinished needed cells, batches)
        self.needed_by: dict[str, list[str]] = {}
        self.open_blocks: dict[str, int] = {}  # number for each unfinished cell
        self.seconds: dict[str, float] = {}  # of a block of each job, recently
        begun = store.begun()
        done = store.done() if any(cell.measure.needs(cell.arguments) for cell in cells) else set()
        shared: dict[str, Batch] = {}
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
                self.batches.append(blocks)
            else:
                self.batches += [[block] for block in blocks]
        waiting = [batch for _, batches in self.waiting.values() for batch in batches]
        self.cost = sum(block.cost for batch in [*self.batches, *waiting] for block in batch)

    def take(self, free: int, slots: int) -> Iterator[Batch]:
        """The next batches for the free slots of a pool."""
        while self.batches and free:
            if batch := [block for block in self._next(slots) if block.key in self.open_blocks]:
                free -= 1
                yield batch

    def _next(self, slots: int) -> Batch:
        batch = self.batches.popleft()
        job = batch[0].spec["job"]
        if len(batch) == 1 and job in self.seconds:
            quick = int(BATCH_SECONDS / max(self.seconds[job], 1e-6))
            most = min(quick, LARGEST_BATCH, len(self.batches) // (2 * slots))
            while len(batch) < most and len(self.batches[0]) == 1 and self.batches[0][0].spec["job"] == job:
                batch = batch + self.batches.popleft()
        return batch

    def first(self, blocks: Sequence[Block]) -> None:
        """Measure these blocks next, each alone."""
        self.batches.extendleft([block] for block in blocks)

    def learn(self, block: Block, seconds: float) -> None:
        job = block.spec["job"]
        self.seconds[job] = 0.5 * self.seconds.get(job, seconds) + 0.5 * seconds

    def close(self, key: str) -> None:
        """Mark a cell as done and queue the cells that waited only for it."""
        del self.open_blocks[key]
        for other in self._waiting_for(key):
            missing, batches = self.waiting[other]
            missing.discard(key)
            if not missing:
                del self.waiting[other]
                self.batches += batches

    def drop(self, key: str) -> list[str]:
        """Remove a failed cell; return the cells that waited for it."""
        self.open_blocks.pop(key, None)
        lost = self._waiting_for(key)
        for other in lost:
            del self.waiting[other]
        return lost

    def _waiting_for(self, key: str) -> list[str]:
        return [other for other in self.needed_by.pop(key, ()) if other in self.waiting]
