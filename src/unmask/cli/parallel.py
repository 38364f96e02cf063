"""unmask parallel run|read|compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Count, Measuring, Number, Switch, Word
from unmask.core.run import Loading

if TYPE_CHECKING:
    from unmask.tasks.parallel import Setting

Paths = Annotated[tuple[Path, ...], "PATH"]
Thresholds = Annotated[tuple[float, ...], "X"]


def run(
    *,
    model: Annotated[str, "MODEL"] = "ideal",
    tasks: Annotated[tuple[str, ...], "TASK"] = (),
    samplers: Annotated[tuple[str, ...], "SAMPLER"] = (),
    tokens: Annotated[str, "TOKENS"] = "words",
    items: Count = None,
    each: int = 1,
    temperature: Number = None,
    chat: Switch = False,
    quick: Switch = False,
    out: Path = Path("parallel"),
    batch: int = 8,
    loading: Loading = Loading(),
    seed: int = 0,
    dry_run: Switch = False,
    by: Measuring = Measuring(),
) -> Answer:
    """Measure a model on tasks of parallel decoding, with the ceiling of each sampler.

    Examples:
        unmask parallel run --quick
        unmask parallel --samplers low-confidence "threshold(threshold=[0.5, 0.9])"
        unmask parallel --model llada-8b-instruct --chat --tokens llada-8b-instruct
        unmask parallel --model dream-v0-instruct-7b --quick --dry-run

    The tasks, samplers and settings are those of ParallelBench: ten operations on
    lists of names, Latin squares and sudokus. The exact denoiser of each task
    answers them, too, with the same samplers. It knows all right answers, so its
    accuracy is the ceiling of a sampler. Errors below the ceiling are due to the
    model, the others to the sampler. The default, ideal, measures ceilings only.

    OUT/index.html shows the accuracy of each task, tokens per step in three ways,
    and PBx with intervals. After an interruption, the same command resumes; a
    larger --items adds items. OUT/sweep/records.jsonl has all answers.

    Args:
        model: Open model: a name of `unmask list models`, or a directory; ideal, the exact denoiser.
        tasks: Names of `unmask list tasks`, with options, whose right answers are listed. (default: twelve tasks;
            with --quick, five)
        samplers: Samplers; a list of values of an option measures each. (default: the eleven of ParallelBench)
        tokens: Tokens of the exact denoiser: words, names, characters, or the open model whose tokenizer it has.
        items: Number of items of each task. (default: 100; with --quick, 20)
        each: Samples of each item.
        temperature: Sampling temperature. (default: 0 for open models, else 1)
        chat: Format the question as a user message with the model's chat template.
        quick: Fewer tasks, items and settings.
        out: Directory of the page, its numbers and the store; created if missing.
        batch: Batch size of an open model.
        dry_run: Print the number of answers and the time of a model, and stop.
    """
    from unmask.cli.output import say, show_grid
    from unmask.report.pages import PARALLEL
    from unmask.report.publishing import publish
    from unmask.tasks.parallel.run import Settings, planned

    what = (model, tasks, samplers, tokens, items, each, quick)
    settings = Settings(*what, temperature=temperature, chat=chat, batch=batch, loading=loading, seed=seed)
    if dry_run:
        rows = planned(settings)
        head = ["model", "settings", "answers", "seconds, about"]
        return Answer(
            {"models": rows}, lambda: show_grid("Plan", head, [[str(one) for one in row.values()] for row in rows])
        )
    published = publish(PARALLEL, settings, out, **by.options("cpu" if settings.exact else loading.device))

    def text() -> None:
        for suite in published.measured:
            if suite.swept:
                show_grid(*suite.pbx())
            show_grid(*suite.by_task())
        say(str(out / published.page.name))

    about = {"page": str(published.page), "seconds": published.seconds}
    return Answer(about | {"suites": [suite.to_dict() for suite in published.measured]}, text)


def read(paths: Paths, /, *, thresholds: Thresholds = (80.0, 75.0, 70.0), tasks: Switch = False) -> Answer:
    """Score results of parallel decoding: PBx, tokens per step, and their intervals.

    Examples:
        unmask parallel read results.csv
        unmask parallel read eval --thresholds 90 80 --tasks
        unmask parallel read site/data --json

    PATH is a file of items (.csv or .jsonl), a directory of them, records of
    `unmask eval`, or the directory `data` of ParallelBench's site. A line of items
    has item, right (0 to 1) and calls (model calls), and may have canvas, written,
    task, setting, sampler and model. Intervals are over resampled items, the same
    for all samplers. Messages name scores that chance or the list of settings
    decides.

    Args:
        paths: Files or directories with results.
        thresholds: Scores x of PBx, in percent.
        tasks: Also print the accuracy of each setting on each task.
    """
    from unmask.cli.output import say, show_grid
    from unmask.core import arguments
    from unmask.tasks.parallel.published import read as published
    from unmask.tasks.parallel.table import suites

    for threshold in thresholds:
        arguments.number("--thresholds", threshold, 0.0, 100.0, above=True)
    every = suites(published(paths), thresholds)

    def text() -> None:
        for suite in every:
            if suite.swept:
                show_grid(*suite.pbx())
            show_grid(*suite.by_setting())
            if tasks:
                show_grid(*suite.by_task())
            say(*suite.messages, "")

    return Answer({"suites": [suite.to_dict() for suite in every]}, text)


def compare(paths: Paths, /, *, first: str, second: str, model: Word = None, speed: Number = None) -> Answer:
    """Test which of two samplers is better on the same items, over all their settings.

    Examples:
        unmask parallel compare results.csv --first wino --second klass
        unmask parallel compare eval --first threshold --second confidence --speed 4

    The rule is that of `unmask board compare`, with items in place of sequences:
    the mean difference over log2 of model calls, and a band that holds at all costs
    together. Model calls are those for a canvas as large as the largest one.

    Args:
        paths: Files or directories with results.
        first: Name of a sampler in the results.
        second: Name of the other sampler.
        model: Model, if the results have several.
        speed: Also compare at these tokens per model call, by a line between two settings.
    """
    from unmask.cli.output import say
    from unmask.core import arguments
    from unmask.experiments.board.compare import Versus
    from unmask.tasks.parallel import settings
    from unmask.tasks.parallel.published import read as published
    from unmask.tasks.parallel.versus import at_speed, versus

    if speed is not None:
        arguments.number("--speed", speed, above=True)
    every = settings(published(paths).outcomes)
    pair = [_of_sampler(every, name, model) for name in (first, second)]
    difference = versus(*pair)
    result: dict[str, Any] = {"first": first, "second": second} | difference.to_dict()
    lines = [Versus(pair[0][0].model, None, None, difference).sentence(first, second)]
    if speed is not None:
        at = at_speed(pair[0], pair[1], speed)
        result |= {"at_speed": {"speed": speed} | at.to_dict()}
        lines.append(f"At {speed:g} tokens per model call: {at.sentence(first, second)}.")
    return Answer(result, lambda: say(*lines))


def _of_sampler(every: list[Setting], name: str, model: str | None) -> list[Setting]:
    """Return the settings of a sampler, of the only model or the chosen one."""
    from unmask.core.errors import UnmaskError, listed, unknown

    of_model = [one for one in every if model in (None, one.model)]
    if not of_model:
        raise unknown("model", str(model), {one.model for one in every})
    own = [one for one in of_model if one.sampler == name]
    if not own:
        raise unknown("sampler", name, {one.sampler for one in of_model})
    if len(models := sorted({one.model for one in of_model})) > 1:
        raise UnmaskError(f"the results have {len(models)} models: {listed(models)}; choose one with --model")
    return own


command = {"run": run, "read": read, "compare": compare}
