"""Which cells make the demo, and their measurement under one progress bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unmask import progress
from unmask.errors import UnmaskError
from unmask.languages import Interval
from unmask.report.cells import (
    Autoregression,
    Cell,
    Correctness,
    Fluency,
    GenerativePerplexity,
    Predicted,
    Record,
    Standings,
    StepsForCorrectness,
    StepsForFluency,
)
from unmask.sweeps.sources import ground_truth

LARGE = ("paper-3gram", "paper-4gram")  # where a row is dear


@dataclass(frozen=True)
class Settings:
    """How much is measured; the defaults are the demo's."""

    rows: int = 2000
    small_rows: int = 500  # of the larger languages, and of each point of the length panel
    seed: int = 0
    generative_perplexity: bool = False
    lengths: tuple[str, ...] = ()  # languages of the length panel beside the standard two
    languages: tuple[str, ...] = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm", "interval-5")
    steps: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    length: int = 512
    panel_languages: tuple[str, ...] = ("paper-2gram", "interval-5")
    panel_lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048)
    profile_rows: int = 100
    perplexity_rows: int = 200
    excess: float = 0.01  # of TER, in the length panel
    ser: float = 0.5
    samplers: tuple[str, ...] = (
        "ancestral",
        "low-confidence",
        "entropy",
        "strided",
        "clairvoyant",
        "gibbs(stride=8)",
        "speculative",
    )
    sampler_languages: tuple[str, ...] = ("paper-2gram", "sparse-hmm", "interval-5")
    sampler_length: int = 128
    sampler_rows: int = 100  # of all seeds together

    def __post_init__(self) -> None:
        for name in ("rows", "small_rows"):
            if getattr(self, name) < 1:
                raise UnmaskError(f"{name} is {getattr(self, name)}, but at least 1 row is needed")

    @property
    def panel(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.panel_languages + self.lengths))


def cells(settings: Settings) -> list[Cell]:
    """All cells, checked, those of one language together."""
    s = settings
    found: list[Cell] = []
    for name in s.languages:
        at = name, s.length
        closed = isinstance(ground_truth(name, s.seed, True), Interval)
        rows = s.small_rows if name in LARGE else s.rows
        found.append(Autoregression(*at, 0, s.seed))
        found.append(Fluency(*at, 0 if closed else s.profile_rows, s.seed, steps=s.steps))
        if Predicted.knows(ground_truth(name, s.seed, True), s.length):
            found.append(Predicted(*at, 0, s.seed, steps=(min(s.steps), max(s.steps))))
        found += [Correctness(*at, rows, s.seed, steps=n) for n in s.steps]
        if s.generative_perplexity and not closed:
            found.append(Autoregression(*at, 0, s.seed, pruned=False))
            found += [GenerativePerplexity(*at, s.perplexity_rows, s.seed, pruned=False, steps=n) for n in s.steps]
    for name in s.panel:
        for length in s.panel_lengths:
            found.append(StepsForFluency(name, length, s.profile_rows, s.seed, excess=s.excess))
            found.append(StepsForCorrectness(name, length, s.small_rows, s.seed, ser=s.ser))
    for name in s.sampler_languages:
        found.append(Standings(name, s.sampler_length, s.sampler_rows, s.seed, samplers=s.samplers))
    for cell in found:
        cell.check()
    return found


def measure(plan: Sequence[Cell]) -> list[Record]:
    """The records of all cells, in order."""
    found: list[Record] = []
    with progress.track("demo", sum(cell.cost for cell in plan)) as advance:
        for cell in plan:
            found += cell.records()
            advance(cell.cost)
    return found


def of_samplers(records: Sequence[Record]) -> list[Record]:
    """What the samplers' figure shows; the other figures are about ancestral sampling."""
    return [record for record in records if "sampler" in record]


def of_steps(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if "sampler" not in record]
