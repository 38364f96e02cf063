"""The metric of tasks: an open model writes the answers of items, and each sample's record is kept beside the store.

Rows are samples: with `each` of an item, row r is of item r // each, in the order of its file. What is right is not
asked here: answers are read, programs run and texts judged from the records (experiments/evaluation), by whoever has
them, and as often as he likes. So the numbers of a cell are those of the writing alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from unmask.experiments.jobs.cells import digest as of_contents
from unmask.experiments.measures.catalogue import Arguments, Output, Record, Tally, metric
from unmask.experiments.measures.sources import record, unchanged

if TYPE_CHECKING:
    from unmask.hub import OpenModel
    from unmask.tasks import Item
    from unmask.tasks.writing import How, Writer

OF_MODEL = ("model", "card", "causal_model", "device", "dtype", "quantize", "cache")
OF_WRITING = (
    *("length", "sampler", "schedule", "steps", "temperature", "top_p", "top_k", "guidance"),
    *("eos", "until", "chat", "system"),
)
UNKNOWN_SECONDS = 10.0  # a sample of a model of which nothing is known before it is loaded


@lru_cache(maxsize=2)
def items_of(task: str, data: str, digest: str) -> Sequence[Item]:
    from unmask.tasks import TASKS

    return TASKS.make(task).items(data or None)


def how_of(cell: Arguments) -> How:
    from unmask.tasks.writing import How

    return How(**{name: cell[name] for name in OF_WRITING})


@lru_cache(maxsize=1)  # a model may take all the memory there is
def _writer(task: str, model: tuple[Any, ...], writing: tuple[Any, ...], data: str, digest: str) -> Writer:
    import torch

    from unmask.core.files import code
    from unmask.tasks import TASKS
    from unmask.tasks.contract import fingerprint
    from unmask.tasks.writing import Writer

    how = dict(zip(OF_MODEL, model, strict=True))
    files = [how[name] for name in ("model", "card", "causal_model") if how[name] is not None]
    loaded = _model(model, "".join(map(of_contents, files)))
    device = loaded.body.device
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    of = fingerprint(items_of(task, data, digest))
    about = {"task": task, "data": of, "device": named, "threads": torch.get_num_threads(), "code": code()}
    cell = dict(zip(OF_WRITING, writing, strict=True))
    made = Writer(loaded, TASKS.make(task), how_of(cell), about)
    made.warm_up(items_of(task, data, digest)[0])
    return made


@lru_cache(maxsize=1)
def _model(said: tuple[Any, ...], contents: str) -> OpenModel:
    from unmask.hub import load_model

    how = dict(zip(OF_MODEL, said, strict=True))
    return load_model(how.pop("model"), **how)


def _check(cells: Sequence[Arguments]) -> None:
    """Names, files and packages, before hours of work."""
    from unmask.core import arguments
    from unmask.core.errors import UnmaskError
    from unmask.hub.fetch import here
    from unmask.hub.loading import card_of

    for cell in cells:
        arguments.whole("each", cell["each"], 1, 10**4)
        arguments.whole("batch", cell["batch"], 1, arguments.MOST_ROWS)
        how_of(cell)
        for model, card in ((cell["model"], cell["card"]), (cell["causal_model"], None)):
            directory, named = (None, None) if model is None else here(model, card)
            if directory is not None:
                card_of(directory, named)  # which refuses what is no open model
        there = len(items_of(cell["task"], cell["data"], cell["digest"])) * cell["each"]
        if cell["first_row"] + cell["rows"] > there:
            what = f"rows up to {cell['first_row'] + cell['rows']} are asked for, {cell['each']} of each item"
            raise UnmaskError(f"{cell['task']} has {there // cell['each']} items, but {what}; ask for fewer")


def _cost(cell: Arguments) -> float:
    """Seconds, about, of what its shape says."""
    from unmask.core.errors import UnmaskError
    from unmask.cost.needs import look, needs
    from unmask.tasks import TASKS

    length = cell["length"] or TASKS.make(cell["task"]).length
    try:
        card, shaped = look(cell["model"], cell["card"], cell["cache"])
        size = min(2 * length, card.context)
        about = needs(card, shaped, cell["device"], cell["dtype"], cell["quantize"], 1, size, cell["steps"] or length)
    except UnmaskError:
        return UNKNOWN_SECONDS * cell["rows"]
    passes = 2 if card.causal else 1  # an AR model reads its prompt and each token once
    seconds = about.get("seconds_about", UNKNOWN_SECONDS)
    return float(cell["rows"] * seconds / (length / passes if card.causal else 1))


def _records(tally: Tally, **cell: Any) -> list[Record]:
    from unmask.core.estimates import exactly
    from unmask.experiments.measures.tallies import mean

    found = {name: mean(name, tally) for name in ("evaluations", "answer_tokens", "flops")}
    found["prompts_too_long"] = exactly(float(tally["too_long_sum"]), "exact count")
    needed = found["evaluations"].value if found["evaluations"] is not None else None
    return [record(name, estimate, needed) for name, estimate in found.items() if estimate is not None]


@metric(
    "evaluation",
    records=_records,
    check=_check,
    cost=_cost,
    together=lambda cell: int(cell["each"]),
    at_once=lambda cell: int(cell["batch"]),
)
def evaluation(
    *,
    task: str,
    model: str,
    data: str = "",
    digest: str = "",
    card: str | None = None,
    causal_model: str | None = None,
    device: str = "auto",
    dtype: str | None = None,
    quantize: str | None = None,
    cache: str | None = None,
    length: int | None = None,
    sampler: str | None = None,
    schedule: str = "linear",
    steps: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    guidance: float = 0.0,
    eos: str = "stop",
    until: bool = True,
    chat: bool = False,
    system: str | None = None,
    each: int = 1,
    batch: int = 8,
    rows: int = 64,
    first_row: int = 0,
    seed: int = 0,
) -> Output:
    """What an open model writes for a task: its cost, and a record of each sample in a file beside the store.

    each: samples of an item. batch: rows that are written together, and kept together where a run is stopped. The
    options of writing are those of `unmask eval`.
    """
    import torch

    from unmask.core import progress
    from unmask.core.cores import count
    from unmask.core.threads import torch_threads
    from unmask.experiments.measures.tallies import counts, sums
    from unmask.tasks import sample

    given = dict(locals())
    unchanged(digest, *(name for name in (model, causal_model, card, data) if name))
    asked = items_of(task, data, digest)
    writing = tuple(given[name] for name in OF_WRITING)
    numbers = range(first_row, first_row + rows)
    with torch_threads(count()):  # all cores: a large model is one call after another, each long enough to share
        with progress.silent():  # what it tries at first is no part of the rows
            write = _writer(task, tuple(given[name] for name in OF_MODEL), writing, data, digest)
        made = write([asked[row // each] for row in numbers], [row % each for row in numbers], first_row, seed)
    said = [one for one in made if one.reason != sample.TOO_LONG]
    tally = {
        **sums("evaluations", torch.tensor([one.needed for one in said], dtype=torch.float64)),
        **sums("answer_tokens", torch.tensor([len(one.tokens) for one in said], dtype=torch.float64)),
        **sums("flops", torch.tensor([one.flops for one in said], dtype=torch.float64)),
        **counts("too_long", torch.tensor([one.reason == sample.TOO_LONG for one in made])),
    }
    return Output(tally, {f"samples-{first_row:06d}.jsonl": sample.lines(made)})
