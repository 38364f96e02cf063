"""Words for the completion of a shell, and the scripts of `unmask --completion SHELL`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

BASH = "complete -o default -C 'unmask complete' unmask"
SCRIPTS = {
    "bash": BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{BASH}",
    "fish": "complete -c unmask -a '(env COMP_LINE=(commandline -cp | string collect) unmask complete)'",
}
NAMES = {  # the options and arguments whose values are names, and the sources that register them
    "sampler": ("samplers/**/*.py", r'SAMPLERS\.register\("([^"]+)"'),
    "schedule": ("*/schedule*.py", r'SCHEDULES\.register\("([^"]+)"'),
    "language": ("languages/presets.py", r'PRESETS\.register\("([^"]+)"'),
    "task": ("tasks/*.py", r'TASKS\.register\("([^"]+)"'),
}
ALIKE = {"samplers": "sampler", "languages": "language", "causal_model": "model", "against": "sampler"}


def words(line: str, commands: dict[str, tuple[str, str]]) -> list[str]:
    """Return the possible last words of a command line, which begins with `unmask`."""
    *before, last = line.split()[1:] if not line[-1:].isspace() else [*line.split()[1:], ""]
    return sorted(word for word in _offered(before, commands) if word.startswith(last))


def _offered(before: list[str], commands: dict[str, tuple[str, str]]) -> Iterable[str]:
    from unmask.cli.parser import options_of, takes_all

    if not before:
        return commands
    if before[0] not in commands:
        return ()
    command: Any = import_module(commands[before[0]][0]).command
    rest = before[1:]
    if isinstance(command, dict):
        if not rest:
            return command
        if rest[0] not in command:
            return ()
        command, rest = command[rest[0]], rest[1:]
    if takes_all(command):
        return ()
    return _of_options(list(options_of(command)), rest)


def _of_options(options: list[Any], rest: list[str]) -> Iterable[str]:
    """Return the values of the last option, or the options if it has its value."""
    flags = {option.flag: option for option in options if not option.positional}
    given = next((flags[word] for word in reversed(rest) if word in flags), None)
    if given is not None and given.kind is not bool and (given.many or rest[-1] == given.flag):
        return (*_values(given), *(flags if given.many and rest[-1] != given.flag else ()))
    places = [value for option in options if option.positional for value in _values(option)]
    return (*(flag for flag in flags if flag not in rest), *places)


def _values(option: Any) -> Iterable[str]:
    return option.choices or _registered(ALIKE.get(option.name, option.name))


def _registered(noun: str) -> Iterable[str]:
    """Return the names that sources register, read as text, as importing them takes seconds."""
    if noun == "model":
        from unmask.hub import known

        return known()
    if noun not in NAMES:
        return ()
    pattern, register = NAMES[noun]
    read: Callable[[Path], str] = Path.read_text
    return (name for path in Path(__file__).parents[1].glob(pattern) for name in re.findall(register, read(path)))
