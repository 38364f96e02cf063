"""unmask sampler list|show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Switch

if TYPE_CHECKING:
    from unmask.samplers import Sampler

Name = Annotated[str, "SAMPLER"]
PACES = {
    "counts": "reveals what the schedule says in each round",
    "rounds": "reveals as much as it likes, and all within the rounds",
    "free": "goes on until nothing is hidden; steps and schedule say nothing, or only bound it",
}
LAWS = {
    "order": "given the order of revealing, each token is drawn from the denoiser's marginals",
    "causal": "that of one token after another, whatever the number of steps",
    "language": "that of the language, of whose ideal denoiser it is asked",
}
WAYS = {
    "order": "the order of revealing is fixed before any token is seen",
    "choose": "what is revealed is chosen in each round, after looking",
    "run": "a flow of its own",
}


def list_(*, json: Switch = False) -> None:
    """List the samplers, those that installed packages offer included.

    Examples:
        unmask sampler list
        unmask sampler list --json

    Other commands take a name, with options in brackets: "blocks(block_length=16)";
    or package.module:Name, a class of your own.

    Args:
        json: Print one JSON object, name to {about, specification, options, needed, code}.
    """
    from unmask.cli.catalogue import show_names
    from unmask.samplers import SAMPLERS

    show_names(SAMPLERS, json)


def show(sampler: Name, /, *, json: Switch = False) -> None:
    """Describe a sampler: its options and their defaults, its rule, its law.

    Examples:
        unmask sampler show blocks
        unmask sampler show my_module:MySampler --json

    Args:
        sampler: A name of `unmask sampler list`, or package.module:Name.
        json: Print one JSON object instead of text.
    """
    import inspect
    from contextlib import suppress
    from dataclasses import replace

    from unmask.cli.catalogue import show_entry
    from unmask.core.errors import UnmaskError
    from unmask.core.registry import parse
    from unmask.samplers import SAMPLERS

    entry = SAMPLERS.entry(parse("sampler", sampler)[0])
    more = {}
    if entry.maker is not None:
        rule = inspect.getdoc(inspect.getmodule(entry.maker)) or ""  # the formula, and the paper that it is from
        entry = replace(entry, documentation=f"{entry.documentation}\n\n{rule}")
        with suppress(UnmaskError):  # it needs options
            more = _facts(SAMPLERS.make(sampler), json)
    show_entry(entry, more, json)


def _facts(sampler: Sampler, json: bool) -> dict[str, Any]:
    way = next(way for way in WAYS if sampler.implements(way))
    law = "a function of the denoiser, the length and delta" if callable(sampler.law) else sampler.law
    plain: dict[str, Any] = {"way": way, "pace": sampler.pace, "law": law, "reads": sorted(sampler.reads)}
    plain["draws_rounds"] = sampler.draws_rounds
    if json:
        return plain
    pace = PACES[sampler.pace] if way != "run" else None
    return plain | {
        "way": WAYS[way],
        "pace": pace,
        "law": LAWS.get(law or "", law),
        "reads": " and ".join(plain["reads"]),
    }


command = {"list": list_, "show": show}
