"""Things called by name, with options: "strided", "polynomial(power=2)"; one spelling for code and commands."""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from unmask.core.errors import UnmaskError, cut, shown, unknown
from unmask.core.lazy import ADDING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

Made = TypeVar("Made")
LONGEST, DEEPEST = 2**14, 8  # a specification: in characters, and in names that stand within names
Allowed = bool | Sequence[str]  # whether names may import: any module, none, or these
IN_FILE = "stands in a file, which may be anybody's; where you trust it, say"
_imports: ContextVar[tuple[Allowed, str]] = ContextVar("imports", default=(True, IN_FILE))


@contextmanager
def imports(allowed: Allowed, why: str = IN_FILE) -> Iterator[None]:
    """Whether "package.module:Name" may be imported meanwhile, or of which modules: of none where names come from a
    file, unless its reader names them. Names of installed packages are no matter of this: somebody has installed them.

    why: a name is refused, up to the option that would allow it.
    """
    before = _imports.set((allowed, why))
    try:
        yield
    finally:
        _imports.reset(before)


def imports_allowed() -> Allowed:
    return _imports.get()[0]


@dataclass(frozen=True)
class Entry:
    """What a registry says of a name."""

    name: str
    about: str  # the first line of its documentation, or what is wrong with it
    options: dict[str, Any]  # names to defaults; inspect.Parameter.empty where one must be given
    documentation: str
    origin: str  # module:name of its maker
    maker: Callable[..., Any] | None = None  # None where it cannot be had

    @property
    def specification(self) -> str:
        """As it is written with all of its options: "blocks(block_length=32, inner='fixed-size')"."""
        empty = inspect.Parameter.empty
        shown = [name if default is empty else f"{name}={default!r}" for name, default in self.options.items()]
        return f"{self.name}({', '.join(shown)})" if shown else self.name


class Registry(Generic[Made]):
    """Names to makers; a maker's keyword parameters are its options.

    Where there is a group, the door is open to others: "package.module:Name" is imported, and installed packages offer
    names as entry points of that group. Their code runs when it is named, or when all is listed, and not before;
    and a name is called only where it is known to be one of these: `check` raises unless a class is what is asked for,
    and a function must be declared to return one of `returns`. Names of ours come first: those of the registry's own
    room, and those that the rooms above add to it (core/lazy.py).
    """

    def __init__(
        self,
        noun: str,
        group: str | None = None,
        check: Callable[[type, str], None] | None = None,
        returns: tuple[type, ...] = (),
        given: tuple[str, ...] = (),
        package: str | None = None,
    ) -> None:
        self.noun = noun
        self.package = package  # whose modules register names when they are imported
        self.group = group
        self.check = check or (lambda kind, label: None)
        self.returns = returns
        self.given = given  # parameters of makers that are no options: whoever makes one gives them
        self._makers: dict[str, Callable[..., Made]] = {}
        self._complete = False

    def __repr__(self) -> str:
        return f"<Registry of {len(self.makers)} {self.noun}s: {', '.join(sorted(self.makers))}>"

    def register(self, name: str) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
        def add(maker: Callable[..., Made]) -> Callable[..., Made]:
            self._makers[name] = maker
            return maker

        return add

    def make(self, specification: str, *arguments: Any) -> Made:
        """What "name" or "name(option=value, ...)" stands for, given the positional arguments of its maker."""
        maker, options = self.bind(specification, len(arguments))
        name, _ = parse(self.noun, specification)
        try:
            made = maker(*arguments, **options)
        except (UnmaskError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            if name in self._makers:
                raise
            what = f"{type(error).__name__}: {cut(str(error))}"  # a mistake of somebody else's code, and none of ours
            raise UnmaskError(f"{self.noun} {name!r} cannot be made: {what}") from error
        self.check(type(made), f"{self.noun} {name!r}")
        return made

    def bind(self, specification: str, positional: int) -> tuple[Callable[..., Made], dict[str, Any]]:
        """(maker, options), checked, of a specification whose maker takes so many positional arguments besides."""
        name, options = parse(self.noun, specification)
        maker = self.find(name)
        known = dict(list(inspect.signature(maker).parameters.items())[positional:])
        for option, value in options.items():
            if option not in known:
                if not known:
                    raise UnmaskError(f"{self.noun} {name!r} has no options, but {option!r} was given")
                raise unknown(f"option of {self.noun} {name!r}:", option, known)
            if wanted := _unlike(value, known[option].default):
                raise UnmaskError(f"{option} of {self.noun} {name!r} is {shown(value)}; expected {wanted}")
        for option, parameter in known.items():
            if option not in options and parameter.default is parameter.empty and parameter.kind in NEEDED:
                raise UnmaskError(f"{self.noun} {name!r} needs its option {option}; write {name}({option}=...)")
        return maker, options

    @property
    def makers(self) -> dict[str, Callable[..., Made]]:
        """Every name with its maker, except those of installed packages; all modules that register one are imported."""
        if not self._complete:
            self._complete = True
            for module in (*_modules(self.package), *ADDING.get(self.noun, ())):
                import_module(module)
            self._makers = dict(sorted(self._makers.items())) if self.package else self._makers
        return self._makers

    def name_of(self, maker: Callable[..., Made]) -> str | None:
        """The name that a maker is registered by."""
        return next((name for name, known in self._makers.items() if known is maker), None)

    def _import_module_of(self, name: str) -> None:
        """Most names are registered by the module of that name: "low-confidence" by low_confidence.py."""
        module = f"{self.package}.{name.replace('-', '_')}"
        if self.package and re.fullmatch("[a-z0-9-]+", name) and find_spec(module) is not None:
            import_module(module)

    def find(self, name: str) -> Callable[..., Made]:
        """The maker of a name: one of ours, of an importable module, or of an installed package."""
        if self.group is not None and ":" in name:
            self.check_import(name)
            return self._open(name, name)
        if name not in self._makers:
            self._import_module_of(name)
        if name in self._makers or name in self.makers:
            return self._makers[name]
        offers = self._offers()
        if name not in offers:
            raise unknown(self.noun, name, self.makers.keys() | offers.keys())
        if len(offers[name]) > 1:
            which = " or ".join(sorted(offer.value for offer in offers[name]))
            raise UnmaskError(f"{len(offers[name])} installed packages offer a {self.noun} {name!r}; name it: {which}")
        return self._open(name, offers[name][0].value)

    def check_import(self, name: str) -> None:
        """An error where a name asks for an import, and stands where it must not."""
        module, colon, _ = name.partition(":")
        allowed, why = _imports.get()
        if colon and not (allowed if isinstance(allowed, bool) else module.strip() in allowed):
            what = f"{self.noun} {shown(name)} is code to be imported, and {why}"
            raise UnmaskError(f"{what} --allow-imports {cut(module)}")

    def names(self) -> list[str]:
        """All names: ours in their order, then those that installed packages offer; none of theirs is imported."""
        return [*self.makers, *sorted(self._offers().keys() - self.makers.keys())]

    def about(self) -> dict[str, str]:
        """Each name with the first line of its documentation, or with what is wrong with the package that offers it."""
        return {name: self.entry(name).about for name in self.names()}

    def entry(self, name: str) -> Entry:
        """What there is to say of a name; of one that an installed package offers in vain, what is wrong."""
        try:
            maker = self.find(name)
        except UnmaskError as error:
            if name not in self._offers():
                raise
            return Entry(name, f"broken: {error}", {}, "", self._offers()[name][0].value)
        documentation = inspect.getdoc(maker) or ""
        options = {
            option: parameter.default
            for option, parameter in inspect.signature(maker).parameters.items()
            if option not in self.given and parameter.kind in NEEDED
        }
        origin = f"{maker.__module__}:{maker.__qualname__}"
        return Entry(name, documentation.partition("\n")[0], options, documentation, origin, maker)

    def _offers(self) -> dict[str, list[EntryPoint]]:
        offers: dict[str, list[EntryPoint]] = {}
        for entry in installed(self.group) if self.group else ():
            if entry.value not in [offer.value for offer in offers.setdefault(entry.name, [])]:  # installed twice
                offers[entry.name].append(entry)
        return offers

    def _open(self, name: str, place: str) -> Callable[..., Made]:
        """The maker at "package.module:Name", which this imports."""
        label = f"{self.noun} {name!r}"
        found = _imported(label, place)
        if isinstance(found, type):
            self.check(found, label)  # before anything of it runs
        elif not inspect.isroutine(found):
            raise UnmaskError(f"{label} is an object of type {type(found).__name__}; expected a class, or a function")
        elif not _returns(found, self.returns):
            wanted = " or ".join(kind.__name__ for kind in self.returns)
            what = f"{label} is a function that is not declared to make a {self.noun}, and is not called"
            raise UnmaskError(f"{what}; write def {found.__name__}(...) -> {wanted}")
        try:
            inspect.signature(found)
        except (TypeError, ValueError) as error:
            raise UnmaskError(f"{label} does not say what its options are: it is no {self.noun} of Python's") from error
        maker: Callable[..., Made] = found
        return maker


def _modules(package: str | None) -> list[str]:
    """The modules of a package and of the packages inside it."""
    if package is None:
        return []
    return [module.name for module in walk_packages(import_module(package).__path__, f"{package}.")]


def installed(group: str) -> EntryPoints:
    """What installed packages offer: reading it takes 20 ms, and a message that lists names asks again and again."""
    return _installed(group, *_places())


def _places() -> Iterator[tuple[str, int]]:
    """Where packages are found, and when anything was last installed there."""
    for place in sys.path:
        with suppress(OSError):
            yield os.path.abspath(place), os.stat(place or ".").st_mtime_ns


@lru_cache(maxsize=16)
def _installed(group: str, *places: tuple[str, int]) -> EntryPoints:
    from importlib.metadata import entry_points  # here: a worker that finds its metric asks for none

    return entry_points(group=group)


UNIONS = (Union, UnionType)
NEEDED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _imported(label: str, place: str) -> Any:
    """module:attribute; a module may lie in the working directory, wherever the program was started from."""
    module, _, attribute = (part.strip() for part in place.partition("[")[0].partition(":"))
    if "" not in sys.path:
        sys.path.append("")  # last: it hides nothing that is installed
    try:
        found = import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            what = "install its package, or work in the directory that holds it"
            raise UnmaskError(f"there is no module {error.name!r} for {label}; {what}") from error
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UnmaskError(f"{label} cannot be had: importing {module!r} fails with {reason}") from error
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        there = [name for name, value in vars(sys.modules[module]).items() if _stems_from(value, module)]
        if not there:
            raise UnmaskError(f"{label} is not there: module {module!r} has no {attribute!r}") from error
        raise unknown(f"name in module {module!r}:", attribute, there) from error
    return found


def _stems_from(value: Any, module: str) -> bool:
    return (isinstance(value, type) or inspect.isfunction(value)) and f"{value.__module__}.".startswith(f"{module}.")


def _returns(function: Callable[..., Any], wanted: tuple[type, ...]) -> bool:
    """Whether all that a function is declared to return is one of these; it does not run."""
    try:
        hint = get_type_hints(function).get("return")
    except Exception:  # whatever somebody's annotations come to, or do not
        return False
    kinds = [get_origin(part) or part for part in (get_args(hint) if get_origin(hint) in UNIONS else (hint,))]
    return all(isinstance(kind, type) and issubclass(kind, wanted) for kind in kinds)


def parse(noun: str, specification: str) -> tuple[str, dict[str, Any]]:
    """("name", {option: value}); values are Python literals, bare words, or names with options of their own."""
    if not isinstance(specification, str):
        raise UnmaskError(f"{noun} is {shown(specification)}; expected its name, with options in brackets")
    name, bracket, rest = specification.strip().partition("(")
    if not bracket:
        return name, {}
    if len(specification) > LONGEST or _depth(rest) > DEEPEST:
        what = f"expected at most {LONGEST} characters and names within names {DEEPEST} deep"
        raise UnmaskError(f"{noun} {shown(specification)} is too long or too deep; {what}")
    try:
        call = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise SyntaxError
        options = {keyword.arg: _literal(keyword.value) for keyword in call.keywords if keyword.arg}
        if len(options) < len(call.keywords):  # an option twice, or **options
            raise SyntaxError
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        what = f"cannot read {noun} {shown(specification)}"
        raise UnmaskError(f"{what}; write name or name(option=value, ...)") from error
    return name.strip(), options


def _depth(text: str) -> int:
    """How many brackets are open at most."""
    depth = deepest = 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _unlike(value: Any, default: Any) -> str:
    """What should stand where a default of this type does, or nothing where the value will do."""
    if type(default) is float:
        return "" if type(value) in (int, float) and abs(value) <= sys.float_info.max else "a finite number"
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
