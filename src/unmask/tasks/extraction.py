"""Extract numbers and programs from the text of an answer."""

from __future__ import annotations

import ast
import re
from fractions import Fraction

NUMBER = re.compile(r"-?\$?(?:\d(?:[\d,]*\d)?(?:\.\d+)?|\.\d+)")  # "- 5": the dash is not a sign
MOST = 1000  # lines of a program
FENCE = re.compile(r"```[ \t]*(?:[\w+-]+[ \t]*)?\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)


def number(text: str) -> Fraction | None:
    """The value of a text that is only a number, such as $1,234.50; otherwise None."""
    plain = text.strip().rstrip(".").replace("$", "").replace(",", "").replace(" ", "")
    return Fraction(plain) if re.fullmatch(r"-?(\d+(\.\d*)?|\.\d+)", plain) and len(plain) < 100 else None


def last_number(text: str) -> str | None:
    """The last number of a text, in its original spelling."""
    matches = NUMBER.findall(text)
    return matches[-1] if matches else None


def fenced(text: str) -> str | None:
    """The text between the first pair of fences; an unclosed fence extends to the end."""
    block = FENCE.search(text)
    return block[1] if block else None


def parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions(code: str) -> list[str]:
    """The names of a program's functions, in order."""
    tree = parsed(code)
    return [] if tree is None else [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def longest(code: str) -> str:
    """The longest beginning of a text, in whole lines, that is a program: it drops a cut last line or trailing prose.

    Only the first `MOST` lines are tried. Without any such beginning the whole text is returned.
    """
    if parsed(code) is not None:
        return code
    lines = code.split("\n")[:MOST]
    for end in range(len(lines), 0, -1):
        beginning = "\n".join(lines[:end])
        tree = parsed(beginning)
        if tree is not None and tree.body:
            return beginning
    return code
