"""unmask list."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal

from unmask.cli.options import Answer

if TYPE_CHECKING:
    from unmask.core.registry import Entry, Registry

Kind = Literal["languages", "samplers", "schedules", "models", "tasks", "jobs"]


def command(kind: Kind, /) -> Answer:
    """List languages, samplers, schedules, open models, tasks, or jobs of sweeps.

    Examples:
        unmask list samplers
        unmask list languages
        unmask list models --json

    Names of installed packages are listed too. Every command takes a name with
    options in brackets: "blocks(block_length=16)", "sparse-hmm(seed=3)". `unmask
    show sampler blocks` describes one.

    Args:
        kind: The kind of names to list.
        json: Print one JSON object; each name maps to {about, specification, options, needed, code}.
    """
    from unmask.cli.output import show_lines

    if kind == "models":
        return _models()
    named = registries(kind)

    def text() -> None:
        for number, (name, registry) in enumerate(named.items()):
            if number:
                print(f"\n{name}:")
            show_lines(sorted(registry.about().items()))

    listed = {name: summaries(registry) for name, registry in named.items()}
    return Answer(listed if len(listed) > 1 else listed[kind], text)


def registries(kind: str) -> dict[str, Registry[Any]]:
    """The registries with the names of a kind."""
    if kind == "languages":
        from unmask.languages import LANGUAGES, PRESETS

        return {"presets": PRESETS, "kinds": LANGUAGES}
    if kind == "samplers":
        from unmask.samplers import SAMPLERS

        return {kind: SAMPLERS}
    if kind == "schedules":
        from unmask.samplers.schedules import SCHEDULES

        return {kind: SCHEDULES}
    if kind == "tasks":
        from unmask.tasks import TASKS

        return {kind: TASKS}
    from unmask.experiments.cell import JOBS

    return {kind: JOBS}


def summaries(registry: Registry[Any]) -> dict[str, dict[str, Any]]:
    return {name: summary(registry.entry(name)) for name in sorted(registry.names())}


def summary(entry: Entry) -> dict[str, Any]:
    needed = [name for name, default in entry.options.items() if default is inspect.Parameter.empty]
    options = {name: _plain(default) for name, default in entry.options.items() if name not in needed}
    about = {"about": entry.about, "specification": entry.specification, "options": options, "needed": needed}
    return about | {"code": entry.origin}


def _plain(value: Any) -> Any:
    """The value, or its repr if JSON cannot hold it."""
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)


def _models() -> Answer:
    import msgspec

    from unmask.models.open import known

    cards = sorted(known().items())
    lines = [(name, f"{card.repository}, {card.attention}, {card.licence}") for name, card in cards]
    return Answer({name: msgspec.to_builtins(card) for name, card in known().items()}, lines)
