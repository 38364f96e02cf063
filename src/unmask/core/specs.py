"""Specifications: names with options as text, such as "polynomial(power=2)"; one notation for code and commands."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from unmask.core.errors import UnmaskError, shown

LONGEST, DEEPEST = 2**14, 8  # of a specification: characters, and levels of nested names


def parse(noun: str, specification: str) -> tuple[str, dict[str, Any]]:
    """("name", {option: value}); values are Python literals, bare words, or names with options of their own."""
    if not isinstance(specification, str):
        raise UnmaskError(f"{noun} is {shown(specification)}; expected its name, with options in brackets")
    name, bracket, rest = specification.strip().partition("(")
    if not bracket:
        return name, {}

    if len(specification) > LONGEST or _depth(rest) > DEEPEST:
        raise UnmaskError(
            f"{noun} {shown(specification)} is too long or too deep",
            f"expected at most {LONGEST} characters and {DEEPEST} levels of nested names",
        )
    try:
        call = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise SyntaxError
        options = {keyword.arg: _literal(keyword.value) for keyword in call.keywords if keyword.arg}
        if len(options) < len(call.keywords):  # a repeated option, or **options
            raise SyntaxError
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise UnmaskError(
            f"cannot read {noun} {shown(specification)}", "write name or name(option=value, ...)"
        ) from error
    return name.strip(), options


def written(name: str, options: Mapping[str, Any]) -> str:
    """The specification that `parse` reads: "name(option=value, ...)", or the name alone."""
    return called(name, [f"{option}={value!r}" for option, value in options.items()])


def called(name: str, options: Sequence[str]) -> str:
    """A name with options as they are written."""
    return f"{name}({', '.join(options)})" if options else name


def _depth(text: str) -> int:
    """The largest number of open brackets."""
    depth = deepest = 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        deepest = max(deepest, depth)
    return deepest


def unlike(value: Any, default: Any) -> str:
    """The expected kind of value if it does not match the type of the default, else an empty string."""
    if type(default) is float:
        return "" if type(value) in (int, float) and abs(value) <= sys.float_info.max else "a finite number"
    if type(value) is type(default) or default is None or default is inspect.Parameter.empty:
        return ""
    return {int: "a whole number", str: "a word", bool: "True or False"}.get(type(default), repr(default))


def _literal(node: ast.expr) -> Any:
    """A Python literal, or the text of a word ("low-confidence" parses as a difference) or of "word(option=value)"."""
    match node:
        case ast.Name(id=word):
            return word
        case ast.BinOp(left=ast.Name() | ast.BinOp() as left, op=ast.Sub(), right=ast.Name() | ast.Call() as right):
            return f"{_literal(left)}-{_literal(right)}"
        case ast.Call(func=ast.Name(id=word), args=[], keywords=options) if all(option.arg for option in options):
            given = ", ".join(f"{option.arg}={_literal(option.value)!r}" for option in options)
            return f"{word}({given})"
    return ast.literal_eval(node)
