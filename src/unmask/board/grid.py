"""Which samplers meet which languages at which budgets, and their measurement under one progress bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from unmask import progress
from unmask.board.cells import Place, Point, does_nothing, measure, network
from unmask.board.families import OTHER_NAMES, STEPS, USUAL, Family, family
from unmask.board.measures import Curve
from unmask.errors import UnmaskError
from unmask.languages import load
from unmask.networks.checkpoints import read_language
from unmask.samplers import SAMPLERS

QUICK_LANGUAGES = ("paper-2gram", "sparse-hmm", "interval-5")
LANGUAGES = (*QUICK_LANGUAGES, "paper-3gram", "modular-sum", "brackets")


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    samplers: tuple[str, ...] = ()  # every registered one, unless told otherwise
    languages: tuple[str, ...] = LANGUAGES
    lengths: tuple[int, ...] = (128,)
    rows: int = 400  # of each seed
    seeds: int = 3
    seed: int = 0
    steps: tuple[int, ...] = ()  # N, where that is the knob
    quick: bool = False  # fewer N
    against: str = "ancestral"  # whom accuracy is compared to, row by row
    targets: tuple[float, ...] = (0.5, 0.1, 0.01)  # of SER
    excess: float = 0.01  # of TER
    ter_share: float = 0.5  # of the rows: as many x ~ q are priced for TER; 0 leaves it out
    model: str | None = None  # the directory of a network, on the language that it was trained on
    causal_model: str | None = None  # an AR network beside an MDM

    def __post_init__(self) -> None:
        for name in ("rows", "seeds"):
            if getattr(self, name) < 1:
                raise UnmaskError(f"{name} is {getattr(self, name)}, but at least 1 is needed")
        for name in ("languages", "lengths"):
            if not getattr(self, name):
                raise UnmaskError(f"there are no {name}; give at least one")

    @property
    def every_sampler(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.samplers)) or tuple(standard())

    @property
    def every_seed(self) -> range:
        return range(self.seed, self.seed + self.seeds)

    @property
    def ter_rows(self) -> int:
        """Of each seed."""
        return max(round(self.rows * self.ter_share), 2) if self.ter_share else 0


def quick(**given: Any) -> Settings:
    """A minute's board, but for what is given."""
    usual: dict[str, Any] = {"languages": QUICK_LANGUAGES, "rows": 100, "seeds": 2, "quick": True, "ter_share": 0.25}
    return Settings(**usual | given)


def standard() -> list[str]:
    """Every registered sampler under one name, AR last."""
    names = sorted(set(SAMPLERS.makers) - set(OTHER_NAMES), key=lambda name: (name == "autoregressive", name))
    return [USUAL.get(name, name) for name in names]


@dataclass(frozen=True)
class Failure:
    """What a sampler could not do: the others go on without it."""

    language: str
    length: int
    sampler: str
    knob: str
    value: object
    message: str


@dataclass(frozen=True)
class Measured:
    """One sampler on one language."""

    language: str
    length: int
    family: Family
    curve: Curve


@dataclass(frozen=True)
class Grid:
    """The places and families of a board, checked."""

    settings: Settings
    places: list[tuple[str, int]]
    families: dict[int, list[Family]]  # by length

    @property
    def cost(self) -> int:
        """In no unit: budgets that look at every position N times take N times as long."""
        return sum(_cost(family, length) for _, length in self.places for family in self.families[length])


def grid(settings: Settings) -> Grid:
    """Fail before anything is measured: on names, options, lengths."""
    if settings.model is not None:
        return _of_model(settings, settings.model)
    places = []
    for name in settings.languages:
        language = load(name, seed=settings.seed)
        for length in settings.lengths:
            if length < 2:
                raise UnmaskError(f"length is {length}; the board compares sequences of at least 2 tokens")
            places.append((name, language.nearest_lengths(length)[0]))
    return _grid(settings, list(dict.fromkeys(places)))


def _of_model(settings: Settings, model: str) -> Grid:
    language, label = read_language(model)
    filled = network(model, settings.causal_model)
    for length in settings.lengths:
        language.check_length(length)
        if length > filled.length:
            raise UnmaskError(f"{model} is a network for at most {filled.length} tokens, not for {length}")
    return _grid(settings, [(label, length) for length in dict.fromkeys(settings.lengths)])


def _grid(settings: Settings, places: list[tuple[str, int]]) -> Grid:
    families = {
        length: [family(name, length, settings.steps, settings.quick) for name in settings.every_sampler]
        for length in {length for _, length in places}
    }
    return Grid(settings, places, families)


def measure_all(plan: Grid) -> tuple[list[Measured], list[Failure]]:
    """Every curve of the grid, and what failed."""
    found: list[Measured] = []
    failures: list[Failure] = []
    s = plan.settings
    with progress.track("board", plan.cost) as advance, one_thread() if s.model is None else nullcontext():
        for name, length in plan.places:
            seeds = [Place(name, length, seed, s.model, s.causal_model) for seed in s.every_seed]
            for member in plan.families[length]:
                points, failed = draw_curve(seeds, member, s)
                if points:
                    found.append(Measured(name, length, member, Curve(points)))
                failures += failed
                advance(_cost(member, length))
    if not found:
        raise UnmaskError(f"no sampler could be measured; {failures[0].sampler}: {failures[0].message}")
    return found, failures


@contextmanager
def one_thread() -> Iterator[None]:
    """torch's own threads wait for each other longer than a round of so few rows takes."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def draw_curve(seeds: Sequence[Place], member: Family, settings: Settings) -> tuple[list[Point], list[Failure]]:
    """The points of a family from cheap to dear, until a row costs as much as AR, or N is found to do nothing.

    A budget that fails is left out, whatever the reason: a stranger's sampler stops no one else.
    """
    name, length = seeds[0].name, seeds[0].length
    points: list[Point] = []
    failures = []
    for value in member.values:
        try:
            samples = [measure(place, member, value, settings.rows, settings.ter_rows) for place in seeds]
        except Exception as error:
            reason = str(error) if isinstance(error, UnmaskError) else f"{type(error).__name__}: {error}"
            failures.append(Failure(name, length, member.specification, member.knob, value, reason))
            continue
        point = Point(value, samples, length)
        if points and does_nothing(point, points[-1]):
            if member.knob == STEPS:
                break
            continue
        points.append(point)
        if point.evaluations >= length - 1e-9:
            break
    return points, failures


def _cost(member: Family, length: int) -> int:
    rounds = (min(value, length) if member.knob == STEPS else length / 4 for value in member.values)
    return int(sum(rounds)) + 1
