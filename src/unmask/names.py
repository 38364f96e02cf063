"""Things called by name, with options: "strided", "polynomial(power=2)"; one spelling for code and commands."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from unmask.errors import UnmaskError, unknown

Made = TypeVar("Made")


class Registry(Generic[Made]):
    """Names to makers; a maker's keyword parameters are its options."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self.makers: dict[str, Callable[..., Made]] = {}

    def register(self, name: str) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
        def add(maker: Callable[..., Made]) -> Callable[..., Made]:
            self.makers[name] = maker
            return maker

        return add

    def make(self, specification: str, *arguments: Any) -> Made:
        """What "name" or "name(option=value, ...)" stands for, given the positional arguments of its maker."""
        name, options = parse(self.noun, specification)
        if name not in self.makers:
            raise unknown(self.noun, name, self.makers)
        known = dict(list(inspect.signature(self.makers[name]).parameters.items())[len(arguments) :])
        for option, value in options.items():
            if option not in known:
                if not known:
                    raise UnmaskError(f"{self.noun} {name!r} has no options, but {option!r} was given")
                raise unknown(f"option of {self.noun} {name!r}:", option, known)
            if wanted := _unlike(value, known[option].default):
                raise UnmaskError(f"{option} of {self.noun} {name!r} is {value!r}; expected {wanted}")
        return self.makers[name](*arguments, **options)

    def about(self) -> dict[str, str]:
        """Each name with the first line of its documentation."""
        return {name: (inspect.getdoc(maker) or "").partition("\n")[0] for name, maker in self.makers.items()}


def parse(noun: str, specification: str) -> tuple[str, dict[str, Any]]:
    """("name", {option: value}); values are Python literals, bare words, or names with options of their own."""
    name, bracket, rest = specification.strip().partition("(")
    if not bracket:
        return name, {}
    try:
        call = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise SyntaxError
        options = {keyword.arg: _literal(keyword.value) for keyword in call.keywords if keyword.arg}
        if len(options) < len(call.keywords):  # an option twice, or **options
            raise SyntaxError
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise UnmaskError(f"cannot read {noun} {specification!r}; write name or name(option=value, ...)") from error
    return name.strip(), options


def _unlike(value: Any, default: Any) -> str:
    """What should stand where a default of this type does, or nothing where the value will do."""
    if type(default) is float:
        return "" if type(value) in (int, float) and abs(value) <= sys.float_info.max else "a number"
    if type(value) is type(default) or default is None or default is inspect.Parameter.empty:
        return ""
    return {int: "a whole number", str: "a word", bool: "True or False"}.get(type(default), repr(default))


def _literal(node: ast.expr) -> Any:
    """A Python literal; or the text of a word ("low-confidence" parses as a difference), or of "word(option=value)"."""
    match node:
        case ast.Name(id=word):
            return word
        case ast.BinOp(left=ast.Name() | ast.BinOp() as left, op=ast.Sub(), right=ast.Name() | ast.Call() as right):
            return f"{_literal(left)}-{_literal(right)}"
        case ast.Call(func=ast.Name(id=word), args=[], keywords=options) if all(option.arg for option in options):
            given = ", ".join(f"{option.arg}={_literal(option.value)!r}" for option in options)
            return f"{word}({given})"
    return ast.literal_eval(node)
