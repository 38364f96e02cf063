"""The gap next to the generation's own seconds, per model call, on the same network.

Weights are not trained: time does not depend on them.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.networks import SEED, trunk
from benchmarks.timing import Report, Work, main
from unmask import gap, generate
from unmask.core import memory
from unmask.models.trained import Network


class Size(NamedTuple):
    rows: int
    length: int
    steps: int
    hidden: int
    layers: int
    repeats: int


SIZES = {"toy": Size(4, 8, 2, 16, 1, 1), "quick": Size(32, 128, 16, 128, 4, 1), "full": Size(128, 256, 32, 256, 6, 3)}
AT_MOST = 1.15  # times the seconds of the generation


def measure(report: Report) -> None:
    size = SIZES[report.size]
    network = Network(trunk("mdm", size.length, size.hidden, size.layers))
    how = {"rows": size.rows, "length": size.length, "steps": size.steps, "seed": SEED}
    made = generate(network, **how)
    works = {
        "unmask": Work(lambda: generate(network, **how), memory.cores()),
        "gap": Work(lambda: gap(network, made, reference=0), memory.cores()),
    }
    task = f"gap, {size.rows} x {size.length}, N={size.steps}"
    timed = report.race(task, size.rows, size.length, works, size.repeats)
    calls = gap(network, made, reference=0).model_calls / int(made.model_calls.sum())
    ratio = timed["gap"].seconds / timed["unmask"].seconds / calls
    report.at_most(f"{task}: seconds per model call / those of generate", ratio, AT_MOST, "times")


if __name__ == "__main__":
    main(__doc__, measure)
