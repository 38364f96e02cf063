"""Time a token against the number of rounds and the length, with two small figures; memory and CPU seconds at scale.

The table at scale has a process for each number: CPU seconds (user and system, which other work on the machine does not
change much) and the highest resident memory above that before the work, which follows a tiny call that loads all code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NamedTuple

from benchmarks.timing import Report, Work, main, say, table
from unmask import generate, languages
from unmask.core import memory
from unmask.core.memory import size as memory_size

NAMES = ("paper-2gram", "interval-5", "sparse-hmm", "paper-hmm")
MEMORY = ("paper-2gram", "paper-hmm", "paper-4gram")


class Size(NamedTuple):
    rows: int
    length: int
    steps: tuple[int, ...]
    lengths: tuple[int, ...]
    memory: tuple[str, ...]  # the languages whose memory is measured
    memory_rows: int
    repeats: int
    largest: dict[str, int]  # of the table at scale, next to a tenth and a hundredth of it


# 10^4 positions of an HMM have messages of 5 MB, 10^5 of 51 MB: more than a cache, so a token takes longer.
OVER_LINEAR = {"length": 1.8}
LARGEST = {"rows": 10**6, "length": 10**5, "steps": 10**6, "symbols": 150_000}
SIZES = {
    "toy": Size(4, 12, (3, 100), (12, 24), ("paper-hmm",), 4, 1, {"rows": 200}),
    "quick": Size(128, 512, (8, 512, 10**6), (512, 4096), ("paper-hmm",), 128, 1, {"rows": 10**5, "length": 10**4}),
    "full": Size(
        512, 512, (8, 64, 512, 4096, 32768, 10**6), (512, 2048, 8192, 32768, 100_000), MEMORY, 2000, 3, LARGEST
    ),
}
USUAL = {  # of the others, where one axis grows; a network of one layer has any number of symbols
    "rows": {"source": "sparse-hmm", "length": 64, "steps": 64},
    "length": {"source": "sparse-hmm", "rows": 1},  # N = L
    "steps": {"source": "sparse-hmm", "rows": 64, "length": 512},
    "symbols": {"source": "network", "rows": 64, "length": 64, "steps": 64},
}
COSTS = """
import json, resource, sys, torch
from unmask import generate, languages
from unmask.models.trained import Network, Shape, Trunk
from unmask.planning.clock import peak
at = json.loads(sys.argv[1])
symbols, rows, length = at.get("symbols", 8), at["rows"], at["length"]
steps = at.get("steps", length)
if at["source"] == "network":
    source = Network(Trunk(Shape("mdm", symbols, length, 16, 1, 2)).eval())
else:
    source = languages.load(at["source"])
generate(source, rows=2, length=8, steps=2)

def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

with peak(torch.device("cpu")) as most:
    before, began = most() or 0, cpu()
    made = generate(source, rows=rows, length=length, steps=steps)
    result = sum(x.numel() * x.element_size() for x in (made.tokens, made.order, made.probability))
    print(json.dumps([cpu() - began, (most() or 0) - before, result]))
"""
# The peak is the kernel's own count: ru_maxrss starts from the parent's.
PROGRAM = """
import resource, sys
from pathlib import Path
from unmask import generate, languages
name, rows, length, steps = sys.argv[1], *map(int, sys.argv[2:])
generate(languages.load(name), rows=rows, length=length, steps=steps)
status = Path("/proc/self/status")
if status.exists():
    print(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")))
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1))
"""


class Point(NamedTuple):
    language: str
    x: int
    token_us: float


def measure(report: Report) -> None:
    size = SIZES[report.size]
    by_steps, by_length = [], []
    for name in NAMES:
        for steps in size.steps:
            by_steps.append(Point(name, steps, _token_us(report, name, size.rows, size.length, steps, size.repeats)))
        mine = [Point(name, n, _token_us(report, name, 1, n, n, size.repeats)) for n in size.lengths]
        flat = max(p.token_us for p in mine) / mine[0].token_us
        report.at_most(f"{name}: time a token up to L={mine[-1].x} / L={mine[0].x}", flat, 2.0, "times")
        by_length += mine
    for name in size.memory:
        peak = peak_megabytes(name, size)
        report.at_most(f"{name}: peak memory {size.memory_rows} x {size.length}", peak, 1500, "MB")
    at_scale(report, size.largest)
    draw(report, by_steps, f"steps N ({size.rows} x {size.length})", "time-by-steps")
    draw(report, by_length, "length L = N (one row, one thread)", "time-by-length")


def peak_megabytes(name: str, size: Size) -> float:
    say(f"peak memory: {name}")
    numbers = [str(number) for number in (size.memory_rows, size.length, size.length)]
    ran = subprocess.run([sys.executable, "-c", PROGRAM, name, *numbers], check=True, capture_output=True, text=True)
    return int(ran.stdout.split()[-1]) * 1024 / 1e6


def at_scale(report: Report, largest: dict[str, int]) -> None:
    """Each axis at a hundredth, a tenth and the whole of its largest number; the last two against linear."""
    rows = []
    for axis, most in largest.items():
        before = None
        for count in (most // 100, most // 10, most):
            say(f"{axis} = {count}")
            words = [sys.executable, "-c", COSTS, json.dumps(USUAL[axis] | {axis: count})]
            ran = subprocess.run(words, check=True, capture_output=True, text=True)
            cpu, memory, result = json.loads(ran.stdout.splitlines()[-1])
            growth = "" if before is None else f"{cpu / before / 10:.2f}"
            rows.append((f"{axis} = {count:,}", f"{cpu:.3g}", growth, memory_size(memory), memory_size(result)))
            if count == most and before is not None:
                bound = OVER_LINEAR.get(axis, 1.5)
                report.at_most(f"{axis} = {count:,}: CPU seconds over linear", cpu / before / 10, bound, "times")
            before = cpu
    table(("", "CPU s", "over linear", "memory", "of it the result"), rows)


def draw(report: Report, points: Sequence[Point], title: str, file: str) -> None:
    """A small figure as SVG and PNG, where Altair can draw one."""
    if find_spec("altair") is None or find_spec("vl_convert") is None:
        report.missing[f"figure {file}"] = "needs altair and vl-convert-python (pip install -e '.[bench]')"
        return
    import altair

    rows = [point._asdict() for point in points]
    chart = altair.Chart(altair.Data(values=rows), width=360, height=220).mark_line(point=True)
    chart = chart.encode(
        x=altair.X("x:Q", title=title).scale(type="log", nice=False).axis(format="~s", tickCount=6),
        y=altair.Y("token_us:Q", title="microseconds a token").scale(type="log").axis(format="~g"),
        color=altair.Color("language:N", title=None, sort=list(NAMES)),
    )
    report.out.mkdir(parents=True, exist_ok=True)
    for suffix in ("svg", "png"):
        path = report.out / f"{file}.{suffix}"
        chart.save(path, scale_factor=2)
        report.figures.append(str(path))


def _token_us(report: Report, name: str, rows: int, length: int, steps: int, repeats: int) -> float:
    language = languages.load(name)
    used = min(memory.cores(), rows)
    options = dict(length=length, seed=1)
    work = Work(
        lambda: generate(language, rows=rows, steps=steps, **options),
        used,
        warm_up=lambda: generate(language, rows=1, steps=4, **options),
    )
    task = f"{name} N={steps} L={length}"
    return report.race(task, rows, length, {"unmask": work}, repeats, patience=20.0)["unmask"].token_us


if __name__ == "__main__":
    main(__doc__, measure)
