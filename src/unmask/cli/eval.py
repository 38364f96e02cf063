"""unmask eval run|check|show|compare|export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from unmask.cli.options import Count, Counts, File, Number, Switch, Text, Word
from unmask.core.run import Loading

if TYPE_CHECKING:
    from unmask.experiments.evaluation import Evaluation, Group
    from unmask.experiments.evaluation.published import Published
    from unmask.sandbox import Sandbox

Models = Annotated[str | None, "MODEL"]
Names = Annotated[tuple[str, ...], "NAME"]
Numbers = Annotated[tuple[float, ...], "X"]
Records = Annotated[Path, "RECORDS"]
Filters = Annotated[tuple[str, ...], "NAME=VALUE"]
OUT = Path("eval")
SHOWN = 5  # samples that are wrong for a reason


@dataclass(frozen=True)
class Writing:
    """How a model writes.

    Args:
        sampler: Names of `unmask list samplers`; llada for a masked model, from left to right for an AR model.
        steps: Numbers of rounds N; one for each token if not given.
        schedule: A name of `unmask list schedules`.
        length: Tokens of an answer at most; the task's own number if not given.
        eos: stop, fill, never or last: what becomes of the model's end (docs/open-models.md).
        no_until: Go on where the task's answers end, as behind the next question.
        temperature: Of every marginal; the likeliest tokens are taken if not given.
        top_p: The share of a marginal that is kept, the most likely tokens first.
        top_k: How many tokens of a marginal are kept.
        guidance: Classifier-free guidance by the prompt, at twice the evaluations.
        chat: The question is what a user says, in the model's own template.
        system: What the system says before it.
    """

    sampler: Names = ()
    steps: Counts = ()
    schedule: Annotated[str, "NAME"] = "linear"
    length: Counts = ()
    eos: Names = ()
    no_until: Switch = False
    temperature: Numbers = ()
    top_p: Number = None
    top_k: Count = None
    guidance: float = 0.0
    chat: Switch = False
    system: Text = None


def run(
    *,
    task: Annotated[str | None, "TASK"] = None,
    model: Models = None,
    recipe: Word = None,
    causal_model: Models = None,
    data: File = None,
    limit: Count = None,
    each: int = 1,
    by: Writing = Writing(),
    out: Path = OUT,
    batch: int = 8,
    until_decided: Number = None,
    allow_code_execution: Switch = False,
    unconfined: Switch = False,
    loading: Loading = Loading(),
    causal_card: Word = None,
    seed: int = 0,
    engine: Literal["local", "ray", "here"] = "local",
    workers: int = 1,
    address: Annotated[str | None, "HOST:PORT"] = None,
    dry_run: Switch = False,
    json: Switch = False,
) -> None:
    """Let a model write answers: how many are right, and what they cost.

    Examples:
        unmask eval --model smollm2-135m-instruct --task sudoku --limit 20
        unmask eval --model llada-8b-base --causal-model Qwen/Qwen2.5-7B \\
            --task gsm8k --data gsm8k_test.jsonl --steps 64 128 256
        unmask eval --model llada-8b-base --task humaneval --steps 128 512 \\
            --allow-code-execution
        unmask eval --model llada-8b-base --task sums --eos stop last --dry-run
        unmask eval run --recipe llada-gsm8k-semi-ar --until-decided 0.02

    Of options with several values every combination is measured; an AR model is
    measured beside them. Each sample leaves one record, in OUT/records.jsonl: its
    prompt, tokens, order, evaluations, time, text and verdict. What is there is not
    written again: the same command goes on where it was stopped, and a larger
    --limit adds to it.

    Programs are run in a sandbox, and only with --allow-code-execution; it says
    what it confines (docs/security.md).

    Args:
        task: A name of `unmask list tasks`, with options: "gsm8k(shots=5, draw=lm-eval)".
        model: A name of `unmask list models`, a repository, or a directory with its files.
        recipe: A published evaluation, by name: its model, task and options, where you say no others.
        causal_model: An AR model, measured in the same run; what speculative samplers ask.
        data: The file of the items, where it is not in the directory that UNMASK_DATA names.
        limit: Items, the first of them; all if not given.
        each: Samples of an item, for pass@k; they need a temperature.
        out: A directory for the records; made if it is not there.
        batch: Rows that are written together, and at most lost when it is stopped.
        until_decided: Stop as soon as every accuracy is known to within this, as 0.02.
        allow_code_execution: Run generated programs, confined as well as this machine can.
        unconfined: Also where it can confine them by limits and a session alone.
        causal_card: Which the AR model is.
        seed: Of the luck.
        engine: Processes of this machine, tasks of a Ray cluster, or this process alone.
        workers: How many at a time, each with the model.
        address: A Ray cluster that runs already; "auto" finds it.
        dry_run: Say what it will take, and stop.
        json: Print one JSON object instead of a table.
    """
    from unmask.core.errors import UnmaskError
    from unmask.experiments.evaluation import Settings, evaluate
    from unmask.experiments.evaluation.published import named
    from unmask.tasks import TASKS

    if unconfined and not allow_code_execution:
        raise UnmaskError("--unconfined is about programs, which need --allow-code-execution")
    said = {name: getattr(by, name) for name in by.__dataclass_fields__ if name != "no_until"}
    said |= asdict(loading) | {"seed": seed}
    said |= {
        "causal_model": causal_model,
        "causal_card": causal_card,
        "each": each,
        "batch": batch,
        "limit": limit,
        "until": not by.no_until,
    }
    if recipe is not None:
        model, task, said = _as_published(named(recipe), model, task, said)
    if task is None or model is None:
        missing = "--task" if task is None else "--model"
        raise UnmaskError(
            f"unmask eval needs {missing}; `unmask list tasks` and `unmask list models` say which there are"
        )
    kind = TASKS.make(task).kind
    if kind == "programs" and not (allow_code_execution or dry_run):
        raise UnmaskError(f"the answers of {task} are programs that are to be run; allow it: --allow-code-execution")
    settings = Settings(task=task, model=model, data=None if data is None else str(data), **said)
    if dry_run:
        _plan(settings, out, json)
        return
    with _sandbox(allow_code_execution and kind == "programs", unconfined) as sandbox:
        how: dict[str, Any] = {"engine": engine, "workers": workers, "address": address, "until_decided": until_decided}
        _tell(evaluate(settings, out=out, sandbox=sandbox, **how), json)


def show(records: Records, /, *, wrong: Switch = False, json: Switch = False) -> None:
    """Show what an evaluation has found, and some wrong answers.

    Examples:
        unmask eval show eval
        unmask eval show eval --wrong
        unmask eval show eval/records.jsonl --json

    Args:
        records: A directory of `unmask eval`, or its records.jsonl.
        wrong: Show, of each setting, some answers that are wrong, and why.
        json: Print one JSON object instead of tables.
    """
    from unmask.experiments.evaluation import Evaluation, labels, read

    found = Evaluation(records, read(records))
    _tell(found, json)
    if wrong and not json:
        for label, group in zip(labels(found.groups), found.groups, strict=True):
            _show_wrong(label, group)


def check(
    store: Annotated[Path, "STORE"],
    /,
    *,
    reading: Annotated[str | None, "TASK"] = None,
    allow_code_execution: Switch = False,
    unconfined: Switch = False,
    json: Switch = False,
) -> None:
    """Hold what has been written against the truth, once more.

    Examples:
        unmask eval check eval --reading "gsm8k(answer_by=strict)"
        unmask eval check sweeps/code --allow-code-execution

    As after `unmask sweep run`, or with another way of reading answers. Nothing is
    written anew but STORE/records.jsonl.

    Args:
        store: A directory of `unmask eval`, or of a sweep of the metric `evaluation`.
        reading: A task with options that say how its answers are read.
        allow_code_execution: Run generated programs, confined as well as this machine can.
        unconfined: Also where it can confine them by limits and a session alone.
        json: Print one JSON object instead of tables.
    """
    from unmask.experiments.evaluation import check as checked

    with _sandbox(allow_code_execution, unconfined) as sandbox:
        _tell(checked(store, sandbox=sandbox, reading=reading), json)


def compare(
    first: Records, second: Records, /, *, first_is: Filters = (), second_is: Filters = (), json: Switch = False
) -> None:
    """Say which of two ways is better on the same items, if it can be said.

    Examples:
        unmask eval compare block-8 block-256
        unmask eval compare eval eval --first-is steps=64 --second-is steps=256
        unmask eval compare eval eval --first-is model=llada-8b-base steps=64 \\
            --second-is model=qwen2.5-7b --json

    With one sample an item it is McNemar's exact test, with several the interval of
    the mean difference over items; the level is 5%. Where it cannot be said, it is
    said how many items would tell.

    Args:
        first: A directory of `unmask eval`, or its records.jsonl.
        second: Another, or the same.
        first_is: Which setting of the first, where it has several: names and values as its table has them.
        second_is: Which setting of the second.
        json: Print one JSON object instead of a sentence.
    """
    from unmask.cli.output import say
    from unmask.cli.output import show as put
    from unmask.experiments.evaluation import compare as compared
    from unmask.experiments.evaluation import labels, read

    one, other = _only(read(first), first_is, "--first-is"), _only(read(second), second_is, "--second-is")
    found = compared(one.samples, other.samples)
    names = labels([one, other])
    if names[0] == names[1]:
        names = [str(first), str(second)]
    if json:
        put({"first": names[0], "second": names[1]} | found.to_dict(), True)
        return
    say(found.sentence(*names))
    how = "an interval over items" if found.p is None else f"p = {found.p:.2g} by McNemar's exact test"
    alone = f"{found.first_alone} items for the first alone, {found.second_alone} for the second"
    say(f"{found.first:.1%} and {found.second:.1%}; {alone}; {how}")


def export(records: Records, /, *, format: Literal["lm-eval", "evalplus"], out: Path, json: Switch = False) -> None:
    """Write records as lm-eval or EvalPlus have them.

    Examples:
        unmask eval export eval --format lm-eval --out samples
        unmask eval export eval --format evalplus --out programs

    One file a setting.

    Args:
        records: A directory of `unmask eval`, or its records.jsonl.
        format: lm-eval, its samples_TASK.jsonl; evalplus, {"task_id", "solution"} a line.
        out: A directory for the files; made if it is not there.
        json: Print one JSON object instead of the names of the files.
    """
    from unmask.cli.output import say
    from unmask.cli.output import show as put
    from unmask.experiments.evaluation import groups, read
    from unmask.experiments.evaluation.exports import write

    made = write(groups(read(records)), format, out)
    if json:
        put({"files": [str(path) for path in made]}, True)
        return
    for path in made:
        say(str(path))


def _as_published(
    recipe: Published, model: str | None, task: str | None, said: dict[str, Any]
) -> tuple[str, str, dict[str, Any]]:
    """A recipe where nothing else was said."""
    from unmask.experiments.evaluation.settings import SWEPT

    told = {name: (value,) if name in SWEPT else value for name, value in recipe.options.items()}
    return model or recipe.model, task or recipe.task, said | {name: said[name] or told[name] for name in told}


def _plan(settings: Any, out: Path, json: bool) -> None:
    """What it would take, cell by cell."""
    from unmask.cli.output import show as put
    from unmask.cli.output import show_grid
    from unmask.cost.needs import look, needs
    from unmask.experiments.evaluation.run import plan
    from unmask.experiments.jobs.cells import cells_of, check
    from unmask.tasks import TASKS

    cells = cells_of(plan(settings, out, settings.items))
    check(cells)
    rows, found = [], []
    for cell in cells:
        spec = cell.spec
        card, shaped = look(spec["model"], spec["card"], spec["cache"])
        length = spec["length"] or TASKS.make(spec["task"]).length
        size = min(2 * length, card.context)
        how = (spec["device"], spec["dtype"], spec["quantize"])
        need = needs(card, shaped, *how, spec["batch"], size, spec["steps"] or length)
        named = {name: spec[name] for name in ("sampler", "steps", "eos", "first_row", "rows")}
        found.append(
            {"model": card.name}
            | named
            | {"memory": need["memory"]["all"], "fits": need["fits"], "seconds_about": cell.cost}
        )
        seconds = f"{cell.cost:.3g}"
        shown = [
            spec["sampler"] or "as usual",
            spec["steps"] or length,
            spec["rows"],
            need["memory"]["all"],
            need["fits"],
            seconds,
        ]
        rows.append([card.name, *map(str, shown)])
    total = sum(cell.cost for cell in cells)
    if json:
        put({"task": settings.task, "items": settings.items, "cells": found, "seconds_about": total}, True)
        return
    head = ["model", "sampler", "steps", "samples", "memory", "fits", "seconds, about"]
    show_grid(f"{settings.task}: {settings.items} items, about {total:.3g} s in all", head, rows)


def _tell(found: Evaluation, json: bool) -> None:
    from unmask.cli.output import say, show_grid
    from unmask.cli.output import show as put
    from unmask.experiments.evaluation.table import summary, table

    if json:
        put({"records": str(found.directory), "settings": summary(found.groups)}, True)
        return
    tasks: dict[str, list[Group]] = {}
    for group in found.groups:
        tasks.setdefault(group.settings["task"], []).append(group)
    for own in tasks.values():
        for title, head, rows in table(own):
            show_grid(title, head, rows)
    say(f"{found.directory}")


def _show_wrong(label: str, group: Group) -> None:
    from unmask.cli.chat import printable

    print(f"{label}: {', '.join(f'{why}: {count}' for why, count in group.reasons.items())}")
    for sample in [sample for sample in group.samples if sample.why][:SHOWN]:
        text = " ".join(printable(sample.text).split())
        print(f"  {sample.item}: {sample.why}; answer {sample.answer!r:.80}; ..{text[-160:]}")
    print()


def _only(samples: Sequence[Any], filters: Sequence[str], flag: str) -> Group:
    """The one setting of records that is meant."""
    from unmask.core.errors import UnmaskError
    from unmask.experiments.evaluation import groups, labels

    wanted = {}
    for text in filters:
        name, equals, value = text.partition("=")
        if not equals:
            raise UnmaskError(f"{flag} is {text!r}; write NAME=VALUE, as steps=64")
        wanted[name] = value
    found = groups(samples)
    kept = [group for group in found if all(str(group.settings.get(name)) == value for name, value in wanted.items())]
    if len(kept) != 1:
        what = "none of its settings is that" if not kept else f"{len(kept)} of its settings are that"
        raise UnmaskError(f"{what}; say which by {flag}: {'; '.join(labels(found))}")
    return kept[0]


@contextmanager
def _sandbox(allowed: bool, unconfined: bool) -> Iterator[Sandbox | None]:
    if not allowed:
        yield None
        return
    from unmask.core import progress
    from unmask.sandbox import Sandbox

    with Sandbox.strongest("unconfined" if unconfined else "confined") as sandbox:
        progress.note(f"programs run in a sandbox of level {sandbox.level}: {sandbox.name}")
        yield sandbox


command = {"run": run, "check": check, "show": show, "compare": compare, "export": export}
