"""Every test checks the shapes that signatures promise: `Int[Tensor, "B L"]` is a matrix of whole numbers.

Letters of one call mean one size each: B rows, L positions, K entries, V symbols, C contexts, N steps. jaxtyping reads
the annotations, which only checkers evaluate, so that a user needs no package for them. Kernels are left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cached_property, wraps
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import jaxtyping
from torch import Tensor

MODULES = (
    "unmask.denoisers.contracts",
    "unmask.denoisers.marginals",
    "unmask.denoisers.denoiser",
    "unmask.denoisers.reshaped",
    "unmask.denoisers.ideal",
    "unmask.denoisers.canvas",
    "unmask.samplers.contract",
    "unmask.samplers.view",
    "unmask.samplers.session",
)
REFUSING = ("Session.write", "Session.hide")  # a sampler calls them: they refuse other shapes with errors of their own
KINDS = {name: getattr(jaxtyping, name) for name in ("Bool", "Float", "Float64", "Int", "Shaped")}


def promised(annotations: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    """The annotations with a shape, evaluated."""
    texts = {name: text for name, text in annotations.items() if isinstance(text, str) and "[Tensor," in text}
    return {name: eval(text, names | KINDS | {"Tensor": Tensor}) for name, text in texts.items()}


def fits(value: Any, wanted: Any) -> bool:
    if getattr(wanted, "__origin__", None) is tuple:
        return len(value) == len(wanted.__args__) and all(map(fits, value, wanted.__args__))
    return isinstance(value, wanted)


def held(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which raises a TypeError where an argument or the result has another shape."""
    if hasattr(function, "__wrapped__"):  # a run of pytest within a test holds them a second time
        return function
    wanted = promised(function.__annotations__, function.__globals__)
    if not wanted:
        return function
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        # in a context of its own, a letter keeps the size that it met first
        with jaxtyping.jaxtyped("context"):
            for name, value in signature.bind(*arguments, **named).arguments.items():
                if name in wanted and value is not None and not fits(value, wanted[name]):
                    if function.__qualname__ in REFUSING:
                        function(*arguments, **named)
                    raise TypeError(wrong(function, name, value))
            answer = function(*arguments, **named)
            if "return" in wanted and answer is not None and not fits(answer, wanted["return"]):
                raise TypeError(wrong(function, "return", answer))
            return answer

    return checked


def wrong(function: Callable[..., Any], name: str, value: Any) -> str:
    kind = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
    return f"{name} of {function.__qualname__} is {kind}; expected {function.__annotations__[name]}"


def functions(module: ModuleType) -> Iterator[tuple[Any, str, Any]]:
    """(owner, name, member) of each function of a module, and of each member of its classes."""
    for name, member in list(vars(module).items()):
        if getattr(member, "__module__", None) != module.__name__:
            continue
        if isinstance(member, FunctionType):
            yield module, name, member
        if isinstance(member, type):
            for inner, value in list(vars(member).items()):
                yield member, inner, value


def hold() -> None:
    """Check the shapes of these modules from now on, in their own calls and in those of others through a class."""
    for path in MODULES:
        for owner, name, member in functions(import_module(path)):
            if isinstance(member, FunctionType):
                setattr(owner, name, held(member))
            elif isinstance(member, property) and member.fget is not None:
                setattr(owner, name, property(held(member.fget), member.fset))
            elif isinstance(member, cached_property):
                checked: cached_property[Any] = cached_property(held(member.func))
                checked.__set_name__(owner, name)
                setattr(owner, name, checked)
