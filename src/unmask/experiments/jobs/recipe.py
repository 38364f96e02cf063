"""A recipe: one YAML file that says which cells a sweep measures.

    name: lengths
    metrics: [samples, ter_upper(rows=100)]     what is measured, with settings of its own
    grid: {language: [paper-2gram, interval-5]} every combination of these
    zip: {length: [128, 256], steps: [32, 64]}  lists that are walked together; or a list of such mappings
    fixed: {sampler: ancestral}                 the same in every cell
    rows: 2000                                  rows of each cell
    seeds: 3                                    sampling seeds 0, 1, 2; or a list
    parts: [{grid: ...}, {zip: ...}]            several grids, each with these keys; the keys above are common to all

grid, zip and fixed take the parameters of the metrics (measures/). `language_seed` is one of them:
`grid: {language_seed: [0, 1]}, seeds: 3` samples each of two languages with three seeds, and zip: {language_seed:
[0, 1, 2], seed: [0, 1, 2]} in place of seeds samples three languages, each with its own seed. Quote a name with a comma
inside, as in "blocks(block_length=16, inner=ancestral)"; otherwise YAML reads two names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import msgspec

from unmask.core.errors import UnmaskError, shown
from unmask.core.memory import counted
from unmask.core.reading import fit, from_yaml, read_yaml

MOST_CELLS = 10**6  # cells of a recipe: each is a row of the store
NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
PACKAGE = Path(__file__).parents[2]
PLACES = (PACKAGE / "recipes", PACKAGE.parents[1] / "recipes")  # in an installed package, and in the repository

Plain = str | int | float | bool | None
Values = Annotated[tuple[Plain, ...], msgspec.Meta(min_length=1)]
Seeds = (
    Annotated[int, msgspec.Meta(ge=1, le=MOST_CELLS)] | Annotated[tuple[int, ...], msgspec.Meta(min_length=1)] | None
)


class Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One grid and its metrics."""

    metrics: tuple[str, ...] | str = ()
    grid: dict[str, Values] = {}
    fixed: dict[str, Plain] = {}
    zip: tuple[dict[str, Values], ...] | dict[str, Values] = ()
    rows: int | None = None
    seeds: Seeds = None

    def __post_init__(self) -> None:
        """Replace the short forms: one metric, one zip, a number of seeds."""
        self.metrics = (self.metrics,) if isinstance(self.metrics, str) else tuple(dict.fromkeys(self.metrics))
        self.zip = (self.zip,) if isinstance(self.zip, dict) else self.zip
        if self.seeds is not None:
            self.seeds = tuple(range(self.seeds) if isinstance(self.seeds, int) else dict.fromkeys(self.seeds))

    @property
    def lists(self) -> list[Mapping[str, Sequence[Plain]]]:
        """Lists that are walked, together where they stand in one mapping; seeds are the last."""
        seeds = [] if "seed" in self.axes else [{"seed": self.seeds or (0,)}]  # type: ignore[dict-item]
        return [*({name: values} for name, values in self.grid.items()), *self.zip, *seeds]  # type: ignore[list-item]

    @property
    def axes(self) -> set[str]:
        """The names in grid, fixed and zip."""
        return {*self.grid, *self.fixed, *(name for tied in self.zip for name in tied)}

    def check(self) -> Part:
        """This part, or an error where its keys contradict each other."""
        if not self.metrics:
            raise UnmaskError("there are no metrics; name at least one")
        if self.rows is not None and self.rows < 1:
            raise UnmaskError(f"rows is {self.rows}, but at least 1 row is needed")
        for tied in self.lists:
            if len({len(values) for values in tied.values()}) > 1:
                sizes = ", ".join(f"{name} has {len(values)}" for name, values in tied.items())
                raise UnmaskError(f"lists in zip are walked together, and must be equally long; {sizes}")
        names = [*self.grid, *self.fixed, *(name for tied in self.zip for name in tied)]
        names += [] if self.seeds is None else ["seed"]
        names += [] if self.rows is None else ["rows"]
        if twice := sorted(name for name in set(names) if names.count(name) > 1):
            raise UnmaskError(f"{twice[0]} is set more than once in grid, fixed, zip, rows and seeds; set it once")
        size = math.prod(len(next(iter(tied.values()), ())) for tied in self.lists)
        if size > MOST_CELLS:
            what = f"{counted(size)} combinations for each metric, and a sweep has at most {MOST_CELLS:,} cells"
            raise UnmaskError(f"grid, zip and seeds make {what}; shorten their lists")
        return self

    def points(self) -> Iterator[dict[str, Any]]:
        """Every combination, the last list fastest."""
        common = self.fixed | ({} if self.rows is None else {"rows": self.rows})
        walked = [[dict(zip(tied, row, strict=True)) for row in zip(*tied.values(), strict=True)] for tied in self.lists]
        for chosen in product(*walked):
            point = dict(common)
            for values in chosen:
                point |= values
            yield point

    def with_changes(self, changes: Mapping[str, Any]) -> Part:
        """This part with different values, checked after all changes: two lists of one zip may grow together."""
        content = msgspec.structs.asdict(self)
        for name, value in changes.items():
            _change(content, name, value)
        return fit(content, Part, "a recipe").check()  # type: ignore[no-any-return]


class Recipe(Part, kw_only=True):
    """A name, after which the store is called, and parts; a file's own keys are common to all parts."""

    name: str = ""
    parts: Annotated[tuple[Part, ...], msgspec.Meta(min_length=1)] = msgspec.field(default_factory=lambda: (Part(),))

    def with_changes(self, changes: Mapping[str, Any]) -> Recipe:
        """The recipe with different values, in the parts that know a name, or in all parts where none knows it."""
        known = {"metrics", "rows", "seeds"}.union(*(part.axes for part in self.parts))
        parts = [
            part.with_changes(
                {
                    name: value
                    for name, value in changes.items()
                    if name != "name" and (name in part.axes | {"metrics", "rows", "seeds"} or name not in known)
                }
            )
            for part in self.parts
        ]
        return _named(changes.get("name", self.name), parts)

    def to_dict(self) -> dict[str, Any]:
        """The name and the parts as JSON has them."""
        return {"name": self.name, "parts": [msgspec.to_builtins(part) for part in self.parts]}


def read_recipe(path: str | Path, changes: Mapping[str, Any] | Sequence[str] = ()) -> Recipe:
    """The recipe of a YAML file, or one of this package by its name; changes: {"steps": [8, 16]}, or ["steps=[8,16]"]
    as in `--set`."""
    if not os.path.lexists(path) or os.path.isdir(path):
        path = ours().get(str(path), path)
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
    """The recipe of a mapping; one without a name takes the given one."""
    if not isinstance(content, Mapping):
        keys = ", ".join(field.name for field in msgspec.structs.fields(Recipe))
        raise UnmaskError(f"a recipe is a mapping with the keys {keys}")
    whole: Recipe = fit(content, Recipe, "a recipe")
    return _named(whole.name or name, [_joined(whole, part).check() for part in whole.parts])


def _joined(common: Part, own: Part) -> Part:
    """A part with the common keys: its own metrics, rows and seeds replace those, the rest is joined."""
    for above, within in ((common.grid, own.grid), (common.fixed, own.fixed)):
        if twice := above.keys() & within.keys():
            raise UnmaskError(f"{sorted(twice)[0]} is set above the parts and in one of them; set it once")
    return Part(
        metrics=own.metrics or common.metrics,
        grid=common.grid | own.grid,
        fixed=common.fixed | own.fixed,
        zip=(*common.zip, *own.zip),  # type: ignore[arg-type]
        rows=common.rows if own.rows is None else own.rows,
        seeds=common.seeds if own.seeds is None else own.seeds,
    )


def _named(name: Any, parts: Sequence[Part]) -> Recipe:
    if not isinstance(name, str) or not name or not set(name) <= NAME:
        raise UnmaskError(f"name is {shown(name)}; expected letters, digits, '-', '_' and '.', as a directory's name")
    return Recipe(name=name, parts=tuple(parts))


def _change(content: dict[str, Any], name: str, value: Any) -> None:
    """Set one value: a single value is fixed, a list is walked, in zip where the name is in zip."""
    if name in ("grid", "fixed", "zip", "parts"):
        raise UnmaskError(f"set a name within {name}, not {name} itself: steps=[8, 16]")
    if name in ("metrics", "rows", "seeds"):
        _remove(content, "seed" if name == "seeds" else name)
        content[name] = value
        return
    if name == "seed":
        content["seeds"] = None
    if not isinstance(value, list | tuple):
        _remove(content, name)
        content["fixed"] = {**content["fixed"], name: value}
    elif any(name in tied for tied in content["zip"]):
        content["zip"] = tuple({**tied, name: value} if name in tied else tied for tied in content["zip"])
    else:
        if name not in content["grid"]:  # else the axis keeps its position
            _remove(content, name)
        content["grid"] = {**content["grid"], name: value}


def _remove(content: dict[str, Any], name: str) -> None:
    for where in ("grid", "fixed"):
        content[where] = {key: values for key, values in content[where].items() if key != name}
    rest = [{key: values for key, values in tied.items() if key != name} for tied in content["zip"]]
    content["zip"] = tuple(tied for tied in rest if tied)
