"""unmask show language|sampler|schedule|model|task|job; unmask doctor."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import starmap
from operator import attrgetter
from typing import Annotated, Any

from unmask.cli.options import Answer, Count, File, Grid, Named, Switch, refuse
from unmask.core.entries import column, given, mapped, without
from unmask.core.errors import UnmaskError
from unmask.core.registry import Entry, Registry
from unmask.core.specs import parse
from unmask.core.tables import rows_of

SHOWN = 60  # tokens of an example
PREDICTS = {"same": "the token at the same position"}
LEFT_OUT = ("all", "test", "extras", "bench", "docs")  # extras of other extras, and of this project's own work


def language(
    language: Named = None,
    /,
    *,
    length: Count = None,
    seed: int = 0,
    out: File = None,
    normalise: Switch = False,
) -> Answer:
    """Describe a language: size, entropy, mixing.

    Examples:
        unmask show language
        unmask show language paper-2gram
        unmask show language "sparse-hmm(seed=3)" --length 512
        unmask show language exported.json --normalise --out language.json

    Without a name, the output lists all presets and kinds. With --out, the language
    is written as a checked JSON file.

    Args:
        language: Preset with options, a language file, or a kind.
        length: Length for the entropy. (default: 64, or the nearest length that the language has)
        seed: Random seed of the example.
        out: JSON file to write.
        normalise: Divide each row of a file's tables by its sum, before --out.
    """
    import math

    from unmask import languages, metrics
    from unmask.core.files import check_writable

    if language is None:
        return _listed({"presets": languages.PRESETS, "kinds": languages.LANGUAGES})
    if out is not None:
        check_writable(out)
        known = languages.load(language, normalise=normalise)
        known.save(out)
        return Answer({"file": str(out)} | known.describe())
    refuse({"normalise": normalise or None}, "needs --out FILE. Add it, or leave --normalise out")
    if language in languages.LANGUAGES.names() and language not in languages.PRESETS.makers:
        return _described(languages.LANGUAGES.entry(language), {})

    known = languages.load(language)
    if length is None:
        length = known.nearest_lengths(64)[-1]
    ter = None
    if known.end is None:
        ter = metrics.ter_autoregressive(known, length).to_dict()

    return Answer(
        {
            **known.describe(),
            "length": length,
            "entropy_bits": known.entropy(length).map(lambda nats: nats / math.log(2)).to_dict(),
            "ter": ter,
            "example": known.render(known.sample(1, length, seed=seed)[0, :SHOWN]),
        }
    )


def sampler(sampler: Annotated[str | None, "SAMPLER"] = None, /) -> Answer:
    """Describe a sampler: its rule, its options, and the distribution that it claims.

    Examples:
        unmask show sampler
        unmask show sampler blocks
        unmask show sampler my_module:MySampler --json

    Without a name, the output lists all samplers, also those of installed packages.

    Args:
        sampler: Name of a sampler, package.module:Name or file.py:Name.
    """
    from unmask.samplers import SAMPLERS

    if sampler is None:
        return _listed({"samplers": SAMPLERS})
    entry = SAMPLERS.entry(parse("sampler", sampler)[0])
    facts: dict[str, Any] = {}
    if entry.maker is not None:
        rule = inspect.getdoc(inspect.getmodule(entry.maker)) or ""  # the formula and its paper
        entry = replace(entry, documentation=f"{entry.documentation}\n\n{rule}")
        with suppress(UnmaskError):  # it needs options
            rules = SAMPLERS.make(sampler)
            way = next(way for way in ("order", "choose", "run") if rules.implements(way))  # docs/contracts.md
            distribution: Any = rules.distribution
            if callable(distribution):
                distribution = "a function"
            facts = {"way": way, "pace": rules.pace, "distribution": distribution, "reads": sorted(rules.reads)}
            facts["draws_steps"] = rules.draws_steps
    return _described(entry, facts)


def schedule(schedule: Annotated[str | None, "SCHEDULE"] = None, /, *, steps: int = 8) -> Answer:
    """Describe a schedule: its options, and the fraction that each step reveals.

    Examples:
        unmask show schedule
        unmask show schedule "polynomial(power=3)" --steps 4 --json

    Args:
        schedule: Name of a schedule, optionally with options in brackets.
        steps: Number of steps for which the fractions are printed, unless a language is needed to fit them.
    """
    from unmask.samplers.schedules import SCHEDULES, deltas, is_fitted

    if schedule is None:
        return _listed({"schedules": SCHEDULES})
    name = parse("schedule", schedule)[0]
    fitted, delta = is_fitted(name), None
    if not fitted:
        delta = deltas(schedule, steps).tolist()
    return _described(SCHEDULES.entry(name), {"fitted": fitted, "steps": steps, "delta": delta})


def model(model: Annotated[str | None, "MODEL"] = None, /) -> Answer:
    """Describe an open model: its tokens, its attention, how to run it, known issues.

    Examples:
        unmask show model
        unmask show model llada-8b-instruct
        unmask show model my-card.json

    Args:
        model: Name of an open model, a repository, a directory, or a JSON file with your own card.
    """
    import msgspec

    from unmask.models.open import CARDS, described

    if model is None:
        lines = [(name, f"{one.repository}, {one.attention}, {one.licence}") for name, one in sorted(CARDS.items())]
        return Answer(mapped(msgspec.to_builtins, CARDS), lines)
    card = described(model)
    tokens = given(msgspec.to_builtins(card.tokens))
    rows: list[tuple[str, str]] = [
        ("repository", card.repository),
        ("revision", card.revision or "the newest"),
        ("licence", card.licence),
        ("family", card.family),
        ("attention", card.attention),
        ("predicts", PREDICTS.get(card.prediction, "the next position's token")),
        ("context", f"{card.context} tokens"),
        ("special tokens", ", ".join(starmap("{} {}".format, tokens.items()))),
    ]
    if any(card.frame):
        rows.append(("frame", " .. ".join(" ".join(map(str, part)) for part in card.frame)))
    if card.banned:
        rows.append(("banned tokens", ", ".join(map(str, card.banned))))
    rows.append(("chat template", card.template or "none: a base model"))
    for recipe in card.recipes:
        rows.append((f"recipe: {recipe.name}", f"{recipe.options} ({recipe.source})"))
    if card.issue:
        rows.append(("known issue", card.issue))
    return Answer(msgspec.to_builtins(card), rows)


def task(task: Annotated[str | None, "TASK"] = None, /, *, data: File = None) -> Answer:
    """Describe a task: its options, its items, the first question.

    Examples:
        unmask show task
        unmask show task "lists(operation=sort)"

    Args:
        task: Name of a task, with options.
        data: File of the items, for a task of your own that reads one.
    """
    from unmask.tasks import TASKS

    if task is None:
        return _listed({"tasks": TASKS})
    known = TASKS.make(task)
    items = known.items(data)
    more = {
        "tokens of an answer": known.length,
        "stop strings": list(known.until),
        "items from": known.source,
        "items": len(items),
        "first question": known.prompt(items[0]),
    }
    return _described(TASKS.entry(parse("task", task)[0]), more)


def job(job: Annotated[str | None, "JOB"] = None, /) -> Answer:
    """Describe a job of sweeps: the fields of its cells, and its metrics.

    Examples:
        unmask show job
        unmask show job my_module:my_job --json

    Args:
        job: Name of a job, or package.module:function.
    """
    from unmask.experiments.cell import JOBS, find

    if job is None:
        return _listed({"jobs": JOBS})
    known = find(job)
    return _described(JOBS.entry(job), {"merges": known.merges, "lasts": known.lasts})


def doctor() -> Answer:
    """Show versions, devices and extras, for a question or the report of a bug.

    Examples:
        unmask doctor
        unmask doctor --json
    """
    import platform
    from importlib.metadata import requires

    from unmask.core.files import version

    needs = re.findall(r"^([\w.-]+).*; extra == [\"'](.+)[\"']", "\n".join(requires("unmask") or ()), re.MULTILINE)
    versions = {
        **{name: version(name) for name in ("unmask", "torch", "numpy", "scipy", "numba")},
        "python": platform.python_version(),
    }
    extras = dict[str, bool]()
    for package, name in needs:
        if name not in LEFT_OUT:
            extras[name] = extras.get(name, True) and version(package) is not None
    missing = [name for name, installed in extras.items() if not installed]
    devices = _devices()
    lines = [
        ("versions", ", ".join(starmap("{} {}".format, versions.items()))),
        ("devices", devices),
        ("extras", ", ".join(without(extras, missing)) or "none"),
    ]
    if missing:
        lines.append(("not installed", f"{', '.join(missing)}: pip install 'unmask[NAME]'"))
    return Answer({"versions": versions, "devices": devices, "extras": extras}, lines)


def _devices() -> str:
    try:
        import torch
    except Exception as error:  # this command is for users who have a problem already
        return f"unknown: {type(error).__name__}: {' '.join(str(error).split())}"
    names = [torch.cuda.get_device_properties(number).name for number in range(torch.cuda.device_count())]
    return ", ".join(["cpu", *(f"cuda:{at} {name}" for at, name in enumerate(names))])


def _listed(registries: Mapping[str, Registry[Any]]) -> Answer:
    """Return all names of registries; each maps to {about, specification, options, needed, code}."""
    text: list[tuple[str, str] | Grid | str] = []
    listed = {}
    for kind, registry in registries.items():
        if text:
            text += ["", f"{kind}:"]
        entries = list(map(registry.entry, sorted(registry.names())))
        text += map(attrgetter("name", "about"), entries)
        listed[kind] = dict(zip(column(entries, "name"), map(Entry.to_dict, entries), strict=True))

    if len(listed) == 1:
        return Answer(listed[kind], text)
    return Answer(listed, text)


def _described(entry: Entry, more: Mapping[str, Any]) -> Answer:
    """Return the name with its options, its documentation, and other facts."""
    if entry.maker is None:
        raise UnmaskError(f"{entry.name} is {entry.about}")
    text: list[tuple[str, str] | Grid | str] = [
        entry.specification,
        "",
        *entry.documentation.splitlines(),
        "",
        *rows_of({**more, "code": entry.origin}),
    ]
    return Answer({"name": entry.name, **entry.to_dict(), "documentation": entry.documentation} | dict(more), text)


command = {
    "language": language,
    "sampler": sampler,
    "schedule": schedule,
    "model": model,
    "task": task,
    "job": job,
}
