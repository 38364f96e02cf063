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
from unmask.experiments.store import Store
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
    seeds = list(range(settings.seed, settings.seed + settings.seeds))
    each_seed: dict[str, Any] = {"seed": seeds}
    if settings.model is None:  # each seed has its own random language
        each_seed["language.seed"] = seeds

    taught = max(round(settings.rows * settings.ter_share), 2) if settings.ter_share else 0
    fixed: dict[str, Any] = {"quick": settings.quick, "ter_rows": taught}
    if settings.model is not None:
        fixed |= {"model": settings.model, "device": settings.device}
    if settings.causal_model is not None:
        fixed["causal_model"] = settings.causal_model

    plan = from_dict(
        {
            "name": "board",
            "jobs": ["curve"],
            "zip": [_samplers(settings), _places(settings), each_seed],
            "fixed": fixed,
            "rows": settings.rows,
        }
    )
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
        if store.cells[key].job != "curve":
            continue
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
            spec = store.spec(keys[0])
            member = family(spec["sampler"], length, spec["quick"])
            about = language, length, member.specification, member.knob

            broken = dict.fromkeys(store.failed[key].error for key in keys if key in store.failed)
            failures += [Failure(*about, None, error) for error in broken]  # a whole seed each
            failures += [Failure(*about, *one) for one in _failed_budgets(store, keys)]
            if broken:
                continue

            files = [from_file(store.place(key) / FILE, spec["rows"]) for key in keys]
            if points := joined(member, length, files):
                points.sort(key=lambda point: point.model_calls)
                curves.append(Measured(language, length, member, points))

    return curves, failures


def _failed_budgets(store: Store, keys: Sequence[str]) -> list[tuple[object, str]]:
    """(budget, message) of each budget that failed with some seed, once."""
    failed = dict[str, tuple[object, str]]()
    for key in keys:
        if key not in store.done:
            continue
        for record in store.records(key):
            if record["measure"] == FAILURE:
                failed.setdefault(canonical(record["budget"]), (record["budget"], record["note"]))
    return [*failed.values()]
