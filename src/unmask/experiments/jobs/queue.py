"""What a driver has still to give out, and in which order: each cell after those that it needs, small ones together."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from unmask.experiments.jobs.cells import Block, Cell, blocks
from unmask.experiments.jobs.engines import Outcome
from unmask.experiments.jobs.store import Store
from unmask.experiments.measures.catalogue import TRIVIAL_COST

BATCH_SECONDS = 0.05  # trivial cells are given out together, as many as last about so long
LARGEST_BATCH = 64


@dataclass
class Line:
    """The jobs that wait, in order: blocks that belong together, and those that wait for other cells."""

    jobs: deque[list[Block]] = field(default_factory=deque)
    waiting: dict[str, tuple[set[str], list[list[Block]]]] = field(default_factory=dict)  # key: (needed keys, jobs)
    needed_by: dict[str, list[str]] = field(default_factory=dict)  # key: those that wait for it
    seconds: dict[str, float] = field(default_factory=dict)  # of a cell of each metric, lately

    def join(self, cells: Sequence[tuple[str, Cell]], store: Store) -> dict[str, int]:
        """Everything that is left of some cells; answers how many blocks each of them has."""
        begun = store.begun()
        done = store.done() if any(cell.measure.needs(cell.arguments) for _, cell in cells) else set()
        open_blocks: dict[str, int] = {}
        shared: dict[str, list[Block]] = {}
        for key, cell in cells:
            parts = blocks(cell, key, store.parts(key) if key in begun else {})
            open_blocks[key] = len(parts)
            if missing := set(parts[0].needed) - done:
                self.waiting[key] = missing, [[part] for part in parts]
                for other in missing:
                    self.needed_by.setdefault(other, []).append(key)
            elif cell.measure.shares:
                job = shared.setdefault(cell.shared, [])
                if job:
                    parts = [replace(part, cost=TRIVIAL_COST) for part in parts]  # the first has paid for the pass
                else:
                    self.jobs.append(job)
                job += parts
            else:
                self.jobs += [[part] for part in parts]
        return open_blocks

    def add(self, more: list[Block]) -> int:
        """What has come to be known of a cell makes more to do, and at once; how many blocks."""
        self.jobs.extendleft([block] for block in more)
        return len(more)

    def free(self, done: str) -> None:
        """A cell is done: what has waited for nothing else is next."""
        for key in self._waiting_for(done):
            missing, jobs = self.waiting[key]
            missing.discard(done)
            if not missing:
                del self.waiting[key]
                self.jobs += jobs

    def in_vain(self, failed: str) -> list[str]:
        """The cells that wait for one that has failed, and wait no longer."""
        found = self._waiting_for(failed)
        for key in found:
            del self.waiting[key]
        return found

    def _waiting_for(self, needed: str) -> list[str]:
        """Less those that have failed with another."""
        return [key for key in self.needed_by.pop(needed, ()) if key in self.waiting]

    @property
    def cost(self) -> float:
        jobs = [*self.jobs, *(job for _, jobs in self.waiting.values() for job in jobs)]
        return sum(block.cost for job in jobs for block in job)

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
        if outcome.block.tally is not None:
            return  # whose rows others have measured
        metric = outcome.block.spec["metric"]
        before = self.seconds.get(metric, outcome.seconds)
        self.seconds[metric] = 0.8 * before + 0.2 * outcome.seconds
