"""The sweep that measures a board, and its curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

from torch import Tensor

from unmask.core.entries import column, given, grouped, picked
from unmask.core.errors import UnmaskError
from unmask.experiments.board.curve import FAILURE, FILE, Point, from_file, joined, sizes_of
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

    fixed: dict[str, Any] = {"quick": settings.quick, "ter_rows": 0}
    if settings.ter_share:
        fixed["ter_rows"] = max(round(settings.rows * settings.ter_share), 2)
    if settings.model is not None:
        fixed["device"] = settings.device
    fixed |= given({"model": settings.model, "causal_model": settings.causal_model})

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
    return {"sampler": names, "code": list(map(code_of, names))}


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
    languages, lengths = map(list, zip(*places, strict=True))
    return {"language": languages, "length": lengths}


@dataclass(frozen=True)
class Measured:
    """One sampler on one language, by model calls."""

    language: str  # its spec without a seed: seeds are pooled by it
    length: int
    family: Family
    points: Sequence[Point]

    @property
    def model_calls(self) -> list[float]:
        return column(self.points, "model_calls")

    @property
    def right(self) -> list[Tensor]:
        """(rows of all seeds) for each point: 1 where possible."""
        return [1 - point.wrong.double() for point in self.points]

    @property
    def sizes(self) -> list[int]:
        """The rows of each seed."""
        return sizes_of(self.points[0].samples)


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
    keys = [key for key in run.keys if store.cells[key].job == "curve"]
    if not set(keys) <= store.done.keys() | store.failed.keys():
        raise UnmaskError(f"{run.directory} is not complete; `unmask sweep resume` continues it")

    curves: list[Measured] = []
    failures: list[Failure] = []
    for (language, length), of_place in grouped(keys, lambda key: _place(store.spec(key))).items():
        seeds = grouped(of_place, lambda key: canonical(store.spec(key) | {"language": "", "seed": None}))
        for own in seeds.values():
            spec = store.spec(own[0])
            member = family(spec["sampler"], length, spec["quick"])
            about = language, length, member.specification, member.knob

            failures += [Failure(*about, *one) for one in _failed(store, own)]
            if store.failed.keys() & own:  # a whole seed
                continue

            files = [from_file(store.place(key) / FILE, spec["rows"]) for key in own]
            if points := joined(member, length, files):
                points.sort(key=attrgetter("model_calls"))
                curves.append(Measured(language, length, member, points))

    return curves, failures


def _place(spec: Mapping[str, Any]) -> tuple[str, int]:
    """The language, without its seed, and the length of a cell."""
    language = read_language(spec["model"])[1] if spec["model"] else spec["language"]
    return unseeded(language), spec["length"]


def _failed(store: Store, keys: Sequence[str]) -> list[tuple[object, str]]:
    """(budget, message), once each: of a whole seed, without a budget, and of a budget that failed with some seed."""
    whole = dict.fromkeys(column(picked(store.failed, keys).values(), "error"))
    failed = dict[str, tuple[object, str]]()
    for record in chain(*column(picked(store.done, keys).values(), "records")):
        if record["measure"] == FAILURE:
            failed.setdefault(canonical(record["budget"]), (record["budget"], record["note"]))
    return [*zip(repeat(None), whole, strict=False), *failed.values()]
