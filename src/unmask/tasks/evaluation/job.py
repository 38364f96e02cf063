"""The job of tasks: an open model answers items, and a file next to the store has a record of each sample.

Rows are samples: with `each` samples per item, row r belongs to item r // each, in the order of the file. This job
scores nothing: evaluation/run.py scores the records later, as often as needed. A cell measures only generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from unmask.core import arguments, entries, progress
from unmask.core.errors import UnmaskError
from unmask.core.estimates import exactly
from unmask.core.files import code
from unmask.core.memory import cores
from unmask.core.run import Answering, Loading
from unmask.core.threads import torch_threads
from unmask.experiments.cell import Place, Record, Tally, job
from unmask.experiments.jobs.sources import contents, counts, mean, mean_of_calls, records_of, sums, unchanged
from unmask.models.open import OpenModel, load_model
from unmask.models.open.loading import card_of, here
from unmask.tasks import TASKS, Item, sample
from unmask.tasks.contract import fingerprint
from unmask.tasks.exact import CanvasWriter, ideal, solved
from unmask.tasks.writing import How, Writer


@lru_cache(maxsize=2)
def items_of(task: str, data: str, digest: str) -> Sequence[Item]:
    return TASKS.make(task).items(data or None)


@lru_cache(maxsize=1)  # a model may take all memory
def _writer(task: str, how: How, data: str, digest: str, contents: str, **model: Any) -> Writer | CanvasWriter:
    about: dict[str, Any] = {
        "task": task,
        "data": fingerprint(items_of(task, data, digest)),
        "code": code(),
        "threads": torch.get_num_threads(),
        "device": "cpu",
    }

    if (known := ideal(model["model"])) is not None:
        return CanvasWriter(known, TASKS.make(task), how, about)

    reader = loaded(contents, **model)
    if reader.body.device.type == "cuda":
        about["device"] = torch.cuda.get_device_name(reader.body.device)
    writer = Writer(reader, TASKS.make(task), how, about)
    writer.warm_up(items_of(task, data, digest))
    return writer


@lru_cache(maxsize=1)
def loaded(contents: str, model: str, **how: Any) -> OpenModel:
    """The model of a name or a directory with these contents."""
    return load_model(model, **how)


def _records(tally: Tally) -> list[Record]:
    estimates = {name: mean(name, tally) for name in ("model_calls", "answer_tokens", "flops")}
    estimates["prompts_too_long"] = exactly(float(tally["too_long_sum"]), "exact count")
    return records_of(estimates, mean_of_calls(tally))


def _check(
    task: str,
    model: str,
    loading: Loading,
    answering: Answering,
    data: str,
    digest: str,
    causal_model: str | None,
    each: int,
    batch: int,
    rows: int,
    first_row: int,
) -> None:
    """Names, files and packages, before hours of work."""
    arguments.whole("each", each, 1, 10**4)
    arguments.whole("batch", batch, 1, arguments.MOST_ROWS)
    how = How(**vars(answering))
    items = items_of(task, data, digest)
    models: dict[str | None, str | None] = {causal_model: None}
    if (exact := ideal(model)) is None:
        models[model] = loading.card
    else:
        known = TASKS.make(task)
        solved(exact, known, items[0], entries.chosen(how.length, known.length))

    for name in filter(None, models):
        directory, named = here(name, models[name])
        if directory is not None:
            card_of(directory, named)  # refuses other directories

    if (last := first_row + rows) > (most := len(items) * each):
        raise UnmaskError(
            f"row {last} is beyond the end of {task}",
            f"Expected at most {most} rows, with {each} samples of each of {len(items)} items",
            "Reduce rows",
        )


def _size(model: str, each: int, batch: int, rows: int) -> tuple[int, int]:
    """A batch; items with equal answers of a model without texts share one."""
    return (batch if ideal(model) is None else max(rows, 1)), each


@job(records=_records, check=_check, size=_size)
def evaluation(
    task: str,
    model: str,
    loading: Loading,
    answering: Answering,
    place: Place,
    data: str = "",
    digest: str = "",
    causal_model: str | None = None,
    each: int = 1,
    batch: int = 8,
    rows: int = 64,
    first_row: int = 0,
    seed: int = 0,
) -> Tally:
    """Samples of an open model for a task: their cost, and a file of records.

    each: samples per item. batch: rows that are generated and stored together. The other options are those of `unmask
    eval`.
    """
    unchanged(digest, model, causal_model, loading.card, data)
    items = items_of(task, data, digest)

    with torch_threads(cores() if ideal(model) is None else 1):  # calls of a large model are long
        with progress.silent():  # the rows exclude its warm-up
            write = _writer(
                task,
                How(**vars(answering)),
                data,
                digest,
                contents(model, loading.card, causal_model),
                model=model,
                causal_model=causal_model,
                **vars(loading),
            )
        requests = [(items[row // each], row % each) for row in range(first_row, first_row + rows)]
        chosen, numbers = zip(*requests, strict=True)
        samples = write(chosen, numbers, first_row, seed)

    answered = torch.tensor(entries.column(samples, "answered"))
    tally = counts("too_long", ~answered)
    numbered = {
        "model_calls": entries.column(samples, "needed"),
        "answer_tokens": list(map(len, entries.column(samples, "tokens"))),
        "flops": entries.column(samples, "flops"),
    }

    for name, values in numbered.items():
        tally |= sums(name, torch.tensor(values, dtype=torch.float64)[answered])

    place.write(f"{first_row:09d}-{rows}.jsonl", sample.lines(samples))
    return tally
