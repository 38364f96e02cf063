"""Star graphs: a path from the hub to the end of one arm (after arXiv 2403.06963 and 2602.19980)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

from unmask.core import arguments
from unmask.tasks.contract import TASKS
from unmask.tasks.paths import NAMES, Graph, Row, scrambled


@TASKS.register("star")
@dataclass(frozen=True)
class Star(Graph):
    """Paths from the hub of a star graph to the end of one of its `arms`, each of `depth` edges.

    Written from the goal backwards, every node is determined. Written forwards, only the first edge is difficult: its
    chance rate is 1 / arms (`first_edge`).
    """

    arms: int = 3
    depth: int = 3

    def __post_init__(self) -> None:
        arguments.whole("arms", self.arms, 2, 16)
        most = (len(NAMES) - 1) // self.arms
        arguments.whole("depth", self.depth, 1, most, f" for {self.arms} arms")
        self._check()

    def make(self, rng: random.Random) -> Row:
        hub, *nodes = rng.sample(NAMES, 1 + self.arms * self.depth)
        arms = [[hub, *nodes[at :: self.arms]] for at in range(self.arms)]
        return Row(scrambled([edge for arm in arms for edge in pairwise(arm)], rng), hub, arms[0][-1])
