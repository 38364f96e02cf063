"""The flags, the help and the call of a command, from its signature, by argparse; and the options that commands share.

A parameter before `/` is positional, the others are options: `--name VALUE`, for a tuple `--name VALUE ..`. A bool is a
plain flag, `--no-name` if it is True by default. A parameter of a dataclass stands for its fields. `Annotated` gives
the name of the value in help, "FILE"; the docstring explains each option, ABOUT the usual ones. Output is text for
people, or one JSON object on the last line of stdout for programs.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from itertools import groupby
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Union, get_args, get_origin, get_type_hints

from unmask.cli.leads import lead
from unmask.core import run, tables
from unmask.core.entries import column, picked, several, without
from unmask.core.errors import UnmaskError, cut, plain, shown, unknown
from unmask.core.registry import check_name

ABOUT = {  # the help of an option that a docstring does not explain
    "json": "Print one JSON object instead of text.",
    "language": 'Preset with options, "sparse-hmm(seed=3, pruned=False)", or a language file.',
    "length": "Sequence length in tokens.",
    "steps": "Number of steps N.",
    "schedule": "Schedule: how much each step reveals (see `unmask show schedule`).",
    "seed": "Random seed.",
    "top_p": "Keep the most likely tokens up to this total probability.",
    "guidance": "Classifier-free guidance scale; 0 is off. Doubles the number of model calls.",
    "samples": "Tokens (sequences, length): a .npy file of integers, or .jsonl with one list per line.",
    "records": "Directory of `unmask eval`, or its records.jsonl.",
    "store": "Directory of a sweep.",
    "open": "Open the page in the browser.",
    "device": "Device: auto, cpu or cuda.",
    "card": "Model card, if the directory does not identify its model: a name, or your own JSON file.",
    "verbose": "Print all numbers.",
}

NOUNS = {"language": "language", "sampler": "sampler", "samplers": "sampler"}  # options with names of registries

Name = Annotated[str, "LANGUAGE"]
Named = Annotated[str | None, "LANGUAGE"]
Model = Annotated[str | None, "MODEL"]  # a directory, or the name of an open model
Word = Annotated[str | None, "NAME"]
Text = Annotated[str | None, "TEXT"]
File = Annotated[Path | None, "FILE"]
Directory = Annotated[Path | None, "DIR"]
Samples = Annotated[Path, "SAMPLES"]
Languages = Annotated[tuple[str, ...], "LANGUAGE"]
Paths = Annotated[tuple[Path, ...], "PATH"]
Assignments = Annotated[tuple[str, ...], "NAME=VALUE"]
Engine = Annotated[str | None, "ENGINE"]
Switch = bool  # off by default
Count = int | None
Number = float | None
Counts = tuple[int, ...]


class Portion(float):
    """A fraction, as 10% or 0.1."""

    def __new__(cls, word: str) -> Portion:
        return super().__new__(cls, float(word[:-1]) / 100 if word.endswith("%") else float(word))


class Grid(NamedTuple):
    """A table with a title."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


Printed = Sequence[tuple[str, str] | Grid | str]


class Answer(NamedTuple):
    """The result of a command: text for people, and JSON with --json. A command that declares `json` gets it too.

    text: names with their texts, tables and sentences in place of the entries of the result; failure: an error that
    follows the output; status: the exit code.
    """

    result: Mapping[str, Any]
    text: Printed | None = None
    failure: str = ""
    status: int = 0


def show(result: Mapping[str, Any], as_json: bool = False, text: Printed | None = None) -> None:
    """Print the result as JSON, or its text; without a text its entries, nested ones named by their path.

    A text has tables, sentences with control characters escaped, and names with their texts below each other.
    """
    from unmask.core.files import finite

    if as_json:
        print(json.dumps(finite(result), allow_nan=False))
        return
    for kind, group in groupby(tables.rows_of(result) if text is None else text, type):
        parts: list[Any] = list(group)
        if kind is tuple:
            print("\n".join(tables.lines(parts)))
        elif kind is Grid:
            for grid in parts:
                print("\n".join([*tables.grid(*grid), ""]))
        else:
            print("\n".join(map(plain, parts)))


@dataclass(frozen=True)
class Measuring(run.Measuring):
    """Options to run a sweep, in every command that runs one."""

    def options(self, device: str = "cpu") -> dict[str, Any]:
        """Return the options of `unmask.sweep`. device: the device of networks, if there are any."""
        return asdict(self) | {"engine": engine_on(device, self.engine)}


def engine_on(device: str, engine: Engine = None) -> str:
    """Return the engine. By default, one process uses a GPU, as several would wait for it."""
    if engine is not None or device == "cpu":
        return engine or "local"
    from unmask.models.trained.checkpoints import choose_device

    return "local" if choose_device(device).type == "cpu" else "here"


def browse(page: Path, wanted: bool) -> None:
    """Open a page in the browser, if that is wanted."""
    if wanted:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def refuse(given: Mapping[str, object], why: str) -> None:
    """Raise an error for the first of these options that is given: its flag, and why it does not fit."""
    for name, value in given.items():
        if value is not None:
            raise UnmaskError(f"--{name.replace('_', '-')} {why}")


EMPTY = inspect.Parameter.empty
SHORT = {"--rows": "-n"}
KINDS = {int: "a whole number", float: "a number", Path: "a path", Portion: "a percentage or a fraction: 10% or 0.1"}
JOINED = re.compile(r"[\w.-]+(,[\w.-]+)+")  # 8,16 or strided,ancestral
METAVARS = {int: "N", float: "X", Path: "PATH", str: "NAME", Portion: "X"}


class Parser(argparse.ArgumentParser):
    """argparse, with every mistake as an UnmaskError."""

    def __init__(self, program: str, **how: Any) -> None:
        super().__init__(program, add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS, **how)
        self._negative_number_matcher = re.compile(r"-(\d|\.|inf)")  # also -1e-3 is a value
        self.flags: list[str] = ["--help"]
        self.required: dict[str, str] = {}  # the label of each required option by the name of its parameter

    def error(self, message: str) -> NoReturn:
        problem = re.sub(r"^argument (?:-\w/)?(\S+): expected .*", r"\1 needs a value", message)
        raise UnmaskError(f"{problem.removeprefix('argument ')}. See `{self.prog} --help`")


class Option(NamedTuple):
    """One parameter on the command line."""

    name: str
    flag: str  # empty if it is positional
    kind: Any  # the type of one value
    choices: tuple[str, ...]
    many: bool
    metavar: str
    default: Any  # EMPTY if required
    about: str

    def read(self, word: str) -> Any:
        title = self.flag or self.metavar
        if self.many and JOINED.fullmatch(word):
            parts = word.replace(",", " ")
            raise UnmaskError(f"{title} is {shown(word)}; expected spaces between values. Write {title} {parts}")
        if self.choices and word not in self.choices:
            raise UnmaskError(f"{title} is {shown(word)}; expected {' or '.join(self.choices)}")
        try:
            if self.kind is Path and (not word or "\0" in word):
                raise ValueError
            return self.kind(word)
        except ValueError as error:
            raise UnmaskError(f"{title} is {shown(word)}; expected {KINDS[self.kind]}") from error


def parser_of(program: str, command: Callable[..., Any]) -> Parser:
    summary, _, details = about_of(command).partition("\n\n")
    parser = Parser(program, description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter)

    places = []
    for one in options_of(command):
        needed, about = one.default is EMPTY, one.about
        if needed and one.flag:
            about += " (required)"
        elif one.default not in (EMPTY, None, (), "") and one.kind is not bool:
            about += f" (default: {one.default})"

        how: dict[str, Any] = {"help": about.replace("%", "%%")}
        if one.kind is bool:
            how |= {"action": "store_const", "const": one.default is not True}
        else:
            how |= {"type": one.read, "metavar": one.metavar}

        if one.flag:
            if one.many:
                how["nargs"] = "+"
            parser.add_argument(*SHORT.get(one.flag, "").split(), one.flag, dest=one.name, **how)
            parser.flags.append(one.flag)
        elif one.many:
            parser.add_argument(one.name, nargs="*", default=None, **how)
            places.append(f"{one.metavar} ...")
        else:
            parser.add_argument(one.name, nargs="?", default=None, **how)
            places.append(one.metavar)

        if needed:
            parser.required[one.name] = f"{one.flag} {one.metavar}".strip()

    parser.add_argument("-h", "--help", action="store_true", help="Show this help.")
    rest = "[OPTIONS]"
    if takes_all(command):
        rest = "[WORDS]"
    parser.usage = " ".join([program, *places, rest])
    return parser


def call(program: str, command: Callable[..., Any], words: Sequence[str]) -> Any:
    """Call the command with the arguments that the words give."""
    if takes_all(command):
        return command(*words)

    parser = parser_of(program, command)
    plain = []
    for word in words:
        if word.startswith("--"):
            name, equals, rest = word.partition("=")
            name = name.replace("_", "-")
            if name not in parser.flags:
                raise _no_option(program, name, parser.flags)
            word = f"{name}{equals}{rest}"
        plain.append(word)

    read, more = parser.parse_known_intermixed_args(plain)
    if more:
        flags = [f"{flag} {cut(more[0])}" for flag in ("--language", "--model") if flag in parser.flags]
        way = "Options begin with --"
        if flags and words[0] == more[0]:
            way = f"Write {' or '.join(flags)}"
        raise UnmaskError(f"{program}: unexpected argument {shown(more[0])}. {way}")

    given = {}
    for name, value in vars(read).items():
        if isinstance(value, list):
            value = tuple(value)
        if value not in (None, ()):
            given[name] = value

    for name, noun in NOUNS.items():
        for one in several(given.get(name, ())):
            check_name(noun, one)

    if missing := without(parser.required, given):
        raise UnmaskError(f"{program} needs {' and '.join(missing.values())}. For example: {_example(command)}")

    signature, kinds = inspect.signature(command), get_type_hints(command)
    bound = signature.bind_partial()
    for name, parameter in signature.parameters.items():
        value = given.get(name, parameter.default)
        kind: Any = kinds[name]
        if is_dataclass(kinds[name]):
            inside = picked(given, column(fields(kind), "name"))
            if parameter.default is EMPTY:
                value = kind(**inside)
            else:
                value = replace(parameter.default, **inside)
        bound.arguments[name] = value

    return command(*bound.args, **bound.kwargs)


def _no_option(program: str, name: str, known: Sequence[str]) -> UnmaskError:
    if sentence := lead(program, name):
        return UnmaskError(f"unknown option of {program} {shown(name)}. {sentence}")
    return unknown(f"option of {program}", name, known)


def takes_all(command: Callable[..., Any]) -> bool:
    """Return whether a command passes all its words, `*words`, to another program."""
    return inspect.Parameter.VAR_POSITIONAL in column(inspect.signature(command).parameters.values(), "kind")


def options_of(command: Callable[..., Any]) -> Iterator[Option]:
    if takes_all(command):
        return

    about, kinds = ABOUT | _arguments(command), get_type_hints(command, include_extras=True)
    entries, places = list[tuple[str, Any, Any, str]](), set[str]()  # (name, type, default, text); positional names
    for parameter in inspect.signature(command).parameters.values():
        if is_dataclass(kind := kinds[parameter.name]):
            inside, hints = about | _arguments(kind), get_type_hints(kind, include_extras=True)
            for name, own in inspect.signature(kinds[parameter.name]).parameters.items():
                default = getattr(parameter.default, name, own.default)
                entries.append((name, hints[name], default, inside.get(name, "")))
        else:
            entries.append((parameter.name, kind, parameter.default, about.get(parameter.name, "")))
            if parameter.kind is not parameter.KEYWORD_ONLY:
                places.add(parameter.name)

    if "json" not in kinds:
        entries.append(("json", bool, False, about["json"]))

    for name, hint, default, text in entries:
        metavar, choices = "", ()
        if get_origin(hint) is Annotated:
            hint, metavar = get_args(hint)[:2]
        if get_origin(hint) in (Union, UnionType):
            (hint,) = (part for part in get_args(hint) if part is not NoneType)
        many = get_origin(hint) is tuple
        if many:
            hint = get_args(hint)[0]
        if get_origin(hint) is Literal:
            choices = get_args(hint)
            hint, metavar = str, metavar or "{" + ",".join(choices) + "}"

        flag = ""
        if name not in places:
            flag = f"--{name.replace('_', '-')}"
            if hint is bool and default is True:
                flag = flag.replace("--", "--no-", 1)
        yield Option(name, flag, hint, choices, many, metavar or METAVARS.get(hint, ""), default, text)


def _arguments(documented: Any) -> dict[str, str]:
    """Return the text of each argument in the part "Args:" of the docstring, and in those of base classes."""
    classes = [documented]
    if inspect.isclass(documented):
        classes = list(documented.__mro__[::-1])
    parts = [(inspect.getdoc(one) or "").partition("Args:\n")[2] for one in classes]
    entries = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", "\n".join(parts), re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def about_of(command: Callable[..., Any]) -> str:
    """Return the docstring without the part "Args:"."""
    return (inspect.getdoc(command) or "").partition("\nArgs:\n")[0].rstrip()


def _example(command: Callable[..., Any]) -> str:
    """Return the first example of a docstring, in one line."""
    example = re.search(r"\nExamples?:\n((?:.*\\\n)*.*)", about_of(command))
    if example is None:
        return ""
    return " ".join(example[1].replace("\\\n", " ").split())
