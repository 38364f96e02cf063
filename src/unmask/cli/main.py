"""Finds the command, gives it its arguments, and says in one line what went wrong.

A command is a function named `command`, or a dict of functions for its subcommands, in a module listed in COMMANDS.
Its signature is its flags (what stands before `/` is positional, a bool is a plain flag); its docstring is its help,
the first line above the flags, the rest below them, line by line; it fails by raising UnmaskError. The module is
imported even for `--help`, so that whatever is slow to import is imported inside the function.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from unmask.core.errors import UnmaskError, cut, plain, unknown

GROUPS = {
    "Try": {
        "demo": ("unmask.cli.demo", "reproduce the paper's main result as a web page"),
        "doctor": ("unmask.cli.doctor", "check the installation: versions, devices, caches, sandbox, extras"),
        "completion": ("unmask.cli.completion", "print a script that completes commands in your shell"),
    },
    "Generate and score": {
        "generate": ("unmask.cli.generate", "generate sequences or text"),
        "score": ("unmask.cli.score", "measure error rates and perplexity of sequences"),
        "play": ("unmask.cli.play", "animate one sequence and find its first error"),
        "audit": ("unmask.cli.audit", "test a generation loop for bugs"),
    },
    "Compare": {
        "board": ("unmask.cli.board", "rank samplers, or compare two of them"),
        "frontier": ("unmask.cli.frontier", "compare sample perplexity and entropy with the exact values"),
        "eval": ("unmask.cli.eval", "evaluate models on tasks: accuracy, cost and time"),
    },
    "Decide": {
        "plan": ("unmask.cli.plan", "predict how many steps a quality target needs"),
        "advise": ("unmask.cli.advise", "choose between a masked model and an AR model"),
    },
    "Open models": {
        "model": ("unmask.cli.model", "check the files of an open model"),
        "chat": ("unmask.cli.chat", "chat with an open model"),
        "serve": ("unmask.cli.serve", "serve an open model through an OpenAI-compatible API"),
        "judge": ("unmask.cli.judge", "score texts with an open model: perplexity, entropy"),
        "time": ("unmask.cli.time", "time an MDM against an AR model"),
        "lm-eval": ("unmask.cli.lm_eval", "run EleutherAI's evaluation harness on open models"),
    },
    "Train": {
        "train": ("unmask.cli.train", "train a network on a language or a text"),
        "learning": ("unmask.cli.learning", "measure a network's learning error"),
    },
    "Reproduce the paper": {
        "paper": ("unmask.cli.paper", "test the paper's claims one by one"),
        "theory": ("unmask.cli.theory", "evaluate theorems: exact values and bounds"),
        "figure-1": ("unmask.cli.figure_1", "reproduce Figure 1: trained networks and the exact denoiser"),
        "figure-2": ("unmask.cli.figure_2", "train networks on a text and score what they generate"),
        "reasoning": ("unmask.cli.reasoning", "train networks on sums and score answers and steps"),
    },
    "Sweeps and reports": {
        "sweep": ("unmask.cli.sweep", "run a resumable parameter grid, locally or on a cluster"),
        "report": ("unmask.cli.report", "build an interactive HTML report from any results"),
    },
    "Look up": {
        "list": ("unmask.cli.list", "list languages, samplers, schedules, models, tasks or jobs"),
        "show": ("unmask.cli.show", "describe one of them, with its options"),
        "language": ("unmask.cli.language", "create a language file, or fit one to a text"),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
MOVED = {f"{noun} list": f"list {noun}s" for noun in ("language", "sampler", "schedule", "model", "task")}
MOVED |= {f"{noun} show": f"show {noun}" for noun in ("language", "sampler", "schedule", "model", "task")}
MOVED |= {"metric list": "list jobs", "metric show": "show job"}  # names of earlier releases
ABOUT = "Measure masked diffusion language models: what a number of sampling steps costs and buys."
RUN = "run"  # the subcommand that options without one are of, and words where it takes any number of them
OPTIONS = {
    "--help, -h": "show this help; `unmask COMMAND --help` or `unmask help COMMAND` shows that of a command",
    "--version, -V": "show the version",
    "--debug": "show the full traceback of an error",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command. Exit codes: 0 done, 1 a defect of ours, 2 a mistake in what was asked, 130 interrupted."""
    _open_streams()
    arguments = sys.argv[1:] if argv is None else argv
    debug = "--debug" in arguments
    try:
        try:
            return _run([argument for argument in arguments if argument != "--debug"])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        _forsake(sys.stdout)
        return 141
    except (Exception, KeyboardInterrupt) as error:
        return _explain(error, debug)


def _run(arguments: list[str]) -> int:
    if arguments[:1] in (["--version"], ["-V"], ["version"]):
        from importlib.metadata import version

        print(f"unmask {version('unmask')}")
        return 0
    try:
        os.getcwd()
    except FileNotFoundError:  # in which libraries of others end the process
        raise UnmaskError("the working directory has been removed; change to one that is there") from None
    if arguments == ["complete"] or arguments[:2] == ["complete", "unmask"]:  # a shell asks while the user types
        from unmask.cli.completion import words

        print("\n".join(words(os.environ.get("COMP_LINE", "unmask "), COMMANDS)))
        return 0
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if (old := " ".join(arguments[:2])) in MOVED:
        raise UnmaskError(f"`unmask {old}` is now `unmask {MOVED[old]}`")
    groups = {title: {name: about for name, (_, about) in group.items()} for title, group in GROUPS.items()}
    code = _guide("unmask", ABOUT, groups, OPTIONS, arguments)
    if code is not None:
        return code
    from unmask.cli.parser import HELP, about_of, call, help_of, takes_all

    name, *rest = arguments
    program, command = f"unmask {name}", import_module(COMMANDS[name][0]).command
    if isinstance(command, dict):
        summaries = {subname: about_of(function).partition("\n")[0] for subname, function in command.items()}
        if RUN in command and _of_run(command, rest[0] if rest else ""):
            rest = [RUN, *rest]
        about = COMMANDS[name][1].capitalize() + "."
        options = {"--help": f"show this help; `{program} COMMAND --help` shows that of a command"}
        code = _guide(program, about, {"commands": summaries}, options, rest)
        if code is not None:
            return code
        program, command, rest = f"{program} {rest[0]}", command[rest[0]], rest[1:]
    if any(word in HELP for word in (rest[:1] if takes_all(command) else rest)):
        print(help_of(program, command))
    else:
        from unmask.core import cores, progress

        cores.count()  # which refuses what UNMASK_THREADS says, for commands without threads too
        with progress.command(program):
            call(program, command, rest)
    return 0


def _of_run(command: Mapping[str, Callable[..., None]], first: str) -> bool:
    """Whether what begins with this word, or with none, is meant for `run`."""
    from unmask.cli.parser import HELP, options_of

    if first.startswith("--"):
        return first not in HELP
    return first not in (*command, *HELP) and any(o.positional and o.many for o in options_of(command[RUN]))


def _guide(
    program: str,
    about: str,
    groups: Mapping[str, Mapping[str, str]],
    options: Mapping[str, str],
    arguments: list[str],
) -> int | None:
    """None where the first argument is a command; otherwise print the commands and return the exit code."""
    commands = [name for group in groups.values() for name in group]
    if arguments and arguments[0] in commands:
        return None
    if arguments and arguments[0] not in ("--help", "-h"):
        flags = [flag for flags in options for flag in flags.split(", ")]
        noun, known = ("option", flags) if arguments[0].startswith("-") else ("command", commands)
        raise unknown(f"{noun} of {program}" if program != "unmask" else noun, arguments[0], known)
    lines = [f"usage: {program} COMMAND [OPTIONS]", "", about]
    width = max(map(len, (*commands, *options))) + 2
    for title, entries in {**groups, "options": options}.items():
        lines += ["", f"{title}:", *(f"  {name:<{width}}{summary}" for name, summary in entries.items())]
    print("\n".join(lines), file=sys.stdout if arguments else sys.stderr)
    return 0 if arguments else 2


def _explain(error: BaseException, debug: bool) -> int:
    """Print what went wrong and return the exit code."""
    match error:
        case KeyboardInterrupt():
            message, code = f"unmask: interrupted; {str(error) or 'nothing was left half-written'}", 130
        case UnmaskError():
            message, code = f"unmask: error: {error}", 2
        case OSError():
            _forsake(sys.stdout)
            reason = (
                f"{cut(str(error.filename))}: {error.strerror}" if error.filename and error.strerror else str(error)
            )
            message, code = f"unmask: error: {plain(reason)}", 2
        case _ if _out_of_memory(error):
            message, code = "unmask: error: out of memory; ask for fewer rows, a shorter length or fewer steps", 2
        case _ if (place := _place_of_another(error)) is not None:
            what = f"{cut(f'{type(error).__name__}: {error}')} in {plain(place)}"
            message, code = f"unmask: error: {what}, which is no code of unmask; --debug shows more", 2
        case _:
            message, code = "unmask: this is a defect of unmask; please report it with the lines above", 1
    try:
        if debug or code == 1:
            import traceback

            traceback.print_exception(error)
        print(message, file=sys.stderr)
    except OSError:  # the code says it, where nothing else can
        _forsake(sys.stderr)
    return code


def _place_of_another(error: BaseException) -> str | None:
    """The file and line of a sampler, a language or a metric of somebody else that raised this, itself or by what it
    called of a library; None where it was we."""
    import sysconfig
    import traceback

    libraries = tuple(sysconfig.get_paths().values())
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(str(Path(__file__).parents[1])):
            return None
        if not frame.filename.startswith((*libraries, "<")):
            return f"{frame.filename}, line {frame.lineno}"
    return None


def _out_of_memory(error: BaseException) -> bool:
    """torch has errors of its own for this, told apart by their words where they are plain RuntimeErrors."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and (type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error))
    )


def _open_streams() -> None:
    """Where stdin, stdout or stderr is closed, nothing takes its place but what swallows all: no file of ours gets its
    number. What stdout cannot encode is escaped, as stderr does by itself."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # which gets the lowest free number
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _forsake(stream: TextIO) -> None:
    """Where a stream no longer takes what it still holds, send that nowhere, or the interpreter complains at its
    exit."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
