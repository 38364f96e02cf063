"""Registries: the makers of names such as "strided" and "polynomial(power=2)"; specs.py has the notation.

The module of a built-in name has a line `@SAMPLERS.register("name")`, so that a name is found without an import of the
others. To find all such lines takes a millisecond; tests/core/test_index.py compares.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from unmask.core.entries import column, picked
from unmask.core.errors import UnmaskError, cut, shown, unknown
from unmask.core.lazy import PACKAGE
from unmask.core.specs import called, parse, unlike

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

PLACES = {  # of each registry its variable, and the files that register its names
    "language": ("PRESETS", "languages/presets.py"),
    "kind of language": ("LANGUAGES", "languages/*.py"),
    "sampler": ("SAMPLERS", "samplers/rules/*.py"),
    "schedule": ("SCHEDULES", "samplers/schedules.py", "theory/optimal.py"),
    "task": ("TASKS", "tasks/*.py"),
    "engine": ("ENGINES", "experiments/*.py"),
}
OFFERED = {"sampler": ("sampler",), "language": ("language", "kind of language")}  # each noun with its registries
PLAIN = re.compile(r"[\w-]+")  # a name that is no path and no module:Name

Made = TypeVar("Made")
Allowed = bool | Sequence[str]  # modules that names may import: all (True), none (False), or these
IMPORTS: ContextVar[Allowed] = ContextVar("imports", default=True)
UNIONS = (Union, UnionType)
NEEDED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@contextmanager
def imports(allowed: Allowed) -> Iterator[None]:
    """Set the modules and files that a name "package.module:Name" or "file.py:Name" may import inside the block.

    Names from a file may import none, except those that the user allows. Entry points of installed packages are always
    allowed.
    """
    before = IMPORTS.set(allowed)
    try:
        yield
    finally:
        IMPORTS.reset(before)


@dataclass(frozen=True)
class Entry:
    """A name of a registry, described."""

    name: str
    about: str  # the first line of its documentation, or the reason why it cannot be loaded
    options: dict[str, Any]  # names to defaults; inspect.Parameter.empty if it is required
    documentation: str
    origin: str  # module:name of its maker
    maker: Callable[..., Any] | None = None  # None if it cannot be loaded

    @property
    def specification(self) -> str:
        """The name with all of its options: "blocks(block_length=32, inner='fixed-size')"."""
        empty = inspect.Parameter.empty
        shown = [name if default is empty else f"{name}={default!r}" for name, default in self.options.items()]
        return called(self.name, shown)

    def to_dict(self) -> dict[str, Any]:
        """The description for JSON: the options with their defaults, or their repr, and the names of needed ones."""
        needed: list[str] = []
        options: dict[str, Any] = {}
        for name, value in self.options.items():
            if value is inspect.Parameter.empty:
                needed.append(name)
            else:
                options[name] = value if isinstance(value, str | int | float | bool | None) else repr(value)

        about = {"about": self.about, "specification": self.specification, "options": options, "needed": needed}
        return about | {"code": self.origin}


class Registry(Generic[Made]):
    """A mapping of names to makers; the keyword parameters of a maker are its options.

    With a group, the registry is open to plugins: "package.module:Name" or "path/file.py:Name" is imported, and
    installed packages offer names as entry points of that group. Their code runs only when it is named, or when all
    names are listed. A plugin is called only after a check: `check` raises for a class of another kind, and a function
    must be declared to return one of `returns`. undeclared: a function of a file.py:Name need not be, and its
    product is checked. Built-in names come first (`modules`).
    """

    def __init__(
        self,
        noun: str,
        group: str | None = None,
        check: Callable[[type, str], None] | None = None,
        returns: tuple[type, ...] = (),
        given: tuple[str, ...] = (),
        undeclared: bool = False,
    ) -> None:
        self.noun = noun
        self.index = modules(noun)  # the modules of built-in names, imported when the name is asked for
        self.group = group
        self.check = check or (lambda kind, label: None)
        self.returns = returns
        self.undeclared = undeclared
        self.given = given  # parameters of makers that are not options: the caller passes them

        self._makers: dict[str, Callable[..., Made]] = {}
        self._complete = False

    def __repr__(self) -> str:
        return f"<Registry of {len(self.makers)} {self.noun}s: {', '.join(sorted(self.makers))}>"

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def register(self, name: str) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
        def add(maker: Callable[..., Made]) -> Callable[..., Made]:
            self._makers[name] = maker
            return maker

        return add

    def make(self, specification: str, *arguments: Any) -> Made:
        """The object of "name" or "name(option=value, ...)", from the positional arguments of its maker."""
        name, maker, options = self.bind(specification, len(arguments))

        try:
            product = maker(*arguments, **options)
        except (UnmaskError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            if name in self._makers:
                raise
            reason = f"{type(error).__name__}: {cut(str(error))}"  # an error in the code of a plugin
            raise UnmaskError(f"{self.noun} {name!r} cannot be created: {reason}") from error
        if name not in self._makers:
            self.check(type(product), f"what {self.noun} {name!r} returns")
        return product

    def bind(self, specification: str, positional: int) -> tuple[str, Callable[..., Made], dict[str, Any]]:
        """(name, maker, checked options) of a specification whose maker takes `positional` positional arguments."""
        name, options = parse(self.noun, specification)

        maker = self.find(name)
        known = dict(list(inspect.signature(maker).parameters.items())[positional:])
        for option, value in options.items():
            if option not in known:
                if not known:
                    raise UnmaskError(f"{self.noun} {name!r} has no options, but {option!r} was given")
                raise unknown(f"option of {self.noun} {name!r}:", option, known)
            if expected := unlike(value, known[option].default):
                raise UnmaskError(f"{option} of {self.noun} {name!r} is {shown(value)}; expected {expected}")

        for option, parameter in known.items():
            if option not in options and parameter.default is parameter.empty and parameter.kind in NEEDED:
                raise UnmaskError(f"{self.noun} {name!r} needs its option {option}; write {name}({option}=...)")

        return name, maker, options

    @property
    def makers(self) -> dict[str, Callable[..., Made]]:
        """Every name with its maker, except those of installed packages; imports their modules."""
        if not self._complete:
            self._complete = True
            for module in dict.fromkeys(self.index.values()):
                import_module(module)
            self._makers = picked(self._makers, self.index) | self._makers
        return self._makers

    def name_of(self, maker: Callable[..., Made]) -> str | None:
        """The name of a registered maker."""
        return next((name for name, known in self._makers.items() if known is maker), None)

    def find(self, name: str) -> Callable[..., Made]:
        """The maker of a name: built-in, of an importable module, or of an installed package."""
        if self.group is not None and ":" in name:
            self.check_import(name)
            return self._open(name, name)

        if name not in self._makers and name in self.index:
            import_module(self.index[name])
        if name in self._makers or name in self.makers:
            return self._makers[name]

        offers = self._offers()
        if name not in offers:
            raise unknown(self.noun, name, self.makers.keys() | offers.keys())
        if len(offers[name]) > 1:
            choices = " or ".join(sorted(column(offers[name], "value")))
            raise UnmaskError(
                f"{len(offers[name])} installed packages offer a {self.noun} {name!r}; expected {choices}"
            )

        return self._open(name, offers[name][0].value)

    def check_import(self, name: str) -> None:
        """Raise an error if a name requires an import that is not allowed."""
        module, colon, _ = name.partition(":")
        allowed = IMPORTS.get()
        if colon and not (allowed if isinstance(allowed, bool) else module.strip() in allowed):
            raise UnmaskError(
                f"{self.noun} {shown(name)} imports code, and is named in a file, which is not trusted",
                f"If you trust it, pass --allow-imports {cut(module)}",
            )

    def names(self) -> list[str]:
        """All names: the built-in ones, then those that installed packages offer, without importing them."""
        return [*self.makers, *sorted(self._offers().keys() - self.makers.keys())]

    def about(self) -> dict[str, str]:
        """Each name with the first line of its documentation, or the reason why it cannot be loaded."""
        return {name: self.entry(name).about for name in self.names()}

    def entry(self, name: str) -> Entry:
        """The description of a name; if its package is broken, the reason."""
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
            if entry.value not in column(offers.setdefault(entry.name, []), "value"):  # not installed twice
                offers[entry.name].append(entry)
        return offers

    def _open(self, name: str, path: str) -> Callable[..., Made]:
        """The maker at "package.module:Name", which this imports."""
        label = f"{self.noun} {name!r}"
        maker: Callable[..., Made] = _imported(label, path)
        if isinstance(maker, type):
            self.check(maker, label)  # before any of its code runs
        elif not inspect.isroutine(maker):
            raise UnmaskError(f"{label} is an object of type {type(maker).__name__}; expected a class or a function")
        elif not (self.undeclared and _says_nothing(maker)) and not _returns(maker, self.returns):
            expected = " or ".join(column(self.returns, "__name__"))
            kind = f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"
            raise UnmaskError(
                f"{label} is a function that is not declared to return {kind}",
                f"write def {maker.__name__}(...) -> {expected}",
            )

        try:
            inspect.signature(maker)
        except (TypeError, ValueError) as error:
            raise UnmaskError(f"{label} has no Python signature; expected a {self.noun} written in Python") from error
        return maker


def installed(group: str) -> EntryPoints:
    """Entry points of installed packages, cached, because reading them takes 20 ms."""
    return _installed(group, *map(os.path.abspath, sys.path))


@lru_cache(maxsize=16)
def _installed(group: str, *directories: str) -> EntryPoints:
    from importlib.metadata import entry_points  # here, because most workers do not need it

    return entry_points(group=group)


def _imported(label: str, path: str) -> Any:
    """The object at module:attribute; the module may be in the working directory."""
    module, _, attribute = map(str.strip, path.partition("[")[0].partition(":"))
    if "" not in sys.path:
        sys.path.append("")  # last, so that it hides no installed module

    if module.endswith(".py") and not os.path.isfile(module):
        raise UnmaskError(f"there is no file {module!r} for {label}; expected the path of a Python file")

    try:
        value = _from_file(module) if module.endswith(".py") else import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            raise UnmaskError(
                f"there is no module {error.name!r} for {label}",
                "install its package, or change to the directory that contains it",
            ) from error
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UnmaskError(f"{label} cannot be loaded: importing {module!r} fails with {reason}") from error

    try:
        for part in attribute.split("."):
            value = getattr(value, part)
    except AttributeError as error:
        own = [one for one in vars(sys.modules[module]).values() if isinstance(one, type) or inspect.isfunction(one)]
        names = [one.__name__ for one in own if f"{one.__module__}.".startswith(f"{module}.")]
        if not names:
            raise UnmaskError(f"{label} does not exist: module {module!r} has no {attribute!r}") from error
        raise unknown(f"name in module {module!r}:", attribute, names) from error

    return value


def _from_file(path: str) -> ModuleType:
    """The module in a Python file. Its name is this path, so that its classes are found again by their names."""
    if path not in sys.modules:
        spec = spec_from_file_location(path, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[path] = module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[path]
            raise
    return sys.modules[path]


@lru_cache(maxsize=64)  # a sweep asks for each cell
def _returns(function: Callable[..., Any], types: tuple[type, ...]) -> bool:
    """Whether a function is declared to return only these types; it is not called."""
    try:
        hint = get_type_hints(function).get("return")
    except Exception:  # any error that foreign annotations raise
        return False
    kinds = [get_origin(part) or part for part in (get_args(hint) if get_origin(hint) in UNIONS else (hint,))]
    return all(isinstance(kind, type) and issubclass(kind, types) for kind in kinds)


def _says_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function of a file.py declares no type of its product. Those of other modules have other purposes."""
    return function.__module__.endswith(".py") and "return" not in getattr(function, "__annotations__", {})


@cache
def modules(noun: str) -> dict[str, str]:
    """Each built-in name of a registry with its module; schedules as they are written, others sorted."""
    variable, *places = PLACES.get(noun, ("",))
    registered = re.compile(rf'^@?{variable}\.register\("([^"]+)"\)', re.MULTILINE)

    names: dict[str, str] = {}
    for place in places:
        for file in sorted(PACKAGE.glob(place)):
            module = ".".join(("unmask", *file.relative_to(PACKAGE).with_suffix("").parts))
            names |= dict.fromkeys(registered.findall(file.read_text("utf-8")), module)
    if noun == "schedule":
        return names
    return dict(sorted(names.items()))


def check_name(noun: str, specification: str) -> None:
    """Raise the error of an unknown name before slow imports; noun: one of OFFERED."""
    name = specification.partition("(")[0].strip()
    known = {name for one in OFFERED[noun] for name in modules(one)}
    if name in known or not PLAIN.fullmatch(name) or os.path.exists(name):
        return

    known |= installed(f"unmask.{noun}s").names
    if name not in known:
        label = {"language": "language (neither a file nor a preset):"}.get(noun, noun)
        raise unknown(label, name, known)
