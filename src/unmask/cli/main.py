"""Finds the command, passes its arguments, and prints errors as one line.

A command is a function, or a dict of functions for its subcommands, of COMMANDS. Its signature gives its
flags, its docstring its help (options.py). It returns an Answer, which is printed here as text or as JSON, and fails by
raising UnmaskError. Even `--help` imports the module, so functions import slow modules themselves.
"""

from __future__ import annotations

import os
import sys
from collections import ChainMap
from collections.abc import Mapping
from importlib import import_module
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import TextIO

from unmask.core.entries import chosen
from unmask.core.errors import UnmaskError, cut, plain, shown, unknown

GROUPS = {
    "Try": {
        "demo": "reproduce the paper's main result as a web page",
        "doctor": "show versions, devices and extras",
    },
    "Generate and score": {
        "generate": "generate sequences or text",
        "score": "measure error rates and perplexity of sequences",
        "play": "animate one sequence and find its first error",
        "gap": "measure the loss by sampling several tokens in one step",
        "audit": "test a generation loop for bugs",
        "diff": "find where two traces begin to differ",
    },
    "Compare and decide": {
        "board": "rank samplers, or compare two of them",
        "eval": "evaluate models and samplers on tasks, and compare them",
        "plan": "find the steps that a quality needs, or the model to use: masked or AR",
    },
    "Models and theory": {
        "model": "time models, judge texts, measure learning errors",
        "train": "train a network on a language or a text",
        "theory": "evaluate theorems: exact values and bounds",
    },
    "Sweeps and reports": {
        "sweep": "run a resumable parameter grid",
        "report": "build an HTML report from any results, or measure the paper's figures",
    },
    "Look up": {
        "show": "list languages, samplers, schedules, models, tasks or jobs, or describe one",
    },
}
COMMANDS = ChainMap(*GROUPS.values())
# the module of a command with another name, and the function in it; others have `command` in the module of their name
PLACES = {"demo": "report:demo", "doctor": "show:doctor", "score": "generate:score", "diff": "play:diff"}
ABOUT = "Measure the errors and the speed of masked diffusion language models."
RUN = "run"  # the subcommand to run if the first argument is an option
HELP = ("--help", "-h")
OPTIONS = {
    "--help, -h": "show this help; `unmask COMMAND --help` or `unmask help COMMAND` shows that of a command",
    "--version, -V": "show the version",
    "--debug": "show the full traceback of an error",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command. Exit codes: 0 done, 1 a bug of unmask, 2 a wrong argument or file, 130 interrupted.

    A command that returns a number has it as its exit code: `unmask diff` returns 1 for different traces."""
    _open_streams()
    arguments = chosen(argv, sys.argv[1:])
    debug = "--debug" in arguments

    try:
        try:
            return _run([argument for argument in arguments if argument != "--debug"])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, for example `head`, closed the pipe
        _discard(sys.stdout)
        return 141
    except (Exception, KeyboardInterrupt) as error:
        return _explain(error, debug)


def _run(words: list[str]) -> int:
    if words[:1] in (["--version"], ["-V"], ["version"]):
        from unmask import __version__

        print(f"unmask {__version__}")
        return 0
    try:
        os.getcwd()
    except FileNotFoundError:  # some libraries end the process there
        raise UnmaskError("the working directory was removed. Change to a directory that exists") from None
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if (code := _guide("unmask", ABOUT, GROUPS, OPTIONS, words)) is not None:
        return code
    from unmask.cli.options import about_of, call, parser_of, show, takes_all

    first, *words = words
    program, about = f"unmask {first}", COMMANDS[first]
    module, _, name = PLACES.get(first, first).partition(":")
    command = getattr(import_module(f"unmask.cli.{module}"), name or "command")
    if isinstance(command, Mapping):
        if RUN in command and words and words[0].startswith("--") and words[0] not in HELP:
            words = [RUN, *words]

        firsts = {name: about_of(one).partition("\n")[0] for name, one in command.items()}
        options = {"--help": f"show this help; `{program} COMMAND --help` shows that of a command"}
        about = f"{about[0].upper()}{about[1:]}."
        if (code := _guide(program, about, {"commands": firsts}, options, words)) is not None:
            return code
        program, command = f"{program} {words[0]}", command[words[0]]
        words = words[1:]

    own = words
    if takes_all(command):  # later words are those of another program
        own = words[:1]
    if set(HELP).intersection(own):
        print(parser_of(program, command).format_help(), end="")
        return 0
    from unmask.core import memory, progress

    memory.cores()  # check UNMASK_THREADS, also for commands without threads
    with progress.command(program):
        answer = call(program, command, words)
        if answer is None:
            return 0
        show(answer.result, "--json" in words, answer.text)
        if answer.failure:
            raise UnmaskError(answer.failure)
        return int(answer.status)


def _guide(
    program: str,
    about: str,
    groups: Mapping[str, Mapping[str, str]],
    options: Mapping[str, str],
    arguments: list[str],
) -> int | None:
    """Return None if the first argument is a command; otherwise print the commands and return the exit code."""
    commands = list(chain(*groups.values()))
    if arguments and arguments[0] in commands:
        return None
    if arguments and arguments[0] not in ("--help", "-h"):
        from unmask.cli.leads import lead, usual

        word = arguments[0]
        noun, known = "command", commands
        if word.startswith("-"):
            noun, known = "option", ", ".join(options).split(", ")
        if program != "unmask":
            noun = f"{noun} of {program}"
        if sentence := lead(program, word):
            raise UnmaskError(f"unknown {noun} {shown(word)}; {sentence}")
        raise unknown(noun, word, known, usual(program, cut(word)))

    lines = [f"usage: {program} COMMAND [OPTIONS]", "", about]
    width = max(map(len, (*commands, *options))) + 2
    for title, entries in {**groups, "options": options}.items():
        lines += ["", f"{title}:", *(f"  {name:<{width}}{summary}" for name, summary in entries.items())]
    if not arguments:
        print("\n".join(lines), file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


def _explain(error: BaseException, debug: bool) -> int:
    """Print the error and return the exit code."""
    match error:
        case KeyboardInterrupt():
            message, code = f"unmask: interrupted; {str(error) or 'nothing was left half-written'}", 130
        case UnmaskError():
            message, code = f"unmask: error: {error}", 2
        case OSError():
            _discard(sys.stdout)
            reason = str(error)
            if error.filename and error.strerror:
                reason = f"{cut(str(error.filename))}: {error.strerror}"
            message, code = f"unmask: error: {plain(reason)}", 2
        case _ if _out_of_memory(error):
            message, code = "unmask: error: out of memory. Use fewer rows, a shorter length or fewer steps", 2
        case _ if (line := _line_outside(error)) is not None:
            problem = f"{cut(f'{type(error).__name__}: {error}')} in {plain(line)}, outside unmask"
            message, code = f"unmask: error: {problem}. Add --debug for the traceback", 2
        case _:
            message, code = "unmask: this is a bug of unmask. Please report it with the lines above", 1
    try:
        if debug or code == 1:
            import traceback

            traceback.print_exception(error)
        print(message, file=sys.stderr)
    except OSError:  # only the exit code is left to report the error
        _discard(sys.stderr)
    return code


def _line_outside(error: BaseException) -> str | None:
    """Return the file and line of user code that raised the error, directly or in a library; None if it was unmask."""
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
    """Recognize also torch's errors, by their text if they are plain RuntimeErrors."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and (type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error))
    )


def _open_streams() -> None:
    """Connect a closed stdin, stdout or stderr to /dev/null, so that no opened file gets its number. Escape characters
    that stdout cannot encode, as stderr does by itself."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard(stream: TextIO) -> None:
    """Discard the buffer of a stream that cannot be written; otherwise the interpreter complains at its exit."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
