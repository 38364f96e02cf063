"""unmask show language|sampler|schedule|model|task|job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.list import summary
from unmask.cli.options import Answer, Count, Counts, File, Name

if TYPE_CHECKING:
    from unmask.core.registry import Entry
    from unmask.samplers import Sampler

SHOWN = 60  # tokens of an example
PACES = {
    "counts": "reveals the schedule's number of tokens in each step",
    "steps": "reveals its own number of tokens in each step, within N steps",
    "free": "continues until no token is hidden; steps and schedule are unused, or only a limit",
}
DISTRIBUTIONS = {
    "order": "given the order of positions, each token is drawn from the denoiser's marginals",
    "causal": "the distribution of left-to-right sampling, for any number of steps",
    "language": "the distribution of the language, if the denoiser is ideal",
}
WAYS = {
    "order": "fixes the order of positions before it sees a token",
    "choose": "chooses the positions in each step, after a model call",
    "run": "has its own loop",
}


def language(
    language: Name,
    /,
    *,
    length: Count = None,
    steps: Counts = (),
    schedule: str = "linear",
    rows: int = 100,
    seed: int = 0,
) -> Answer:
    """Describe a language: size, entropy, mixing; with --steps, bounds on its errors.

    Examples:
        unmask show language paper-2gram
        unmask show language "sparse-hmm(seed=3)" --length 512 --steps 8 64 512
        unmask show language hmm

    Entropy and token error rate (TER) are those of the language itself at this
    length. The example is the beginning of one of its sequences, at most 60 tokens.
    A kind that needs options is shown with its options.

    Args:
        language: Preset with options, "sparse-hmm(seed=3, pruned=False)", a language file, or a kind.
        length: Length for the entropy and the bounds. (default: 64, or the nearest length that the language has)
        steps: Numbers of steps N for which to print upper bounds on TER, KL and SER.
        schedule: Schedule of these steps; see `unmask list schedules`.
        rows: Number of sequences on which the bounds are measured.
        seed: Random seed of the example and of these sequences.
    """
    import math

    from unmask import languages, metrics
    from unmask.core.arguments import whole
    from unmask.samplers.schedules import Fit, deltas
    from unmask.theory.sampled import information_curve

    if language in languages.LANGUAGES.names() and language not in languages.PRESETS.makers:
        return _of_entry(languages.LANGUAGES.entry(language), {})
    whole("rows", rows)
    known = languages.load(language)
    size = known.nearest_lengths(64)[-1] if length is None else length
    delta = {count: deltas(schedule, count, Fit(known, size)) for count in steps}
    entropy = known.entropy(size)
    result = known.describe() | {
        "length": size,
        "entropy_bits": entropy.map(lambda nats: nats / math.log(2)).to_dict(),
        "ter": None if known.end is not None else metrics.ter_autoregressive(known, size).to_dict(),
        "example": known.render(known.sample(1, size, seed=seed)[0, :SHOWN]),
    }
    if steps:
        curve = information_curve(known, size, rows=rows, seed=seed)
        result["steps"] = {
            str(count): {
                "ter_upper": curve.ter_upper(share).to_dict(),
                "divergence_upper_nats": curve.divergence(share).to_dict(),
                "ser_upper": curve.ser_upper(share).to_dict(),
            }
            for count, share in delta.items()
        }
    return Answer(result)


def sampler(sampler: Annotated[str, "SAMPLER"], /) -> Answer:
    """Describe a sampler: its rule, its options, and the distribution that it claims.

    Examples:
        unmask show sampler blocks
        unmask show sampler my_module:MySampler --json

    Args:
        sampler: Name of `unmask list samplers`, package.module:Name or file.py:Name.
    """
    import inspect
    from contextlib import suppress
    from dataclasses import replace

    from unmask.core.errors import UnmaskError
    from unmask.core.registry import parse
    from unmask.samplers import SAMPLERS

    entry = SAMPLERS.entry(parse("sampler", sampler)[0])
    more: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    if entry.maker is not None:
        rule = inspect.getdoc(inspect.getmodule(entry.maker)) or ""  # the formula and its paper
        entry = replace(entry, documentation=f"{entry.documentation}\n\n{rule}")
        with suppress(UnmaskError):  # it needs options
            more = _facts(SAMPLERS.make(sampler))
    return _of_entry(entry, *more)


def schedule(schedule: Annotated[str, "SCHEDULE"], /, *, steps: int = 8) -> Answer:
    """Describe a schedule: its options, and the fraction that each step reveals.

    Examples:
        unmask show schedule cosine
        unmask show schedule "polynomial(power=3)" --steps 4 --json

    Args:
        schedule: Name of `unmask list schedules`, optionally with options in brackets.
        steps: Number of steps for which the fractions are printed, unless a language is needed to fit them.
    """
    from unmask.core.registry import parse
    from unmask.samplers.schedules import SCHEDULES, deltas, is_fitted

    name = parse("schedule", schedule)[0]
    entry, fitted = SCHEDULES.entry(name), is_fitted(name)
    delta = None if fitted else deltas(schedule, steps).tolist()
    shown = None if delta is None else "[" + ", ".join(f"{share:.4g}" for share in delta) + "]"
    about = {"fitted": fitted, "steps": steps, "delta": delta}
    return _of_entry(entry, about, about | {"delta": shown})


def model(model: Annotated[str, "MODEL"], /) -> Answer:
    """Describe an open model: its tokens, its attention, how to run it, known issues.

    Examples:
        unmask show model llada-8b-instruct
        unmask show model my-card.json

    Args:
        model: Name of `unmask list models`, a repository, or a JSON file with your own card.
    """
    import msgspec

    from unmask.models.open import find

    card = find(model)
    tokens = {name: number for name, number in msgspec.to_builtins(card.tokens).items() if number is not None}
    rows: list[tuple[str, str]] = [
        ("repository", card.repository),
        ("revision", card.revision or "the newest"),
        ("licence", card.licence),
        ("family", card.family),
        ("attention", card.attention),
        ("predicts", "the token at the same position" if card.prediction == "same" else "the next position's token"),
        ("context", f"{card.context} tokens"),
        ("special tokens", ", ".join(f"{name} {number}" for name, number in tokens.items())),
    ]
    rows += [("banned tokens", ", ".join(map(str, card.banned)))] if card.banned else []
    rows += [("chat template", card.template or "none: a base model")]
    rows += [(f"recipe: {recipe.name}", f"{recipe.options} ({recipe.source})") for recipe in card.recipes]
    rows += [("known issue", trap) for trap in card.traps]
    return Answer(msgspec.to_builtins(card), rows)


def task(task: Annotated[str, "TASK"], /, *, data: File = None) -> Answer:
    """Describe a task: its options, its items, the first question.

    Examples:
        unmask show task sudoku
        unmask show task "gsm8k(shots=2)" --data gsm8k_test.jsonl
        unmask show task infill --json

    Args:
        task: Name of `unmask list tasks`, with options.
        data: File of the items. (default: in the directory of the environment variable UNMASK_DATA)
    """
    from unmask.core.registry import parse
    from unmask.tasks import TASKS
    from unmask.tasks.contract import find

    known = TASKS.make(task)
    file = data or find(known.file)
    more = {"tokens of an answer": known.length, "stop strings": list(known.until), "items from": known.source}
    if file is not None or not known.file:
        items = known.items(None if file is None else str(Path(file)))
        more |= {"items": len(items), "first question": known.prompt(items[0])}
    return _of_entry(TASKS.entry(parse("task", task)[0]), more)


def job(job: Annotated[str, "JOB"], /) -> Answer:
    """Describe a job of sweeps: the fields of its cells, and its metrics.

    Examples:
        unmask show job samples
        unmask show job my_module:my_job --json

    Args:
        job: Name of `unmask list jobs`, or package.module:function.
    """
    from unmask.experiments.cell import JOBS, find

    known = find(job)
    more = {"merges": known.merges, "lasts": known.lasts}
    plain = {
        "rows": "measured in blocks and merged" if known.merges else "measured at once",
        "valid for other code versions": known.lasts,
    }
    return _of_entry(JOBS.entry(job), more, plain)


def _facts(sampler: Sampler) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the facts for programs, and for people."""
    way = next(way for way in WAYS if sampler.implements(way))
    distribution = (
        "a function of the denoiser, the length and delta" if callable(sampler.distribution) else sampler.distribution
    )
    facts = {
        "way": way,
        "pace": sampler.pace,
        "distribution": distribution,
        "reads": sorted(sampler.reads),
        "draws_steps": sampler.draws_steps,
    }
    pace = PACES[sampler.pace] if way != "run" else None
    return facts, facts | {
        "way": WAYS[way],
        "pace": pace,
        "distribution": DISTRIBUTIONS.get(distribution or "", distribution),
        "reads": " and ".join(sorted(sampler.reads)),
    }


def _of_entry(entry: Entry, more: Mapping[str, Any], plain: Mapping[str, Any] | None = None) -> Answer:
    """Return the name with its options, its documentation, and other facts. plain: the facts for people."""
    from unmask.cli.output import show
    from unmask.core.errors import UnmaskError

    if entry.maker is None:
        raise UnmaskError(f"{entry.name} is {entry.about}")

    def text() -> None:
        print(f"{entry.specification}\n\n{entry.documentation}\n")
        show({**(more if plain is None else plain), "code": entry.origin}, False)

    return Answer({"name": entry.name, **summary(entry), "documentation": entry.documentation} | dict(more), text)


command = {
    "language": language,
    "sampler": sampler,
    "schedule": schedule,
    "model": model,
    "task": task,
    "job": job,
}
