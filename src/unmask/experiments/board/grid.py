"""The settings of a board, and the sweep that measures it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from unmask.core import arguments
from unmask.core.chance import MAX_SEED
from unmask.core.errors import UnmaskError
from unmask.experiments.board.families import OTHER_NAMES, USUAL, code_of, family, with_steps
from unmask.experiments.cell import cells_of, check
from unmask.experiments.recipe import Recipe, from_dict
from unmask.languages import load
from unmask.languages.reading import varied
from unmask.samplers import SAMPLERS

QUICK_LANGUAGES = ("paper-2gram", "sparse-hmm", "interval-5")
LANGUAGES = (*QUICK_LANGUAGES, "paper-3gram", "modular-sum", "brackets")


@dataclass(frozen=True)
class Settings:
    """Samplers, languages and sizes of a board."""

    samplers: tuple[str, ...] = ()  # all registered ones if empty
    languages: tuple[str, ...] = LANGUAGES
    lengths: tuple[int, ...] = (128,)
    rows: int = 400  # of each seed
    seeds: int = 3
    seed: int = 0  # the first; each seed has its own random language, unless its spec has a seed
    steps: tuple[int, ...] = ()  # N, if that is the knob
    quick: bool = False  # fewer N
    against: str = "ancestral"  # the sampler for comparisons, row by row
    targets: tuple[float, ...] = (0.5, 0.1, 0.01)  # of SER
    excess: float = 0.01  # of TER
    ter_share: float = 0.5  # true sequences for TER, as a fraction of rows; 0 leaves TER out
    model: str | None = None  # the directory of a network, measured on its training language
    causal_model: str | None = None  # an AR network in addition to an MDM
    device: str = "auto"  # of the models

    def __post_init__(self) -> None:
        arguments.whole("rows", self.rows, 1, arguments.MOST_ROWS)
        arguments.whole("seeds", self.seeds, 1, arguments.MOST_ROWS)
        arguments.whole("seed", self.seed, 0, MAX_SEED - self.seeds)
        for steps in self.steps:
            arguments.steps(steps)
        SAMPLERS.make(self.against)
        for name in ("languages", "lengths"):
            if not getattr(self, name):
                raise UnmaskError(f"there are no {name}; give at least one")

    @property
    def every_sampler(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.samplers)) or tuple(standard())

    @property
    def every_seed(self) -> dict[str, list[int]]:
        """Seeds, read together; a network has learned one language."""
        seeds = list(range(self.seed, self.seed + self.seeds))
        return {"seed": seeds} | ({} if self.model is not None else {"language.seed": seeds})

    @property
    def ter_rows(self) -> int:
        """True sequences for TER, of each seed."""
        return max(round(self.rows * self.ter_share), 2) if self.ter_share else 0


def quick(**given: Any) -> Settings:
    """Settings of a board of about a minute; given settings replace them."""
    usual: dict[str, Any] = {"languages": QUICK_LANGUAGES, "rows": 100, "seeds": 2, "quick": True, "ter_share": 0.25}
    return Settings(**usual | given)


def standard() -> list[str]:
    """All registered samplers, each under one name; AR last."""
    names = sorted(set(SAMPLERS.makers) - set(OTHER_NAMES), key=lambda name: (name == "autoregressive", name))
    return [USUAL.get(name, name) for name in names]


def recipe(settings: Settings) -> Recipe:
    """The sweep of a board: a cell for each sampler, language and seed. Fails on wrong names, options and lengths."""
    s = settings
    names = {"model": s.model, "causal_model": s.causal_model} | ({"device": s.device} if s.model else {})
    fixed = {name: value for name, value in names.items() if value is not None}
    content = {
        "name": "board",
        "jobs": ["curve"],
        "zip": [_samplers(s), _places(s), s.every_seed],
        "fixed": fixed | {"quick": s.quick, "ter_rows": s.ter_rows},
        "rows": s.rows,
    }
    plan = from_dict(content)
    check(cells_of(plan))
    return plan


def _samplers(settings: Settings) -> dict[str, list[Any]]:
    """Lists of samplers and their code digests. Each is on the board once, under its name without N."""
    names = [with_steps(name, settings.steps) for name in settings.every_sampler]
    labels = Counter(family(name, 2).specification for name in names)
    if family(settings.against, 2).specification not in labels and settings.against != Settings.against:
        raise UnmaskError(f"against is {settings.against!r}, which is not on the board; add it to the samplers")
    label, count = labels.most_common(1)[0]
    if count > 1:
        raise UnmaskError(f"{count} samplers are {label!r} on the board; give all of their budgets in one list")
    return {"sampler": names, "code": [code_of(name) for name in names]}


def _places(settings: Settings) -> dict[str, list[Any]]:
    """Lists of languages and lengths, read together: each language has its own lengths."""
    if settings.model is not None:
        return {"length": list(dict.fromkeys(settings.lengths))}
    places: dict[tuple[str, int], None] = {}
    for name in settings.languages:
        language = load(varied(name, seed=settings.seed))
        for length in settings.lengths:
            if length < 2:
                raise UnmaskError(f"length is {length}; expected at least 2 tokens")
            places[name, language.nearest_lengths(length)[0]] = None
    return {"language": [name for name, _ in places], "length": [length for _, length in places]}
