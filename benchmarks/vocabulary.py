"""A round of the adaptive samplers at the vocabulary of an open model, against the plain softmax of published loops."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.timing import Report, Work, main, say
from unmask.core.chance import Randomness
from unmask.denoisers import Denoiser, Logits
from unmask.samplers import SAMPLERS, Choice, Sampler, Session, View, fill

NAMES = (
    "low-confidence",
    "low-confidence(temperature=0)",
    "low-confidence(temperature=0.7)",
    "top-probability",
    "margin",
    "entropy",
    "threshold",
    "factor",
    "entropy-bounded",
    "entropy-sum",
)
WITH_MEMORY = ("klass",)  # of what earlier rounds said
ALL_COMPARED = "klass(threshold=0.02)"  # where every place is held against what was said of it before
MOST_MEMORY = 3.0  # times the logits
MOST_STEP = 1.3  # times a round of low-confidence


class Size(NamedTuple):
    vocabulary: int
    window: int
    batch: int
    repeats: int


SIZES = {"toy": Size(1500, 4, 2, 1), "quick": Size(126_464, 64, 2, 2), "full": Size(126_464, 256, 4, 5)}
# A process for each name, forked before torch has threads: a peak is that of a process. What each would import and load
# is there before; the logits are made in pieces, so that the peak is the sampler's.
PROGRAM = """
import os, resource, sys
from benchmarks.vocabulary import NAMES, Given, Size, few_steps
size = Size(*map(int, sys.argv[1:]))
few_steps(NAMES[0], Given(Size(2, 1, 1, 1)))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
for name in NAMES:
    if child := os.fork():
        if status := os.waitpid(child, 0)[1]:
            sys.exit(f"{name} ended with status {status}")
        continue
    denoiser = Given(size)
    before = peak()
    few_steps(name, denoiser)
    print((peak() - before) / (denoiser.logits.numel() * denoiser.logits.element_size()), flush=True)
    os._exit(0)
"""


class Given(Denoiser):
    """Logits in bfloat16 that are there already: what is timed is the sampler alone."""

    def __init__(self, size: Size) -> None:
        self.vocabulary, self.window = size.vocabulary, size.window
        generator = torch.Generator().manual_seed(0)
        self.logits = torch.empty((size.batch * size.window, size.vocabulary), dtype=torch.bfloat16)
        for part in self.logits.split(16):
            part.copy_(3 * torch.randn(part.shape, generator=generator))

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Logits:
        assert positions is not None
        places = (torch.arange(len(tokens)).unsqueeze(1) * self.window + positions).reshape(-1)
        return Logits(self.logits) if len(places) == len(self.logits) else Logits(self.logits[places])


class Enough(Exception):
    """One round is over."""


class Few(Sampler):
    """Another sampler, which ends after some rounds."""

    def __init__(self, inner: Sampler, steps: int) -> None:
        self.inner, self.pace = inner, inner.pace
        self.left = steps

    def choose(self, view: View) -> Choice:
        if not self.left:
            raise Enough
        self.left -= 1
        return self.inner.choose(view)


def few_steps(name: str, denoiser: Given, steps: int = 1) -> None:
    """Scores, draws and what the first rounds reveal, of N = 16."""
    rows = len(denoiser.logits) // denoiser.window
    blank = torch.full((rows, denoiser.window), denoiser.vocabulary)
    session = Session(
        denoiser, blank, Randomness(1, torch.arange(rows)), torch.full((16,), 1 / 16, dtype=torch.float64)
    )
    try:
        fill(Few(SAMPLERS.make(name), steps), session)
    except Enough:
        return


def plain(denoiser: Given, temperature: float) -> None:
    """Low confidence as published loops write it: a softmax of everything, and Gumbel's maxima where T > 0."""
    logits = denoiser.logits
    noisy = logits
    if temperature:
        noisy = logits.double().exp() / (-torch.rand(logits.shape, dtype=torch.float64).log()) ** temperature
    tokens = noisy.argmax(-1, keepdim=True)
    torch.softmax(logits.double(), -1).gather(-1, tokens).squeeze(-1).topk(len(logits) // 16)


def measure(report: Report) -> None:
    """The second evaluation of a round is not timed: `Given` has its answer."""
    size = SIZES[report.size]
    denoiser, rows = Given(size), size.batch
    for name in NAMES:
        works = {"unmask": Work(partial(few_steps, name, denoiser), torch.get_num_threads())}
        if name == "low-confidence(temperature=0)":
            works["plain torch"] = Work(partial(plain, denoiser, 0.0), torch.get_num_threads())
        elif name == "low-confidence":
            works["plain torch"] = Work(partial(plain, denoiser, 1.0), torch.get_num_threads())
        report.race(f"{name}, a round at V = {size.vocabulary}", rows, size.window, works, size.repeats)
    rules = {
        name: Work(partial(few_steps, name, denoiser, 3), torch.get_num_threads())
        for name in (*WITH_MEMORY, ALL_COMPARED)
    }
    works = {"unmask": Work(partial(few_steps, "low-confidence", denoiser, 3), torch.get_num_threads())} | rules
    timed = report.race(
        f"rules with memory, three rounds at V = {size.vocabulary}", rows, size.window, works, size.repeats
    )
    for name in WITH_MEMORY:
        if (ratio := timed[name].ratio) is not None:
            report.at_most(f"{name} / low-confidence", ratio, MOST_STEP, "of its rounds")
    say("peak memory of each")
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, size)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    for name, peak in zip(NAMES, made.stdout.split(), strict=True):
        report.at_most(f"{name}: peak memory above the logits", float(peak), MOST_MEMORY, "times the logits")


if __name__ == "__main__":
    main(__doc__, measure)
