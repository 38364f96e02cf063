"""Finds the command, gives it its arguments, and says in one line what went wrong.

A command is a function named `command`, or a dict of functions for its subcommands, in a module listed in COMMANDS. A signature is its flags (what
stands before `/` is positional, a bool is a plain flag), a docstring is its help; it fails by raising UnmaskError. The
module is imported even for `--help`, so that whatever is slow to import is imported inside the function.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from unmask.errors import UnmaskError, unknown

COMMANDS = {
    "language": ("unmask.cli.language", "the ground truths: list, make, show or fit one"),
    "generate": ("unmask.cli.generate", "fill sequences with a sampler, a schedule and a number of steps"),
    "score": ("unmask.cli.score", "measure the error rates of sequences against a language"),
}
OPTIONS = {
    "--help": "show this help; `unmask COMMAND --help` shows that of a command",
    "--version": "show the version",
    "--debug": "show the full traceback of an error",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command. Exit codes: 0 done, 1 a defect of ours, 2 a mistake in what was asked, 130 interrupted."""
    arguments = sys.argv[1:] if argv is None else argv
    debug = "--debug" in arguments
    try:
        try:
            return _run([argument for argument in arguments if argument != "--debug"])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        _forsake_stdout()
        return 141
    except (Exception, KeyboardInterrupt) as error:
        return _explain(error, debug)


def _run(arguments: list[str]) -> int:
    if not arguments:
        print(_help(), file=sys.stderr)
        return 2
    name, *rest = arguments
    if name in ("--help", "-h"):
        print(_help())
    elif name == "--version":
        from importlib.metadata import version

        print(f"unmask {version('unmask')}")
    elif name not in COMMANDS:
        raise unknown("option", name, OPTIONS) if name.startswith("-") else unknown("command", name, COMMANDS)
    else:
        import tyro

        command = import_module(COMMANDS[name][0]).command
        parse = tyro.extras.subcommand_cli_from_dict if isinstance(command, dict) else tyro.cli
        parse(command, prog=f"unmask {name}", args=rest, config=(tyro.conf.FlagCreatePairsOff,))
    return 0


def _help() -> str:
    commands = [f"  {name:<11}{summary}" for name, (_, summary) in COMMANDS.items()]
    options = [f"  {name:<11}{summary}" for name, summary in OPTIONS.items()]
    return "\n".join(
        [
            "usage: unmask COMMAND [OPTIONS]",
            "",
            "Measure masked diffusion language models: what a number of sampling steps costs and buys.",
            "",
            "commands:",
            *commands,
            "",
            "options:",
            *options,
        ]
    )


def _explain(error: BaseException, debug: bool) -> int:
    """Print what went wrong and return the exit code."""
    match error:
        case KeyboardInterrupt():
            message, code = "unmask: interrupted; nothing was left half-written", 130
        case UnmaskError():
            message, code = f"unmask: error: {error}", 2
        case OSError():
            _forsake_stdout()
            reason = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
            message, code = f"unmask: error: {reason}", 2
        case _ if _out_of_memory(error):
            message, code = f"unmask: error: out of memory; ask for fewer rows or a shorter length ({error})", 2
        case _:
            message, code = "unmask: this is a defect of unmask; please report it with the lines above", 1
    if debug or code == 1:
        import traceback

        traceback.print_exception(error)
    print(message, file=sys.stderr)
    return code


def _out_of_memory(error: BaseException) -> bool:
    """torch has errors of its own for this, told apart by their words where they are plain RuntimeErrors."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and (type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error))
    )


def _forsake_stdout() -> None:
    """Where stdout no longer takes what it still holds, send that nowhere, or the interpreter complains at its exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
