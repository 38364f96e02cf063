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

COMMANDS = {
    "demo": ("unmask.cli.demo", "show the central result, exactly: fluency saturates, correctness does not"),
    "language": ("unmask.cli.language", "the ground truths: list, make, show or fit one"),
    "sampler": ("unmask.cli.sampler", "what decides: list the samplers, or show one with its options"),
    "schedule": ("unmask.cli.schedule", "how much is revealed at each round: list, or show one"),
    "metric": ("unmask.cli.metric", "what a sweep can measure: list, or show one with its fields"),
    "board": ("unmask.cli.board", "compare samplers: evaluations, errors, and what they do to what they write"),
    "frontier": ("unmask.cli.frontier", "hold perplexity and entropy of samples against what is true of their law"),
    "generate": ("unmask.cli.generate", "fill sequences with a sampler, a schedule and a number of steps"),
    "play": ("unmask.cli.play", "look at a sequence being written, and see where it goes wrong"),
    "model": ("unmask.cli.model", "open models: list the published checkpoints, show one, or check its files"),
    "chat": ("unmask.cli.chat", "talk to an open model, and see its answers being written"),
    "serve": ("unmask.cli.serve", "let programs ask an open model, by an endpoint that speaks as OpenAI's"),
    "audit": ("unmask.cli.audit", "say whether a generate loop is right, from samples it made on our oracle"),
    "theory": ("unmask.cli.theory", "what is known without running anything: exact values, bounds, figures"),
    "plan": ("unmask.cli.plan", "say how many steps a quality takes, and whether AR is the better choice"),
    "time": ("unmask.cli.time", "time an MDM's evaluations and an AR model's tokens, and say where they break even"),
    "train": ("unmask.cli.train", "train a network on a language: masked diffusion or autoregressive"),
    "report": ("unmask.cli.report", "make a page of any results: the verdict, and figures that can be asked"),
    "figure-1": ("unmask.cli.figure_1", "train networks, and hold them against the ideal denoiser"),
    "figure-2": ("unmask.cli.figure_2", "train networks on a text, and judge what they write"),
    "reasoning": ("unmask.cli.reasoning", "train networks on sums, and judge their answers and their steps"),
    "paper": ("unmask.cli.paper", "reproduce the paper claim by claim: agrees, differs, or what it would take"),
    "learning": ("unmask.cli.learning", "say what a network has not learned, and what that adds to its errors"),
    "sweep": ("unmask.cli.sweep", "measure a grid of cells, stopped and resumed at will, here or on a cluster"),
    "eval": ("unmask.cli.eval", "let models write the answers of tasks: accuracy with interval, cost and time"),
    "advise": ("unmask.cli.advise", "say which model and how many rounds to take: a masked model or AR"),
    "task": ("unmask.cli.task", "what models are asked: list the tasks, or show one with its options"),
    "lm-eval": ("unmask.cli.lm_eval", "run EleutherAI's harness with open models and samplers of unmask"),
    "judge": ("unmask.cli.judge", "say how likely an open model finds texts, and how varied they are"),
    "doctor": ("unmask.cli.doctor", "say what is here: versions, devices, threads, caches, sandbox, extras"),
    "score": ("unmask.cli.score", "measure the error rates of sequences against a language"),
}
ABOUT = "Measure masked diffusion language models: what a number of sampling steps costs and buys."
RUN = "run"  # the subcommand that options without one are of, and words where it takes any number of them
OPTIONS = {
    "--help": "show this help; `unmask COMMAND --help` shows that of a command",
    "--version": "show the version",
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
    if arguments[:1] == ["--version"]:
        from importlib.metadata import version

        print(f"unmask {version('unmask')}")
        return 0
    try:
        os.getcwd()
    except FileNotFoundError:  # in which libraries of others end the process
        raise UnmaskError("the working directory has been removed; change to one that is there") from None
    code = _guide("unmask", ABOUT, {name: summary for name, (_, summary) in COMMANDS.items()}, OPTIONS, arguments)
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
        code = _guide(program, about, summaries, options, rest)
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
    program: str, about: str, commands: Mapping[str, str], options: Mapping[str, str], arguments: list[str]
) -> int | None:
    """None where the first argument is a command; else say which there are, and return the exit code."""
    if arguments and arguments[0] in commands:
        return None
    if arguments and arguments[0] not in ("--help", "-h"):
        noun, known = ("option", options) if arguments[0].startswith("-") else ("command", commands)
        raise unknown(f"{noun} of {program}" if program != "unmask" else noun, arguments[0], known)
    lines = [f"usage: {program} COMMAND [OPTIONS]", "", about]
    for noun, entries in (("commands", commands), ("options", options)):
        width = max(map(len, entries)) + 2
        lines += ["", f"{noun}:", *(f"  {name:<{width}}{summary}" for name, summary in entries.items())]
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
