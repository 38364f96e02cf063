"""Derives flags and help from a function's signature, and turns words into its arguments.

A parameter before the bare `*` is positional, the others are options: `--name VALUE`, for a tuple `--name VALUE ..`. A
bool is a plain flag, `--no-name` if it is True by default. A parameter of a dataclass stands for its fields.
"""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from unmask.cli.options import ABOUT, Portion
from unmask.core.errors import UnmaskError, cut, shown, unknown

EMPTY = inspect.Parameter.empty
HELP = ("--help", "-h")
SHORT = {"--rows": "-n"}
KINDS = {int: "a whole number", float: "a number", Path: "a path", Portion: "a percentage or a fraction: 10% or 0.1"}
METAVARS = {int: "N", float: "X", Path: "PATH", str: "NAME", Portion: "X"}


@dataclass(frozen=True)
class Option:
    """One parameter on the command line."""

    name: str
    kind: type  # the type of one value
    choices: tuple[str, ...]
    many: bool
    metavar: str
    default: Any  # EMPTY if required
    about: str
    positional: bool

    @property
    def flag(self) -> str:
        word = self.name.replace("_", "-")
        return f"--no-{word}" if self.kind is bool and self.default is True else f"--{word}"

    @property
    def label(self) -> str:
        """The option in help: `--rows N`."""
        value = f"{self.metavar} ..." if self.many else self.metavar
        return value if self.positional else self.flag if self.kind is bool else f"{self.flag} {value}"

    @property
    def title(self) -> str:
        """The option in errors: `--rows`."""
        return self.flag if not self.positional else self.name.upper() if self.choices else self.metavar

    @property
    def hint(self) -> str:
        if self.default is EMPTY:
            return "" if self.positional else " (required)"
        return "" if self.default in (None, (), "") or self.kind is bool else f" (default: {self.default})"

    def read(self, word: str) -> Any:
        if self.choices:
            if word not in self.choices:
                raise UnmaskError(f"{self.title} is {shown(word)}; expected {' or '.join(self.choices)}")
            return word
        try:
            if self.kind is Path and (not word or "\0" in word):
                raise ValueError
            return self.kind(word)
        except ValueError as error:
            raise UnmaskError(f"{self.title} is {shown(word)}; expected {KINDS[self.kind]}") from error


def call(program: str, command: Callable[..., Any], words: Sequence[str]) -> Any:
    """Call the command with the arguments that the words give."""
    if takes_all(command):
        return command(*words)
    options = list(options_of(command))
    given = _assign(program, options, words)
    missing = [option.label for option in options if option.default is EMPTY and option.name not in given]
    if missing:
        raise UnmaskError(f"{program} needs {' and '.join(missing)}. For example: {_example(command)}")
    places: list[Any] = []
    named: dict[str, Any] = {}
    for parameter, kind in _parameters(command):
        if _is_group(kind):
            inside = {field.name: given[field.name] for field in fields(kind) if field.name in given}
            value = kind(**inside) if parameter.default is EMPTY else replace(parameter.default, **inside)
        elif parameter.name in given:
            value = given[parameter.name]
        else:
            value = parameter.default
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            places.append(value)
    return command(*places, **named)


def _example(command: Callable[..., Any]) -> str:
    """The first example of a docstring."""
    lines = iter(about_of(command).partition("\nExample")[2].splitlines()[1:])
    example = next(lines, "").strip()
    while example.endswith("\\"):
        example = f"{example[:-1]}{next(lines, '').strip()}"
    return example


def takes_all(command: Callable[..., Any]) -> bool:
    """Return whether a command passes all its words, `*words`, to another program."""
    return any(one.kind is one.VAR_POSITIONAL for one in inspect.signature(command).parameters.values())


def _assign(program: str, options: Sequence[Option], words: Sequence[str]) -> dict[str, Any]:
    """Return the values that the words give, by the names of their parameters."""
    flags = {option.flag: option for option in options if not option.positional}
    places = [option for option in options if option.positional]
    given: dict[str, Any] = {}
    at = 0

    def values(option: Option) -> list[str]:
        nonlocal at
        first = at
        while at < len(words) and not _is_flag(words[at]) and (option.many or at == first):
            at += 1
        return list(words[first:at])

    while at < len(words):
        word = words[at]
        if not _is_flag(word):
            if not places:
                raise UnmaskError(f"{program}: unexpected argument {shown(word)}. Options begin with --")
            option = places.pop(0)
            texts = values(option)
        else:
            name, equals, value = word.partition("=")
            flag = next((flag for flag, short in SHORT.items() if name == short), name.replace("_", "-"))
            if flag not in flags:
                raise unknown(f"option of {program}", name, [*flags, HELP[0]])
            option, at = flags[flag], at + 1
            if option.kind is bool:
                if equals:
                    raise UnmaskError(f"{option.flag} is {shown(value)}; it takes no value. Write {option.flag}")
                given[option.name] = option.default is not True
                continue
            texts = [value] if equals else values(option)
            if not texts:
                raise UnmaskError(f"{option.flag} needs a value. Write {option.label}")
        read = tuple(option.read(text) for text in texts)
        given[option.name] = read if option.many else read[0]
    return given


def _is_flag(word: str) -> bool:
    """Return whether a word begins an option: a negative number does not, and "-" is a file."""
    return word.startswith("-") and len(word) > 1 and not (word[1].isdigit() or word[1] == "." or word[:4] == "-inf")


def options_of(command: Callable[..., Any]) -> Iterator[Option]:
    about = _arguments(command)
    for parameter, kind in _parameters(command):
        if _is_group(kind):
            inside = about | _arguments(kind)
            hints = get_type_hints(kind, include_extras=True)
            for field in fields(kind):
                usual = field.default if parameter.default is EMPTY else getattr(parameter.default, field.name)
                default = EMPTY if usual is MISSING else usual
                yield _option(field.name, hints[field.name], default, inside, False)
        else:
            positional = parameter.kind is not parameter.KEYWORD_ONLY
            yield _option(parameter.name, kind, parameter.default, about, positional)
    if "json" not in inspect.signature(command).parameters:
        yield _option("json", bool, False, about, False)


def _option(name: str, hint: Any, default: Any, about: dict[str, str], positional: bool) -> Option:
    metavar = ""
    if get_origin(hint) is Annotated:
        hint, metavar = get_args(hint)[:2]
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    many = get_origin(hint) is tuple
    if many:
        hint = get_args(hint)[0]
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    kind = str if choices else hint
    metavar = metavar or ("{" + ",".join(choices) + "}" if choices else METAVARS.get(kind, ""))
    return Option(name, kind, choices, many, metavar, default, about.get(name) or ABOUT.get(name, ""), positional)


def _parameters(command: Callable[..., Any]) -> Iterator[tuple[inspect.Parameter, Any]]:
    hints = get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        yield parameter, hints[parameter.name]


def _is_group(kind: object) -> bool:
    return is_dataclass(kind)


def _arguments(documented: Any) -> dict[str, str]:
    """Return the text of each argument in the part "Args:" of the docstring."""
    about: dict[str, str] = {}
    for line in (inspect.getdoc(documented) or "").partition("\nArgs:\n")[2].splitlines():
        name, colon, text = line.strip().partition(": ")
        if colon and line.startswith("    ") and not line.startswith("     ") and name.isidentifier():
            about[name] = text
        elif about and line.strip():
            last = next(reversed(about))
            about[last] = f"{about[last]} {line.strip()}"
    return about


def help_of(program: str, command: Callable[..., Any]) -> str:
    """Return the usage, the first line of the docstring, each option with its text, and the rest of the docstring."""
    options = [] if takes_all(command) else list(options_of(command))
    places = [option for option in options if option.positional]
    usage = " ".join([program, *(option.label for option in places), "[WORDS]" if takes_all(command) else "[OPTIONS]"])
    summary, _, details = about_of(command).partition("\n\n")
    entries = [(f"{SHORT[o.flag]}, {o.label}" if o.flag in SHORT else o.label, o.about + o.hint) for o in options]
    entries.append(("-h, --help", "Show this help."))
    columns = max(shutil.get_terminal_size().columns, 60)
    width = min(max(len(label) for label, _ in entries) + 2, columns // 3)
    lines = [f"usage: {usage}", "", summary, "", "options:"]
    for label, text in entries:
        wrapped = textwrap.wrap(text, columns - width - 2, break_on_hyphens=False) or [""]
        if len(label) + 2 > width:
            lines.append(f"  {cut(label)}")
        else:
            lines.append(f"  {label:<{width}}{wrapped.pop(0)}".rstrip())
        lines += [f"  {'':<{width}}{more}" for more in wrapped]
    return "\n".join([*lines, *(["", details] if details else [])])


def about_of(command: Callable[..., Any]) -> str:
    """Return the docstring without the part "Args:"."""
    return (inspect.getdoc(command) or "").partition("\nArgs:\n")[0].rstrip()
