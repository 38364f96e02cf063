"""The program in a text: between fences where there are some, and of what stands there what belongs to it."""

from __future__ import annotations

import ast
import re

MOST = 1000  # lines of a program
FENCE = re.compile(r"```[ \t]*(?:[\w+-]+[ \t]*)?\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)


def fenced(text: str) -> str | None:
    """What stands between the first fences; one that is never closed goes on to the end."""
    found = FENCE.search(text)
    return found[1] if found else None


def parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions(code: str) -> list[str]:
    """The names of a program's functions, in their order."""
    tree = parsed(code)
    return [] if tree is None else [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def longest(code: str) -> str:
    """A program without its last lines, where these are what keeps it from being one: a text that was cut off, or goes
    on in words. All of it where nothing of it is a program; no more than its first `MOST` lines otherwise."""
    lines = code.split("\n")[:MOST]
    if parsed(code) is not None:
        return code
    for end in range(len(lines), 0, -1):
        kept = "\n".join(lines[:end])
        tree = parsed(kept)
        if tree is not None and tree.body:
            return kept
    return code
