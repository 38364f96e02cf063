"""Shortest paths in graphs that are given as lists of edges."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import ClassVar, NamedTuple

from unmask.core import arguments
from unmask.tasks.contract import TASKS, Item, Line, first_line

NAMES = range(10, 100)  # of nodes: two digits


class Row(NamedTuple):
    edges: tuple[tuple[int, int], ...]
    start: int
    goal: int


@TASKS.register("paths")
@dataclass(frozen=True)
class Paths(Line):
    """Shortest paths of at least two edges in random connected graphs.

    Any path whose edges exist and that is as short is right. `valid` is 1 for a path from start to goal, shortest or
    not; `first_edge` is 1 if its first edge is on a shortest path. Where several paths are shortest, their nodes
    depend on each other: with one token per character, the exact denoiser is right in 83% of items in one step.
    """

    nodes: int = 8
    edges: int = 11

    length: ClassVar[int] = 32
    wordings = (
        "Edges: {edges}\nShortest path from {start} to {goal}:",
        "A graph has the edges {edges}. Walk from {start} to {goal} over as few edges as possible.\nPath:",
        "Each pair is a road in both directions: {edges}\nWhich nodes lead from {start} to {goal} fastest?\nNodes:",
        "Graph: {edges}\nStart: {start}\nGoal: {goal}\nName all nodes of a shortest path, in order.\nPath:",
        "Find a shortest route from {start} to {goal}. The undirected edges are {edges}.\nRoute:",
    )

    def __post_init__(self) -> None:
        arguments.whole("nodes", self.nodes, 3, 40)
        most = self.nodes * (self.nodes - 1) // 2 - 1  # one pair of nodes is not joined
        arguments.whole("edges", self.edges, self.nodes - 1, most, f" for {self.nodes} nodes")
        self._check()

    def make(self, rng: random.Random) -> Row:
        """A random tree with more edges, and two nodes that are not neighbors."""
        nodes = rng.sample(NAMES, self.nodes)
        tree = {_sorted(node, rng.choice(nodes[:at])) for at, node in enumerate(nodes) if at}
        others = [edge for edge in combinations(sorted(nodes), 2) if edge not in tree]
        rng.shuffle(others)
        more = self.edges - len(tree)
        return Row(scrambled([*sorted(tree), *others[:more]], rng), *rng.sample(others[more], 2))

    def question(self, row: Row) -> str:
        edges = ", ".join(f"{a}-{b}" for a, b in row.edges)
        return self.wording.format(edges=edges, start=row.start, goal=row.goal)

    def solution(self, row: Row) -> str:
        return _text(shortest(row)[0])

    def solutions(self, item: Item) -> Sequence[str]:
        return [_text(path) for path in shortest(item.row)]

    def answer(self, item: Item, text: str) -> str | None:
        """The numbers of the first line that has any, joined by hyphens."""
        return "-".join(re.findall(r"\d+", first_line(text, r"\d"))) or None

    def right(self, item: Item, answer: str) -> bool:
        return walks(item.row, answer.split("-")) and answer.count("-") == len(shortest(item.row)[0]) - 1

    def values(self, item: Item, answer: str | None, text: str) -> Mapping[str, float]:
        path = [] if answer is None else answer.split("-")
        begins = any(path[:2] == [str(node) for node in best[:2]] for best in shortest(item.row))
        measured = {"valid": float(walks(item.row, path)), "first_edge": float(begins)}
        return {**super().values(item, answer, text), **measured}


def shortest(row: Row) -> list[list[int]]:
    """All shortest paths from start to goal, level by level."""
    near: dict[int, list[int]] = {}
    for a, b in row.edges:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    paths, seen = [[row.start]], {row.start}
    while not any(path[-1] == row.goal for path in paths):
        paths = [[*path, node] for path in paths for node in near[path[-1]] if node not in seen]
        seen |= {path[-1] for path in paths}
    return sorted(path for path in paths if path[-1] == row.goal)


def walks(row: Row, path: Sequence[str]) -> bool:
    """Whether the nodes are joined one after another, from start to goal."""
    edges = {(str(a), str(b)) for edge in row.edges for a, b in (edge, edge[::-1])}
    ends = bool(path) and (path[0], path[-1]) == (str(row.start), str(row.goal))
    return ends and all(edge in edges for edge in pairwise(path))


def scrambled(edges: Sequence[tuple[int, int]], rng: random.Random) -> tuple[tuple[int, int], ...]:
    """The edges in random order, each in a random direction."""
    return tuple((a, b) if rng.random() < 0.5 else (b, a) for a, b in rng.sample(edges, len(edges)))


def _sorted(a: int, b: int) -> tuple[int, int]:
    return (min(a, b), max(a, b))


def _text(path: Sequence[int]) -> str:
    return "-".join(map(str, path))
