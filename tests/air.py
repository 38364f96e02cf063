"""How dense the text of a folder is, room by room: `python -m tests.air`, or with a folder, or with `--list`.

A long function has 15 lines or more. It is solid if no line in its body is blank or a comment of its own.
Rates are per 1,000 lines of code, lines that are neither blank nor a comment nor a part of a docstring.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

LONG = 15  # lines of a function, its docstring among them
SOURCE = Path(__file__).parents[1] / "src" / "unmask"
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass
class Density:
    """Counts of a folder; they add up."""

    code: int = 0
    long: int = 0
    solid: int = 0
    comments: int = 0
    conditionals: int = 0
    comprehensions: int = 0
    nested: int = 0
    pairs: int = 0

    def __add__(self, other: Density) -> Density:
        return Density(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def row(self) -> str:
        """Solid functions in percent, then rates per 1,000 lines of code."""
        share = 100 * self.solid / max(self.long, 1)
        counted = self.conditionals, self.comprehensions, self.nested, self.pairs
        rates = "".join(f"{1000 * count / max(self.code, 1):8.1f}" for count in counted)
        return f"{self.solid:5} of {self.long:4} {share:5.0f}% {self.comments:8}{rates}"


def documentation(tree: ast.AST) -> set[int]:
    """The lines of all docstrings."""
    held: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            held |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return held


def solid(node: ast.FunctionDef, lines: list[str], held: set[int]) -> bool:
    """No thought of this function stands apart: neither a blank line nor a comment between its statements."""
    within = [lines[at - 1].strip() for at in range(node.lineno, (node.end_lineno or 0) + 1) if at not in held]
    return not any(line == "" or line.startswith("#") for line in within)


def long_functions(path: Path) -> Iterator[tuple[ast.FunctionDef, bool]]:
    """Each long function of a file, and whether it is solid."""
    lines = path.read_text().splitlines()
    tree = ast.parse("\n".join(lines))
    held = documentation(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno + 1 >= LONG:
            yield node, solid(node, lines, held)


def density(path: Path) -> Density:
    lines = path.read_text().splitlines()
    tree = ast.parse("\n".join(lines))
    held = documentation(tree)
    stripped = [line.strip() for at, line in enumerate(lines, 1) if at not in held]
    nodes = [*ast.walk(tree)]
    comprehensions = [node for node in nodes if isinstance(node, COMPREHENSIONS)]
    functions = [*long_functions(path)]

    return Density(
        code=sum(line != "" and not line.startswith("#") for line in stripped),
        long=len(functions),
        solid=sum(is_solid for _, is_solid in functions),
        comments=sum(line.startswith("#") for line in stripped),
        conditionals=sum(isinstance(node, ast.IfExp) for node in nodes),
        comprehensions=len(comprehensions),
        nested=sum(any(isinstance(part, COMPREHENSIONS) for part in ast.walk(node) if part is not node)
                   for node in comprehensions),
        pairs=sum(isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
                  and isinstance(node.targets[0], ast.Tuple) for node in nodes),
    )  # fmt: skip


def of_folder(folder: Path) -> Density:
    return sum((density(path) for path in folder.rglob("*.py")), Density())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=SOURCE)
    parser.add_argument("--list", action="store_true", help="name each solid function")
    asked = parser.parse_args()

    print(f"{'':12}  solid functions   comments   if else  compr.  nested  a, b =")
    folders = [path for path in sorted(asked.folder.iterdir()) if path.is_dir() and path.name != "__pycache__"]
    for folder in [*folders, asked.folder]:
        print(f"{folder.name:12}{of_folder(folder).row()}")
    if asked.list:
        for path in sorted(asked.folder.rglob("*.py")):
            for node, is_solid in long_functions(path):
                if is_solid:
                    print(f"{path}:{node.lineno} {node.name}")


if __name__ == "__main__":
    main()
