"""The recipe: one YAML file that says what a sweep measures, and where.

    name: lengths
    metrics: [samples, ter_upper(rows=100)]     what is measured, with settings of its own
    grid: {language: [paper-2gram, interval-5]} every combination of these
    zip: {length: [128, 256], steps: [32, 64]}  lists that are walked together; or a list of such mappings
    fixed: {sampler: ancestral}                 the same everywhere
    rows: 2000                                  of each cell
    seeds: 3                                    of the luck: 0, 1, 2; or a list
    parts: [{grid: ...}, {zip: ...}]            several grids, each with these keys; what stands above is common to all

What may stand in grid, zip and fixed are the parameters of the metrics (measures/). `language_seed` is one of them:
`grid: {language_seed: [0, 1]}, seeds: 3` measures each of two languages with three lucks, and zip: {language_seed:
[0, 1, 2], seed: [0, 1, 2]} in place of seeds three languages, each with a luck of its own. Where a name has a comma
inside, as in "blocks(block_length=16, inner=ancestral)", it stands in quotes, or YAML takes it for two.

A recipe is a file, and may be anybody's: names in it that would import code, as "package.module:Name" would, are
refused unless whoever runs it allows them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import msgspec

from unmask.core.errors import UnmaskError, shown
from unmask.core.memory import counted
from unmask.core.reading import fit, from_yaml, read_yaml

Point = dict[str, Any]  # one combination: plain values by name
RESERVED = ("rows", "seed")  # which have keys of their own
MOST_CELLS = 10**6  # of a recipe: each is a row of its store, and is named in what is told of it


@dataclass(frozen=True)
class Part:
    """One grid and what is measured on it, checked as far as it can be without knowing the metrics."""

    metrics: tuple[str, ...]
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    zip: tuple[Mapping[str, tuple[Any, ...]], ...] = ()
    rows: int | None = None
    seeds: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.metrics:
            raise UnmaskError("there are no metrics; name at least one")
        if self.seeds == ():
            raise UnmaskError("there are no seeds; give how many, or a list")
        if self.rows is not None and self.rows < 1:
            raise UnmaskError(f"rows is {self.rows}, but at least 1 row is needed")
        for tied in self.zip:
            if len({len(values) for values in tied.values()}) > 1:
                sizes = ", ".join(f"{name} has {len(values)}" for name, values in tied.items())
                raise UnmaskError(f"lists in zip are walked together, and must be equally long; {sizes}")
        names = [*self.grid, *self.fixed, *(name for tied in self.zip for name in tied)]
        if twice := {name for name in names if names.count(name) > 1}:
            raise UnmaskError(f"{sorted(twice)[0]} stands more than once in grid, fixed and zip; say it once")
        if "seed" in names and self.seeds is not None:
            raise UnmaskError("seeds stand beside grid, fixed and zip, and seed in one of them; say it once")
        if "rows" in names and self.rows is not None:
            raise UnmaskError("rows stands beside grid, fixed and zip and in one of them; say it once")
        if self.size > MOST_CELLS:
            what = f"{counted(self.size)} combinations for each metric, and a sweep has at most {MOST_CELLS:,} cells"
            raise UnmaskError(f"grid, zip and seeds make {what}; shorten their lists")

    @property
    def axes(self) -> set[str]:
        """What the part says of a cell."""
        return {*self.grid, *self.fixed, *(name for tied in self.zip for name in tied)}

    @property
    def size(self) -> int:
        """How many combinations there are, which are not made for that."""
        seeds = 1 if "seed" in self.axes else len(self.seeds or (0,))
        tied = [len(next(iter(lists.values()), ())) for lists in self.zip]
        return math.prod([seeds, *map(len, self.grid.values()), *tied])

    def points(self) -> Iterator[Point]:
        """Every combination, the last key of the grid fastest but for the seeds."""
        lists: list[list[Point]] = [[{name: value} for value in values] for name, values in self.grid.items()]
        lists += [[dict(zip(tied, row, strict=True)) for row in zip(*tied.values(), strict=True)] for tied in self.zip]
        if "seed" not in self.axes:
            lists.append([{"seed": seed} for seed in self.seeds or (0,)])
        common = dict(self.fixed) | ({} if self.rows is None else {"rows": self.rows})
        for parts in product(*lists):
            point = dict(common)
            for part in parts:
                point |= part
            yield point

    def with_changes(self, changes: Mapping[str, Any]) -> Part:
        """The part with other values, checked when all are in: two lists of one zip may grow together."""
        said = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name, value in changes.items():
            _change(said, name, value)
        return Part(**said)


def _change(said: dict[str, Any], name: str, value: Any) -> None:
    """One value is fixed, a list is walked, and that of a name in zip within zip."""
    if name in ("grid", "fixed", "zip", "parts"):
        raise UnmaskError(f"set what stands in {name}, not {name} itself: steps=[8, 16]")
    if name in OWN:
        _leave_open(said, "seed" if name == "seeds" else name)
        said[name] = _own(name, value)
        return
    if name == "seed":
        said["seeds"] = None
    if not isinstance(value, list | tuple):
        _leave_open(said, name)
        said["fixed"] = {**said["fixed"], name: _plain(name, value)}
        return
    values = _values(name, value)
    if any(name in tied for tied in said["zip"]):
        said["zip"] = tuple({**tied, name: values} if name in tied else tied for tied in said["zip"])
        return
    if name not in said["grid"]:  # an axis stays where it stands
        _leave_open(said, name)
    said["grid"] = {**said["grid"], name: values}


def _leave_open(said: dict[str, Any], name: str) -> None:
    for where in ("grid", "fixed"):
        said[where] = {key: values for key, values in said[where].items() if key != name}
    rest = [{key: values for key, values in tied.items() if key != name} for tied in said["zip"]]
    said["zip"] = tuple(tied for tied in rest if tied)


@dataclass(frozen=True)
class Recipe:
    """A name, under which the sweep is kept, and the parts of what it measures."""

    name: str
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not self.name or not set(self.name) <= set(NAME):
            raise UnmaskError(f"name is {self.name!r}; expected letters, digits, '-', '_' and '.': a directory has it")
        if not self.parts:
            raise UnmaskError("there are no parts; give at least one, or metrics and a grid without them")

    def with_changes(self, changes: Mapping[str, Any]) -> Recipe:
        """The recipe with other values, in the parts that know the name, and in all where none does."""
        changes = dict(changes)
        name = _own("name", changes.pop("name")) if "name" in changes else self.name
        known = set[str]().union(OWN, *(part.axes for part in self.parts))
        parts = (
            part.with_changes(
                {key: value for key, value in changes.items() if key in {*OWN, *part.axes} or key not in known}
            )
            for part in self.parts
        )
        return Recipe(name, tuple(parts))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Plain = str | int | float | bool | None
Values = Annotated[list[Plain], msgspec.Meta(min_length=1)]
Seeds = Annotated[int, msgspec.Meta(ge=1, le=MOST_CELLS)] | Annotated[list[int], msgspec.Meta(min_length=1)] | None


class Grid(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a file may say of a part."""

    metrics: list[str] | str | None = None
    grid: dict[str, Values] = {}
    fixed: dict[str, Plain] = {}
    zip: list[dict[str, Values]] | dict[str, Values] = []
    rows: int | None = None
    seeds: Seeds = None


class Whole(Grid, kw_only=True):
    """What a file may say: of all parts, and of each."""

    name: str | None = None
    parts: Annotated[list[Grid], msgspec.Meta(min_length=1)] = msgspec.field(default_factory=lambda: [Grid()])


NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
OWN = ("metrics", "rows", "seeds")
KEYS = ("name", *(entry.name for entry in fields(Part)), "parts")


PACKAGE = Path(__file__).parents[2]
PLACES = (PACKAGE / "recipes", PACKAGE.parents[1] / "recipes")  # as it is installed, and in the repository


def read_recipe(path: str | Path, changes: Mapping[str, Any] | Sequence[str] = ()) -> Recipe:
    """The recipe of a YAML file, or of this project by its name; changes: {"steps": [8, 16]}, or ["steps=[8,16]"] as
    `--set` has them."""
    path = _found(path)
    content = read_yaml(path)
    try:
        recipe = from_dict(content, Path(path).stem)
        return recipe.with_changes(changes if isinstance(changes, Mapping) else settings(changes))
    except UnmaskError as error:
        raise UnmaskError(f"{path}: {error}") from error


def ours() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    place = next((place for place in PLACES if place.is_dir()), PLACES[0])
    return {path.stem: path for path in sorted(place.glob("*.yaml"))}


def _found(path: str | Path) -> str | Path:
    """The file of this name, or else the one of ours that has it."""
    return path if os.path.lexists(path) and not os.path.isdir(path) else ours().get(str(path), path)


def settings(assignments: Sequence[str]) -> dict[str, Any]:
    """{"steps": [8, 16]} of "steps=[8,16]"."""
    found = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UnmaskError(f"cannot read the setting {shown(text)}; write name=value, or name=[value,value]")
        found[name.strip()] = from_yaml(value, Any, f"the setting {text!r}")
    return found


def from_dict(content: Any, name: str = "") -> Recipe:
    """The recipe of its plain form; a file without a name has that of the file."""
    if not isinstance(content, Mapping):
        raise UnmaskError("a recipe is a mapping with the keys " + ", ".join(KEYS))
    whole: Whole = fit(content, Whole, "a recipe")
    return Recipe(whole.name or name, tuple(_part(whole, part) for part in whole.parts))


def _part(common: Grid, own: Grid) -> Part:
    """What stands above the parts with what stands in one: its metrics, rows and seeds win, the rest is joined."""
    for above, within in ((common.grid, own.grid), (common.fixed, own.fixed)):
        if twice := above.keys() & within.keys():
            raise UnmaskError(f"{sorted(twice)[0]} stands above the parts and in one of them; say it once")
    return Part(
        metrics=_metrics(common.metrics if own.metrics is None else own.metrics),
        grid=_lists(common.grid | own.grid),
        fixed=common.fixed | own.fixed,
        zip=tuple(
            _lists(tied) for each in (common.zip, own.zip) for tied in ([each] if isinstance(each, dict) else each)
        ),
        rows=common.rows if own.rows is None else own.rows,
        seeds=_seeds(common.seeds if own.seeds is None else own.seeds),
    )


def _own(name: str, value: Any) -> Any:
    """What a change says of metrics, rows, seeds or the name, checked as what a file says is."""
    said = getattr(fit({name: value}, Whole, "a recipe"), name)
    return _metrics(said) if name == "metrics" else _seeds(said) if name == "seeds" else said


def _metrics(said: Sequence[str] | str | None) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(dict.fromkeys(said or ()))


def _seeds(said: Sequence[int] | int | None) -> tuple[int, ...] | None:
    if isinstance(said, int):
        return tuple(range(said))
    return None if said is None else tuple(dict.fromkeys(said))


def _lists(said: Mapping[str, Sequence[Plain]]) -> dict[str, tuple[Plain, ...]]:
    return {name: tuple(values) for name, values in said.items()}


def _values(name: str, value: Any) -> tuple[Plain, ...]:
    return _lists(fit({"grid": {name: value}}, Whole, "a recipe").grid)[name]


def _plain(name: str, value: Any) -> Plain:
    said: Plain = fit({"fixed": {name: value}}, Whole, "a recipe").fixed[name]
    return said
