"""A sweep in parts with separate stores: on a cluster without Ray, for example as an array of jobs in Slurm.

    unmask sweep run RECIPE --part 3/40      its default store is sweeps/NAME-3-of-40
    unmask sweep merge sweeps/NAME sweeps/NAME-*-of-40

Each store has one writer, as ever: 40 writers of one file on a network file system would need locks that such systems
do not all have.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, shown
from unmask.core.files import make_directory
from unmask.experiments.cell import Cell
from unmask.experiments.store import Block, Done, Failed, Store, Writer, directory_of, writing

MOST = 10**5  # parts


class Part(NamedTuple):
    """Part `number` of `parts`, from 1."""

    number: int
    parts: int

    @classmethod
    def of(cls, text: str) -> Part:
        number, _, parts = text.partition("/")
        if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts) <= MOST):
            raise UnmaskError(f"part is {shown(text)}; expected K/N with K from 1 to N. Write 3/40 for part 3 of 40")
        return cls(int(number), int(parts))

    def cells(self, cells: Sequence[Cell]) -> list[Cell]:
        """Every N-th group of cells; cells stay together if one needs the other, or if they share blocks."""
        if self.parts == 1:
            return [*cells]
        groups = _groups(cells)
        own = set(list(dict.fromkeys(groups))[self.number - 1 :: self.parts])
        return [cell for cell, group in zip(cells, groups, strict=True) if group in own]

    def beside(self, store: Path) -> Path:
        """The usual store of the part of a sweep whose own store this is."""
        return store if self.parts == 1 else store.with_name(f"{store.name}-{self.number}-of-{self.parts}")


def _groups(cells: Sequence[Cell]) -> list[str]:
    """The group of each cell."""
    parents = dict[str, str]()

    def top(name: str) -> str:
        while parents.setdefault(name, name) != name:
            name = parents[name]
        return name

    for cell in cells:
        for other in entries.column([cell, *cell.needs], "stem"):
            parents[top(cell.stem)] = top(other)
    return list(map(top, entries.column(cells, "stem")))


def merge(directory: str | Path, parts: Sequence[str | Path]) -> Store:
    """Add the cells of other stores to one, which need not exist; its own finished cells stay."""
    into = arguments.path("store", directory)
    others = [Store.open(arguments.path("part", part)) for part in parts]
    with writing(into) as store:
        for other in others:
            if os.path.samefile(other.directory, into):
                raise UnmaskError(f"{into} is also a part. Expected other stores. Leave it out of the parts")
            _add(store, other)
        return store


def _add(store: Writer, other: Store) -> None:
    """The lines of another store, and the files of its finished cells."""
    new = [key for key in other.cells if key not in store.cells or (key in other.done and key not in store.done)]
    for stem in {other.cells[key].stem for key in new if key in other.done}:
        _copy(directory_of(other.files, stem), directory_of(store.files, stem))

    runs = other.runs[-1:] if new else []
    planned = entries.without(entries.picked(other.cells, new), store.cells).values()
    blocks: list[Block] = []
    for stem, own in other.blocks.items():
        blocks += entries.without(own, store.blocks.get(stem, {})).values()
    known: dict[str, Failed | Done] = other.failed | other.done
    store.append(*runs, *planned, *blocks, *entries.picked(known, new).values())


def _copy(source: Path, target: Path) -> None:
    """Copy the files of a cell; the directory has its name when all are there."""
    if not source.is_dir() or target.exists():
        return
    partial = target.with_suffix(".part")
    shutil.rmtree(partial, ignore_errors=True)
    make_directory(target.parent)
    shutil.copytree(source, partial, symlinks=True)
    os.replace(partial, target)
