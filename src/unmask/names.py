"""Things called by name, with options: "strided", "polynomial(power=2)"; one spelling for code and commands."""

from __future__ import annotations

import ast
import inspect
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
        known = list(inspect.signature(self.makers[name]).parameters)[len(arguments) :]
        for option in options:
            if option not in known:
                if not known:
                    raise UnmaskError(f"{self.noun} {name!r} has no options, but {option!r} was given")
                raise unknown(f"option of {self.noun} {name!r}:", option, known)
        return self.makers[name](*arguments, **options)

    def about(self) -> dict[str, str]:
        """Each name with the first line of its documentation."""
        return {name: (inspect.getdoc(maker) or "").partition("\n")[0] for name, maker in self.makers.items()}


def parse(noun: str, specification: str) -> tuple[str, dict[str, Any]]:
    """("name", {option: value}); values are Python literals or bare words."""
    name, bracket, rest = specification.strip().partition("(")
    if not bracket:
        return name, {}
    try:
        call = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise SyntaxError
        options = {str(keyword.arg): _literal(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise UnmaskError(f"cannot read {noun} {specification!r}; write name or name(option=value, ...)") from error
    return name.strip(), options


def _literal(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)
