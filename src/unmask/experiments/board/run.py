"""The sweep that measures a board, and its curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.experiments.board.curve import FAILURE, FILE, Point, from_file, joined
from unmask.experiments.board.families import OTHER_NAMES, USUAL, Family, code_of, family, with_steps
from unmask.experiments.board.settings import Settings
from unmask.experiments.cell import canonical, cells_of, check
from unmask.experiments.recipe import Recipe, from_dict
from unmask.experiments.run import Sweep
from unmask.languages import load
from unmask.languages.presets import unseeded, varied
from unmask.models.trained.checkpoints import read_language
from unmask.samplers import SAMPLERS


def standard() -> list[str]:
    """All registered samplers, each under one name; AR last."""
    names = sorted(set(SAMPLERS.makers) - set(OTHER_NAMES), key=lambda name: (name == "autoregressive", name))
    return [USUAL.get(name, name) for name in names]


def recipe(settings: Settings) -> Recipe:
    """The sweep of a board: a cell for each sampler, language and seed. Fails on wrong names, options and lengths."""
    s = settings
    names = {"model": s.model, "causal_model": s.causal_model} | ({"device": s.device} if s.model else {})
    fixed: dict[str, Any] = {name: value for name, value in names.items() if value is not None}
    seeds = list(range(s.seed, s.seed + s.seeds))
    each_seed = {"seed": seeds} | ({} if s.model is not None else {"language.seed": seeds})
    fixed |= {"quick": s.quick, "ter_rows": max(round(s.rows * s.ter_share), 2) if s.ter_share else 0}
    content = {"name": "board", "jobs": ["curve"], "zip": [_samplers(s), _places(s), each_seed]}
    plan = from_dict(content | {"fixed": fixed, "rows": s.rows})
    check(cells_of(plan))
    return plan


def _samplers(settings: Settings) -> dict[str, list[Any]]:
    """Lists of samplers and their code digests. Each is on the board once, under its name without N."""
    every = tuple(dict.fromkeys(settings.samplers)) or standard()
    names = [with_steps(name, settings.steps) for name in every]
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


@dataclass(frozen=True)
class Measured:
    """One sampler on one language, by model calls."""

    language: str  # its spec without a seed: seeds are pooled by it
    length: int
    family: Family
    points: Sequence[Point]

    @property
    def model_calls(self) -> list[float]:
        return [point.model_calls for point in self.points]

    @property
    def right(self) -> list[Tensor]:
        """(rows of all seeds) for each point: 1 where possible."""
        return [1 - point.wrong.double() for point in self.points]

    @property
    def sizes(self) -> list[int]:
        """The rows of each seed."""
        return [len(sample.values["ser"]) for sample in self.points[0].samples]


@dataclass(frozen=True)
class Failure:
    """A failed budget or sampler; the others go on without it."""

    language: str
    length: int
    sampler: str
    knob: str
    value: object  # of the knob; None if a whole seed failed
    message: str


def measured(run: Sweep) -> tuple[list[Measured], list[Failure]]:
    """The curves and failures of a sweep, by language, then by sampler; other cells are left out."""
    store = run.store
    places: dict[tuple[str, int], dict[str, list[str]]] = {}  # the keys of all seeds of a sampler
    for key in run.keys:
        if store.cells[key].job == "curve":
            if key not in store.done and key not in store.failed:
                raise UnmaskError(f"{run.directory} is not complete; `unmask sweep resume` continues it")
            spec = store.spec(key)
            language = unseeded(read_language(spec["model"])[1] if spec["model"] else spec["language"])
            own = canonical(spec | {"language": language, "seed": None})
            places.setdefault((language, spec["length"]), {}).setdefault(own, []).append(key)
    curves: list[Measured] = []
    failures: list[Failure] = []
    for (language, length), members in places.items():
        for keys in members.values():
            specs = [store.spec(key) for key in keys]
            member = family(specs[0]["sampler"], length, specs[0]["quick"])
            whole = dict.fromkeys(store.failed[key].error for key in keys if key in store.failed)
            failed: dict[str, tuple[object, str]] = {error: (None, error) for error in whole}  # a whole seed
            for key in keys:
                for record in store.records(key) if key in store.done else ():
                    if record["measure"] == FAILURE:  # each budget once
                        failed.setdefault(canonical(record["budget"]), (record["budget"], record["note"]))
            about = language, length, member.specification, member.knob
            failures += [Failure(*about, value, message) for value, message in failed.values()]
            if not whole:
                files = [from_file(store.place(key) / FILE, specs[0]["rows"]) for key in keys]
                if points := joined(member, length, files):
                    points.sort(key=lambda point: point.model_calls)
                    curves.append(Measured(language, length, member, points))
    return curves, failures
