"""A recipe: a YAML file that defines the cells of a sweep.

    name: lengths
    jobs: [samples, ter_upper(rows=100)]     jobs, with settings
    grid: {language: [paper-2gram, interval-5]} every combination of these values
    zip: {length: [128, 256], steps: [32, 64]}  lists that are read together; or a list of such mappings
    fixed: {sampler: ancestral}                 the same in every cell
    rows: 2000                                  rows of each cell
    seeds: 3                                    sampling seeds 0, 1, 2; or a list
    parts: [{grid: ...}, {zip: ...}]            several grids, each with these keys; the keys above are common to all

grid, zip and fixed take the parameters of the jobs (jobs/). A key `X.option` is an option of the spec X. With
`grid: {language.seed: [0, 1]}, seeds: 3`, two languages are sampled with three seeds each. With `zip: {language.seed:
[0, 1, 2], seed: [0, 1, 2]}`, three languages are sampled, each with its own seed. A language that is not random ignores
such a key, and an option in the spec itself wins. Quote a name with a comma inside, such as
"blocks(block_length=16, inner=ancestral)"; otherwise YAML reads two names.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, product
from pathlib import Path
from typing import Annotated, Any

import msgspec

from unmask.core.entries import column, given, several, without
from unmask.core.errors import UnmaskError, shown, unknown
from unmask.core.memory import counted
from unmask.core.reading import fit, from_yaml, read_yaml

MOST_CELLS = 10**6  # cells of a recipe: each is a row of the store
NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
PACKAGE = Path(__file__).parents[1]
DIRECTORIES = (PACKAGE / "recipes", PACKAGE.parents[1] / "recipes")  # of an installed package, of the repository

Plain = str | int | float | bool | None
Jobs = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] | Annotated[str, msgspec.Meta(min_length=1)]
Values = Annotated[tuple[Plain, ...], msgspec.Meta(min_length=1)]
Seeds = Annotated[int, msgspec.Meta(ge=1, le=MOST_CELLS)] | Annotated[tuple[int, ...], msgspec.Meta(min_length=1)]


class _Keys(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The keys of a part in a file."""

    jobs: Jobs | None = None
    grid: dict[str, Values] = {}
    fixed: dict[str, Plain] = {}
    zip: tuple[dict[str, Values], ...] | dict[str, Values] = ()
    rows: int | None = None
    seeds: Seeds | None = None

    def lists(self) -> Iterator[Mapping[str, tuple[Plain, ...]]]:
        """Mappings of lists, each read together; seeds last."""
        for name, value in (*self.fixed.items(), *given({"rows": self.rows}).items()):
            yield {name: (value,)}
        for name, values in self.grid.items():
            yield {name: values}
        yield from several(self.zip)
        if self.seeds is not None:
            yield {"seed": tuple(range(self.seeds) if isinstance(self.seeds, int) else dict.fromkeys(self.seeds))}


class _File(_Keys, kw_only=True):
    """The keys of a file, common to all parts, and its parts."""

    name: str = ""
    parts: Annotated[tuple[_Keys, ...], msgspec.Meta(min_length=1)] = (_Keys(),)


@dataclass(frozen=True)
class Part:
    """Jobs, or one, and the lists of values that make their cells, the seeds last."""

    jobs: tuple[str, ...] | str
    lists: tuple[Mapping[str, tuple[Plain, ...]], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "jobs", tuple(dict.fromkeys(several(self.jobs))))
        object.__setattr__(self, "lists", tuple(sorted(self.lists, key=lambda tied: [*tied] == ["seed"])))

        if not self.jobs:
            raise UnmaskError("there are no jobs; name at least one")

        for tied in self.lists:
            if len(set(map(len, tied.values()))) > 1:
                sizes = ", ".join(f"{name} has {len(values)}" for name, values in tied.items())
                raise UnmaskError(f"lists in zip must be equally long; {sizes}")
            for rows in tied.get("rows", ()):
                if isinstance(rows, int) and rows < 1:
                    raise UnmaskError(f"rows is {rows}; expected at least 1")

        repeated = Counter(chain.from_iterable(self.lists)) - Counter(self.names)
        if repeated:
            raise UnmaskError(f"{min(repeated)} is set more than once in grid, fixed, zip, rows and seeds; set it once")

        size = math.prod(len(next(iter(tied.values()), ())) for tied in self.lists)
        if size > MOST_CELLS:
            raise UnmaskError(
                f"grid, zip and seeds make {counted(size)} combinations for each job, "
                f"and a sweep has at most {MOST_CELLS:,} cells",
                "shorten their lists",
            )

    @property
    def names(self) -> set[str]:
        """The parameters that the part sets."""
        return set(chain.from_iterable(self.lists))

    def points(self) -> Iterator[dict[str, Any]]:
        """Every combination; the last list varies fastest."""
        walked = [zip(*tied.values(), strict=True) for tied in self.lists]
        for chosen in product(*walked):
            point: dict[str, Any] = {"seed": 0}
            for tied, values in zip(self.lists, chosen, strict=True):
                point |= zip(tied, values, strict=True)
            yield point

    def only(self, name: str, values: Sequence[Plain]) -> Part:
        """The part with only these values of a parameter."""
        lists = []
        for tied in self.lists:
            if name in tied:
                wanted = list(map(values.__contains__, tied[name]))
                tied = {key: tuple(compress(own, wanted)) for key, own in tied.items()}
            lists.append(tied)
        return Part(self.jobs, tuple(lists))

    def with_changes(self, changes: Mapping[str, Any]) -> Part:
        """This part with other values. A list replaces a list of a zip; other values leave the zip."""
        jobs = self.jobs
        lists = list(self.lists)

        for name, value in changes.items():
            if name in ("grid", "fixed", "zip", "parts"):
                raise UnmaskError(f"set a name within {name}, not {name} itself: steps=[8, 16]")

            keys = {name: value} if name in ("jobs", "rows", "seeds") else {"grid": {name: several(value)}}
            changed: _Keys = fit(keys, _Keys, "a recipe")
            jobs = changed.jobs or jobs
            for new in changed.lists():
                at = next((i for i, tied in enumerate(lists) if new.keys() & tied.keys()), len(lists))
                tied = dict(lists[at]) if at < len(lists) else {}
                if len(tied) > 1 and (name == "seeds" or not isinstance(value, list | tuple)):  # it leaves the zip
                    lists[at : at + 1] = [without(tied, new), new]
                else:
                    lists[at : at + 1] = [{**tied, **new}]
        return Part(jobs, tuple(lists))


@dataclass(frozen=True)
class Recipe:
    """A name, also of the store, and parts."""

    name: str
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not set(self.name) <= NAME:
            raise UnmaskError(f"name is {shown(self.name)}; expected letters, digits, '-', '_' and '.'")

    def with_changes(self, changes: Mapping[str, Any]) -> Recipe:
        """The recipe with other values, in the parts that set a name, or in all parts if none does."""
        own = without(changes, {"name"})
        partial = set[str]().union(*column(self.parts, "names")) - {"jobs", "rows", "seeds"}
        parts = [part.with_changes(without(own, partial - part.names)) for part in self.parts]
        return Recipe(changes.get("name", self.name), tuple(parts))

    def only(self, name: str, values: Sequence[Plain]) -> Recipe:
        """The cells with these values of a parameter; parts that do not set it stay unchanged."""
        known = {value for part in self.parts for tied in part.lists for value in tied.get(name, ())}
        for other in without(dict.fromkeys(values), known):
            raise unknown(f"{name} of {self.name}", str(other), map(str, known))
        parts = [part.only(name, values) for part in self.parts]
        return Recipe(self.name, tuple(part for part in parts if any(part.points())))


def read_recipe(path: str | Path, changes: Mapping[str, Any] | Sequence[str] = ()) -> Recipe:
    """The recipe of a YAML file, or of this package by its name.

    changes: {"steps": [8, 16]}, or ["steps=[8,16]"] as in `--set`.
    """
    if not os.path.lexists(path) or os.path.isdir(path):
        path = packaged().get(str(path), path)
    content = read_yaml(path)
    try:
        recipe = from_dict(content, Path(path).stem)
        return recipe.with_changes(changes if isinstance(changes, Mapping) else settings(changes))
    except UnmaskError as error:
        raise UnmaskError(f"{path}: {error}") from error


def packaged() -> dict[str, Path]:
    """The recipes of the package, by name."""
    directory = next(filter(Path.is_dir, DIRECTORIES), DIRECTORIES[0])
    return {path.stem: path for path in sorted(directory.glob("*.yaml"))}


def settings(assignments: Sequence[str]) -> dict[str, Any]:
    """{"steps": [8, 16]} of "steps=[8,16]"."""
    values = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UnmaskError(f"cannot read the setting {shown(text)}; write name=value, or name=[value,value]")
        values[name.strip()] = from_yaml(value, Any, f"the setting {text!r}")
    return values


def from_dict(content: Any, name: str = "") -> Recipe:
    """The recipe of a mapping. name: used if it has none."""
    if not isinstance(content, Mapping):
        keys = ", ".join(column(msgspec.structs.fields(_File), "name"))
        raise UnmaskError(f"a recipe is a mapping with the keys {keys}")
    file: _File = fit(content, _File, "a recipe")
    parts = []
    for own in file.parts:  # its jobs, rows and seeds replace the common ones; other keys are joined
        replaced = given({"rows": own.rows, "seed": own.seeds}).keys()
        above = [tied for tied in file.lists() if not tied.keys() <= replaced or len(tied) > 1]
        parts.append(Part(own.jobs or file.jobs or (), (*above, *own.lists())))
    return Recipe(file.name or name, tuple(parts))
