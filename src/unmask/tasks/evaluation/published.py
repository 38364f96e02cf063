"""The job `eval`: a published task, run by lm-eval, for one setting of a model and a sampler.

Its cells are the grid of a figure: accuracy against model calls and seconds, by sampler and number of steps. The cell
keeps its answers (requests.jsonl) and the score and the cost of each item (items.jsonl). After a kill it takes the
answers that are there, so no finished answer is lost.

Tasks that run generated programs, as HumanEval and MBPP, are refused: lm-eval has a switch for them, and no cell sets
it. `unmask eval lm-eval --confirm_run_unsafe_code` is for them; use it in a sandbox.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch

from unmask.core import arguments, entries
from unmask.core.chance import check_seed
from unmask.core.errors import UnmaskError, needed
from unmask.core.estimates import all_or_nothing, bounded_mean, share
from unmask.core.files import make_directory
from unmask.core.means import mean
from unmask.core.reading import fit
from unmask.core.run import Loading
from unmask.experiments.cell import Place, Record, job
from unmask.experiments.jobs.sources import contents, records_of, unchanged
from unmask.experiments.store import FILE, FILES, Store
from unmask.models.open.loading import card_of, here
from unmask.models.open.prompted import Query, answers, usual
from unmask.samplers import SAMPLERS
from unmask.tasks.evaluation.job import loaded
from unmask.tasks.logs import ITEMS, REQUESTS, Outcome, Request, costs_of, is_score, named
from unmask.tasks.logs import read as read_items

JOB, CAUSAL = "eval", "autoregressive"
SECONDS = "seconds_per_item"  # of a record: the time of an item, on the machine of the cell


@dataclass(frozen=True)
class Decoding:
    """How a model writes its answers; None: the usual of the model, as in `unmask eval lm-eval`."""

    sampler: str | None = None
    schedule: str | None = None
    steps: int | None = None
    block_length: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    guidance: float | None = None
    draw: str | None = None


@dataclass(frozen=True)
class Asking:
    """The questions: limit: the first items (default: all); shots: examples before each (default: the task's).

    chat: in the chat template of the model. metric: its metric (default: the first one), "exact_match, strict-match".
    tokens: of an answer, if the task sets none.
    """

    limit: int | None = None
    shots: int | None = None
    chat: bool = False
    metric: str = ""
    tokens: int = 256


def _check(task: str, model: str, loading: Loading, decoding: Decoding, asking: Asking, batch: int, seed: int) -> None:
    """Names and numbers, before hours of work."""
    with needed("lm-eval", "the job `eval`"):
        import lm_eval  # noqa: F401
    for name, value in entries.given({"limit": asking.limit, "steps": decoding.steps}).items():
        arguments.whole(name, value)
    arguments.whole("batch", batch)
    arguments.whole("tokens", asking.tokens)
    check_seed(seed)
    if decoding.sampler is not None:
        SAMPLERS.make(decoding.sampler)

    directory, named = here(model, loading.card)
    if directory is not None:
        card_of(directory, named)


@job(check=_check)
def eval(
    task: str,
    model: str,
    loading: Loading,
    decoding: Decoding,
    asking: Asking,
    place: Place,
    data: str = "",
    digest: str = "",
    batch: int = 1,
    seed: int = 0,
) -> list[Record]:
    """Accuracy and cost of a model on a task of lm-eval.

    data: a directory with tasks of your own, as YAML, in place of lm-eval's. batch: requests computed together.
    """
    unchanged(digest, model, loading.card, data)
    lm = _harness(model, loading, decoding, asking, batch, seed, place.own)
    samples = _run(lm, task, data, asking)
    items = list(_items(samples, lm.records, ", ".join([Path(model).name, *entries.assignments(vars(decoding))])))

    by_metric = entries.grouped(items, lambda line: _metric_of(line["task"]))
    chosen = _metric(list(by_metric), asking.metric)
    place.write(ITEMS, b"".join(json.dumps(line).encode() + b"\n" for line in items))
    kind, writer = ("ar", CAUSAL) if lm.model.card.causal else ("mdm", "llada")
    about = {"metric": chosen, "kind": kind, "sampler": decoding.sampler or writer}
    return _records(by_metric[chosen], about)


def _harness(model: str, loading: Loading, decoding: Decoding, asking: Asking, batch: int, seed: int, own: Path) -> Any:
    """The model of lm-eval, which continues the file of its requests."""
    from unmask.tasks.lm_eval import UnmaskLM

    lm = loaded(contents(model, loading.card), model=model, **vars(loading))
    options: dict[str, Any] = entries.given(vars(decoding))

    # the seconds of the first item must not include the work of a first call
    answers(lm, [Query(prompt=" ")], 1, **usual(lm, 1, **options))
    return UnmaskLM(
        lm,
        record=str(make_directory(own) / REQUESTS),
        resume=True,
        batch_size=batch,
        seed=seed,
        max_gen_toks=asking.tokens,
        **options,
    )


def _run(lm: Any, task: str, data: str, asking: Asking) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The samples of each task of lm-eval."""
    with needed("lm-eval", f"task {task}"):
        from lm_eval import simple_evaluate

    try:
        results = simple_evaluate(
            model=lm,
            tasks=[task],
            num_fewshot=asking.shots,
            limit=asking.limit,
            apply_chat_template=asking.chat,
            task_manager=_tasks(data),
            bootstrap_iters=0,
        )
    except (UnmaskError, OSError, MemoryError):
        raise
    except Exception as error:  # any error of the harness or its tasks
        raise UnmaskError(
            f"lm-eval failed on {task} with {type(error).__name__}: {error}. Expected a task that it runs",
            f"Try `unmask eval lm-eval --tasks {task}`",
        ) from error
    samples: Mapping[str, Sequence[Mapping[str, Any]]] = results["samples"]
    return samples


@cache  # reading thousands of tasks takes seconds
def _tasks(data: str) -> Any:
    """The tasks of lm-eval, or those of a directory."""
    with needed("lm-eval", "published tasks"):
        from lm_eval.tasks import TaskManager

    return TaskManager(include_path=data or None, include_defaults=not data)


def _items(
    samples: Mapping[str, Sequence[Mapping[str, Any]]], requests: Iterable[Mapping[str, Any]], model: str
) -> Iterable[dict[str, Any]]:
    """A line for each item and metric from 0 to 1, with the cost of its requests. model: in words, for all seeds."""
    costs = costs_of(fit(requests, list[Request], "the requests of lm-eval"))

    for task, lines in samples.items():
        for line in lines:
            for metric in filter(lambda metric: is_score(line[metric]), line["metrics"]):
                yield {
                    "model": model,
                    "task": f"{task}: {named(metric, line['filter'])}",
                    "item": f"{task} {line['doc_id']}",
                    "right": float(line[metric]),
                    **costs[task, line["doc_id"]],
                }


def _metric(known: Sequence[str], wanted: str) -> str:
    """The metric of the accuracy: the wanted one, or the first."""
    if not known:
        raise UnmaskError("the task has no score of single items. Expected a metric from 0 to 1. Choose another task")
    if wanted and wanted not in known:
        raise UnmaskError(f"metric is {wanted!r}. Expected one of: {'; '.join(known)}. Change metric")
    return wanted or known[0]


def _records(items: Sequence[Mapping[str, Any]], about: Record) -> list[Record]:
    """Accuracy, and the means of model calls and tokens of an answer, each with `about` and the seconds of an item."""

    def column(name: str) -> torch.Tensor:
        return torch.tensor(list(map(itemgetter(name), items)), dtype=torch.float64)

    scores, calls = column("right"), column("calls")
    estimates = {"accuracy": bounded_mean(scores), "model_calls": mean(calls), "answer_tokens": mean(column("written"))}
    if all_or_nothing(scores):
        estimates["accuracy"] = share(scores == 1)
    more = {SECONDS: float(column("seconds").mean())} | about
    return [one | more for one in records_of(estimates, float(calls.mean()))]


def _metric_of(task: str) -> str:
    """The metric in the name of a task of outcomes."""
    return task.partition(": ")[2]


def has_items(path: Path) -> bool:
    """Whether a directory is a store with the job `eval`."""
    return (path / FILE).is_file() and any((path / FILES).glob(f"*/{ITEMS}"))


def outcomes(path: Path) -> list[Outcome]:
    """The outcomes of the cells of a store; cells that differ only in their seeds are several samples of an item."""
    store = Store.open(path)
    cells = [key for key, cell in store.cells.items() if cell.job == JOB and key in store.done]
    return [one for key in cells for one in read_items(store.place(key) / ITEMS)]


def of_cell(directory: Path, metric: str) -> dict[str, float]:
    """The score of each item of a cell."""
    items = read_items(directory / ITEMS)
    return {str(one.item): one.right for one in items if _metric_of(one.task) == metric}
