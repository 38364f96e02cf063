"""unmask eval run|check|show|compare|lm-eval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from unmask.cli.lm_eval import command as lm_eval
from unmask.cli.options import Answer, Assignments, Count, Counts, File, Number, Switch, Text, Word
from unmask.core.run import Loading

if TYPE_CHECKING:
    from unmask.experiments.evaluation import Evaluation, Group

Models = Annotated[str | None, "MODEL"]
Names = Annotated[tuple[str, ...], "NAME"]
Numbers = Annotated[tuple[float, ...], "X"]
Records = Annotated[Path, "RECORDS"]
Filters = Annotated[tuple[str, ...], "NAME=VALUE"]
STORE = Path("eval")
SHOWN = 5  # incorrect answers to print


@dataclass(frozen=True)
class Writing:
    """Options of a model's answers.

    Args:
        sampler: Names of `unmask list samplers`. (default: llada; for AR models autoregressive)
        steps: Numbers of sampling steps N. (default: one for each token)
        schedule: Schedule: a name of `unmask list schedules`.
        length: Largest number of tokens in an answer. (default: the task's own)
        eos: Handling of end-of-text tokens: stop, fill, never or last (docs/evaluate.md).
        until: Do not end an answer at the task's stop strings, for example the next question.
        temperature: Sampling temperatures; 0 means greedy. (default: 0)
        top_k: Keep at most this many tokens.
        chat: Format the question as a user message with the model's chat template.
        system: System message before the question.
    """

    sampler: Names = ()
    steps: Counts = ()
    schedule: Annotated[str, "NAME"] = "linear"
    length: Counts = ()
    eos: Names = ()
    until: Switch = True
    temperature: Numbers = ()
    top_p: Number = None
    top_k: Count = None
    guidance: float = 0.0
    chat: Switch = False
    system: Text = None


@dataclass(frozen=True)
class Server:
    """Options of a model behind a server.

    Args:
        endpoint: Address of a server, to evaluate its model in place of an open model.
        dialect: Protocol: auto, openai-chat, openai-completions, sglang-generate, diffulex or mercury.
        concurrency: Numbers of requests at the same time; each is measured. (default: 1)
        send: Fields of each request, as name=JSON. With seed=N, each item gets its own seed.
        drop: Fields not to send, for example max_tokens.
        timeout: Seconds for one answer.
        prices: JSON file: {"MODEL": {"in": 0.25, "out": 0.75}}, USD per million tokens.
        max_usd: Stop before the next request when the answers have cost this much.
    """

    endpoint: Annotated[str | None, "URL"] = None
    dialect: str = "auto"
    concurrency: Counts = ()
    send: Assignments = ()
    drop: Names = ()
    timeout: float = 600.0
    prices: File = None
    max_usd: Number = None


def run(
    *,
    task: Annotated[str | None, "TASK"] = None,
    model: Models = None,
    causal_model: Models = None,
    data: File = None,
    limit: Count = None,
    each: int = 1,
    by: Writing = Writing(),
    store: Path = STORE,
    batch: int = 8,
    until_decided: Number = None,
    loading: Loading = Loading(),
    server: Server = Server(),
    causal_card: Word = None,
    seed: int = 0,
    engine: Literal["local", "ray", "here"] = "local",
    workers: int = 1,
    address: Annotated[str | None, "HOST:PORT"] = None,
    dry_run: Switch = False,
) -> Answer:
    """Evaluate a model on a task: accuracy, cost and time.

    Examples:
        unmask eval --model HuggingFaceTB/SmolLM2-135M-Instruct --task sudoku --limit 20
        unmask eval --model llada-8b-base --causal-model Qwen/Qwen2.5-7B \\
            --task gsm8k --data gsm8k_test.jsonl --steps 64 128 256
        unmask eval --model llada-8b-base --task sums --eos stop last --dry-run
        unmask eval run --model llada-8b-base --task gsm8k --until-decided 0.02
        unmask eval --endpoint http://127.0.0.1:30000 --task gsm8k \\
            --send temperature=0 stream=true --concurrency 1 8

    For options with several values, every combination is measured, and the AR model
    next to them. STORE/records.jsonl has one record per sample: prompt, tokens,
    order, model calls, time, text and verdict. Existing records are not generated
    again: the same command resumes, and a larger --limit adds samples.

    With --endpoint, the model of a server answers; its key comes from
    UNMASK_API_KEY. Only the fields of --send and max_tokens are sent. If the server
    refuses over 2% of the requests, the command stops with exit code 3
    (docs/endpoints.md).

    Tasks that run programs are those of `unmask eval lm-eval`.

    Args:
        task: Task: a name of `unmask list tasks`, with options: "gsm8k(shots=5, draw=lm-eval)".
        model: Open model: a name of `unmask list models`, a repository, or a directory with its files.
        causal_model: AR model to measure in the same run; speculative samplers use it too.
        data: File of the items. (default: in the directory of the environment variable UNMASK_DATA)
        limit: Number of items, from the first. (default: all)
        each: Samples per item, for pass@k; more than one needs a temperature.
        store: Directory of the records, a store of `unmask sweep`; created if missing.
        batch: Batch size. An interruption loses at most one batch.
        until_decided: Stop when the interval of every accuracy is within plus or minus this value, for example 0.02.
        causal_card: Model card of the AR model, if its directory does not identify it.
        engine: Processes on this machine (local), tasks on a Ray cluster (ray), or this process only (here).
        workers: Number of processes or tasks, each with the model.
        address: Address of a running Ray cluster; "auto" finds it.
        dry_run: Print the memory and the time of each cell, and stop.
    """
    from unmask.core.errors import UnmaskError
    from unmask.experiments.evaluation import Settings, evaluate

    options = asdict(by) | asdict(loading) | {"causal_model": causal_model, "causal_card": causal_card}
    options |= {"each": each, "batch": batch, "limit": limit, "seed": seed}
    if server.endpoint is not None:
        if task is None:
            raise UnmaskError("unmask eval needs --task. See `unmask list tasks`")
        own = Writing(length=by.length, system=by.system, until=by.until)
        if by != own or causal_model or until_decided or dry_run or loading != Loading():
            expected = "expected --length, --system and --no-until; other fields of a request are --send NAME=JSON"
            raise UnmaskError(f"the options of a model on disk do not apply to --endpoint; {expected}")
        remote = {"task": task, "model": model, "data": None if data is None else str(data), "limit": limit}
        remote |= {"each": each, "length": by.length[0] if by.length else None, "system": by.system}
        return _remote(server, remote | {"until": by.until}, store)
    if task is None or model is None:
        missing = "--task" if task is None else "--model"
        raise UnmaskError(f"unmask eval needs {missing}. See `unmask list tasks` and `unmask list models`")
    settings = Settings(task=task, model=model, data=None if data is None else str(data), **options)
    if dry_run:
        return _plan(settings, store)
    how: dict[str, Any] = {"engine": engine, "workers": workers, "address": address, "until_decided": until_decided}
    return _answer(evaluate(settings, out=store, **how))


def show(records: Records, /, *, wrong: Switch = False, too_long_is_wrong: Switch = False) -> Answer:
    """Show the results of an evaluation, and some incorrect answers.

    Examples:
        unmask eval show eval
        unmask eval show eval --wrong
        unmask eval show eval/records.jsonl --json

    Args:
        wrong: Print some incorrect answers of each setting, with the reason.
        too_long_is_wrong: Count a prompt that is too long as an incorrect answer.
    """
    from unmask.experiments.evaluation import Evaluation, labels, read

    evaluation = Evaluation(records, read(records), too_long_is_wrong)

    def text() -> None:
        _print(evaluation)
        for label, group in zip(labels(evaluation.groups), evaluation.groups, strict=True):
            _show_wrong(label, group)

    answer = _answer(evaluation)
    return answer._replace(text=text) if wrong else answer


def check(
    store: Annotated[Path, "STORE"],
    /,
    *,
    reading: Annotated[str | None, "TASK"] = None,
) -> Answer:
    """Check the existing answers of an evaluation again.

    Examples:
        unmask eval check eval --reading "gsm8k(answer_by=strict)"
        unmask eval check sweeps/gsm8k

    Use it after `unmask sweep run`, or to read the answers in another way. No
    answer is generated; only STORE/records.jsonl changes.

    Args:
        store: Directory of `unmask eval`, or of a sweep with the job `evaluation`.
        reading: Task with the options that read its answers.
    """
    from unmask.experiments.evaluation import check as checked

    return _answer(checked(store, reading=reading))


def compare(first: Records, second: Records, /, *, first_is: Filters = (), second_is: Filters = ()) -> Answer:
    """Test which of two settings has the higher accuracy on the same items.

    Examples:
        unmask eval compare block-8 block-256
        unmask eval compare eval eval --first-is steps=64 --second-is steps=256
        unmask eval compare eval eval --first-is model=llada-8b-base steps=64 \\
            --second-is model=qwen2.5-7b --json

    With one sample per item, the test is McNemar's exact test; with several, the
    interval of the mean difference over items. The level is 5%. If the difference
    is not significant, the output estimates the number of items that are needed.

    Args:
        first: Directory of `unmask eval`, or its records.jsonl.
        second: Directory or records of the second setting; may be the same.
        first_is: First setting, if there are several: names and values of its table.
        second_is: Second setting, if there are several.
    """
    from unmask.cli.output import say
    from unmask.experiments.evaluation import compare as compared
    from unmask.experiments.evaluation import labels, read

    one, other = _only(read(first), first_is, "--first-is"), _only(read(second), second_is, "--second-is")
    result = compared(one.counted, other.counted)
    names = labels([one, other])
    if names[0] == names[1]:
        names = [str(first), str(second)]
    how = "an interval over items" if result.p is None else f"p = {result.p:.2g}, McNemar's exact test"
    only = f"{result.first_alone} items correct with the first only, {result.second_alone} with the second only"
    counted = f"accuracy {result.first:.1%} and {result.second:.1%}; {only}; {how}"
    about = {"first": names[0], "second": names[1]} | result.to_dict()
    return Answer(about, lambda: say(result.sentence(*names), counted))


def _remote(server: Server, options: dict[str, Any], store: Path) -> Answer:
    """Evaluate the model of a server."""
    from unmask.core import progress
    from unmask.core.errors import UnmaskError
    from unmask.core.reading import from_json
    from unmask.endpoint import Limits
    from unmask.experiments.evaluation.remote import Remote, evaluate_endpoint

    send: dict[str, Any] = {}
    for word in server.send:
        name, equals, value = word.partition("=")
        if not equals:
            raise UnmaskError(f"--send is {word!r}; expected NAME=JSON, for example temperature=0.5")
        send[name] = from_json(value, Any, f"--send {name}")
    seed = send.pop("seed", None)
    options |= {"send": send | dict.fromkeys(server.drop), "seed": seed, "prices": server.prices}
    options |= {"limits": Limits(total=server.timeout)}
    options |= {"dialect": server.dialect, "concurrency": server.concurrency or (1,), "max_usd": server.max_usd}
    evaluation, runs = evaluate_endpoint(Remote(server.endpoint or "", **options), store)
    if runs[-1].stopped:
        progress.note(f"unmask eval: stopped; {runs[-1].stopped}")
    answer = _answer(evaluation)
    result = dict(answer.result) | {"runs": [asdict(run) for run in runs]}
    return Answer(result, answer.text, status=3 if runs[-1].refused else 0)


def _plan(settings: Any, out: Path) -> Answer:
    """Return the memory and the time of each cell."""
    from unmask.cli.output import show_grid
    from unmask.cost.needs import look, needs
    from unmask.experiments.evaluation.run import plan
    from unmask.experiments.sweeps.cells import cells_of, check
    from unmask.tasks import TASKS

    cells = cells_of(plan([settings], out))
    check(cells)
    rows, records = [], []
    for cell in cells:
        spec = cell.spec
        card, shaped = look(spec["model"], spec["card"], spec["cache"])
        length = spec["length"] or TASKS.make(spec["task"]).length
        size = min(2 * length, card.context)
        how = (spec["device"], spec["dtype"])
        need = needs(card, shaped, *how, spec["batch"], size, spec["steps"] or length)
        named = {name: spec[name] for name in ("sampler", "steps", "eos", "first_row", "rows")}
        memory, fits = need["memory"]["all"], need["fits"]
        records.append({"model": card.name} | named | {"memory": memory, "fits": fits, "seconds_about": cell.cost})
        shown = [spec["sampler"] or "default", spec["steps"] or length, spec["rows"], memory, fits, f"{cell.cost:.3g}"]
        rows.append([card.name, *map(str, shown)])
    total = sum(cell.cost for cell in cells)
    head = ["model", "sampler", "steps", "samples", "memory", "fits", "seconds, about"]
    title = f"{settings.task}: {settings.items} items, about {total:.3g} s in total"
    result = {"task": settings.task, "items": settings.items, "cells": records, "seconds_about": total}
    return Answer(result, lambda: show_grid(title, head, rows))


def _answer(evaluation: Evaluation) -> Answer:
    from unmask.experiments.evaluation.table import summary

    result = {"records": str(evaluation.directory), "settings": summary(evaluation.groups)}
    return Answer(result, lambda: _print(evaluation))


def _print(evaluation: Evaluation) -> None:
    from unmask.cli.output import say, show_grid
    from unmask.experiments.evaluation.summary import labels
    from unmask.experiments.evaluation.table import table

    tasks: dict[str, list[Group]] = {}
    for group in evaluation.groups:
        tasks.setdefault(group.settings["task"], []).append(group)
    for own in tasks.values():
        for title, head, rows in table(own):
            show_grid(title, head, rows)
    for label, group in zip(labels(evaluation.groups), evaluation.groups, strict=True):
        if group.too_long:
            counted = "counted as incorrect" if evaluation.too_long_is_wrong else "not in the accuracy"
            say(f"{label}: {group.too_long}; {counted}.")
    say(f"{evaluation.directory}")


def _show_wrong(label: str, group: Group) -> None:
    from unmask.core.errors import plain

    print(f"{label}: {', '.join(f'{why}: {count}' for why, count in group.reasons.items())}")
    for sample in [sample for sample in group.samples if sample.why][:SHOWN]:
        text = plain(" ".join(sample.text.split()))
        print(f"  {sample.item}: {sample.why}; answer {sample.answer!r:.80}; ..{text[-160:]}")
    print()


def _only(samples: Sequence[Any], filters: Sequence[str], flag: str) -> Group:
    """Return the setting of the records that the filters select."""
    from unmask.core.errors import UnmaskError
    from unmask.experiments.evaluation import groups, labels

    values = {}
    for text in filters:
        name, equals, value = text.partition("=")
        if not equals:
            raise UnmaskError(f"{flag} is {text!r}; expected NAME=VALUE, for example steps=64")
        values[name] = value
    every = groups(samples)
    matching = [one for one in every if all(str(one.settings.get(name)) == value for name, value in values.items())]
    if len(matching) != 1:
        problem = f"{len(matching)} settings match {flag} {' '.join(filters)}".rstrip()
        raise UnmaskError(f"{problem}; expected one of: {'; '.join(labels(every))}")
    return matching[0]


command = {"run": run, "check": check, "show": show, "compare": compare, "lm-eval": lm_eval}
