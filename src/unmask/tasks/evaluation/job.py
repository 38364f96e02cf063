"""The job of tasks: an open model answers items, and a file next to the store has a record of each sample.

Rows are samples: with `each` samples per item, row r belongs to item r // each, in the order of the file. This job
scores nothing: experiments/evaluation scores the records later, as often as needed. A cell measures only generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.run import Answering, Loading
from unmask.experiments.jobs.catalogue import JOBS, Job, Output, Record, Tally
from unmask.experiments.jobs.sources import record, unchanged
from unmask.experiments.sweeps.cells import digest as of_contents

if TYPE_CHECKING:
    from unmask.models.open import OpenModel
    from unmask.tasks import Item
    from unmask.tasks.exact import CanvasWriter, Ideal
    from unmask.tasks.writing import How, Writer

CANVAS_SECONDS = 2e-3  # per sample of a model without texts
UNKNOWN_SECONDS = 10.0  # per sample of a model, if nothing is known before it is loaded


@lru_cache(maxsize=2)
def items_of(task: str, data: str, digest: str) -> Sequence[Item]:
    from unmask.tasks import TASKS

    return TASKS.make(task).items(data or None)


@lru_cache(maxsize=1)  # a model may take all memory
def _writer(task: str, how: How, data: str, digest: str, contents: str, **model: Any) -> Writer | CanvasWriter:
    import torch

    from unmask.core.files import code
    from unmask.tasks import TASKS
    from unmask.tasks.contract import fingerprint
    from unmask.tasks.exact import CanvasWriter, ideal
    from unmask.tasks.writing import Writer

    about: dict[str, Any] = {"task": task, "data": fingerprint(items_of(task, data, digest)), "code": code()}
    about |= {"threads": torch.get_num_threads(), "device": "cpu"}
    if (known := ideal(model["model"])) is not None:
        return CanvasWriter(known, TASKS.make(task), how, about)
    loaded = _model(contents, **model)
    if loaded.body.device.type == "cuda":
        about["device"] = torch.cuda.get_device_name(loaded.body.device)
    writer = Writer(loaded, TASKS.make(task), how, about)
    writer.refuse_too_long(items_of(task, data, digest))
    writer.warm_up(items_of(task, data, digest)[0])
    return writer


@lru_cache(maxsize=1)
def _model(contents: str, model: str, **how: Any) -> OpenModel:
    from unmask.models.open import load_model

    return load_model(model, **how)


@JOBS.register("evaluation")
@dataclass(frozen=True, kw_only=True)
class Evaluation(Loading, Answering, Job):
    """Samples of an open model for a task: their cost, and a file of records.

    each: samples per item. batch: rows that are generated and stored together. The other options are those of `unmask
    eval`.
    """

    merges = True

    task: str
    model: str
    data: str = ""
    digest: str = ""
    causal_model: str | None = None
    each: int = 1
    batch: int = 8
    rows: int = 64
    first_row: int = 0
    seed: int = 0

    @property
    def how(self) -> How:
        from unmask.tasks.writing import How

        return How(**{one.name: getattr(self, one.name) for one in fields(Answering)})

    @property
    def items(self) -> Sequence[Item]:
        return items_of(self.task, self.data, self.digest)

    def check(self) -> None:
        """Names, files and packages, before hours of work."""
        from unmask.models.open.fetch import here
        from unmask.models.open.loading import card_of
        from unmask.tasks import TASKS

        arguments.whole("each", self.each, 1, 10**4)
        arguments.whole("batch", self.batch, 1, arguments.MOST_ROWS)
        how = self.how
        if self.ideal is not None:
            from unmask.tasks.exact import solved

            task = TASKS.make(self.task)
            solved(self.ideal, task, self.items[0], task.length if how.length is None else how.length)
        for model, card in ((None if self.ideal else self.model, self.card), (self.causal_model, None)):
            directory, named = (None, None) if model is None else here(model, card)
            if directory is not None:
                card_of(directory, named)  # refuses other directories
        if (last := self.first_row + self.rows) > (most := len(self.items) * self.each):
            limit = f"{most} rows, with {self.each} samples of each of {len(self.items)} items"
            raise UnmaskError(f"row {last} is beyond the end of {self.task}. Expected at most {limit}. Reduce rows")

    @cached_property
    def ideal(self) -> Ideal | None:
        from unmask.tasks.exact import ideal

        return ideal(self.model)

    def cost(self) -> float:
        """Estimated seconds, by the model's shape."""
        from unmask.diagnosis.needs import look, needs
        from unmask.tasks import TASKS

        if self.ideal is not None:
            return CANVAS_SECONDS * self.rows
        length = self.length or TASKS.make(self.task).length
        try:
            card, shaped = look(self.model, self.card, self.cache)
            size = min(2 * length, card.context)
            about = needs(card, shaped, self.device, self.dtype, 1, size, self.steps or length)
        except UnmaskError:
            return UNKNOWN_SECONDS * self.rows
        passes = 2 if card.causal else 1  # an AR model processes its prompt and each token once
        seconds = about.get("seconds_about", UNKNOWN_SECONDS)
        return float(self.rows * seconds / (length / passes if card.causal else 1))

    def together(self) -> int:
        return self.each

    def at_once(self) -> int | None:
        return self.batch if self.ideal is None else None  # items with equal answers share a batch

    def measure(self) -> Output:
        import torch

        from unmask.core import progress
        from unmask.core.cores import count
        from unmask.core.threads import torch_threads
        from unmask.experiments.jobs.tallies import counts, sums
        from unmask.tasks import sample

        unchanged(self.digest, *(name for name in (self.model, self.causal_model, self.card, self.data) if name))
        files = [name for name in (self.model, self.card, self.causal_model) if name is not None]
        model = {one.name: getattr(self, one.name) for one in fields(Loading)}
        model |= {"model": self.model, "causal_model": self.causal_model}
        items, each = self.items, self.each
        numbers = range(self.first_row, self.first_row + self.rows)
        with torch_threads(count() if self.ideal is None else 1):  # calls of a large model are sequential and long
            with progress.silent():  # the rows exclude its warm-up
                contents = "".join(map(of_contents, files))
                write = _writer(self.task, self.how, self.data, self.digest, contents, **model)
            rows = [items[row // each] for row in numbers], [row % each for row in numbers]
            samples = write(*rows, self.first_row, self.seed)
        written = [one for one in samples if one.reason != sample.TOO_LONG]
        tally = counts("too_long", torch.tensor([one.reason == sample.TOO_LONG for one in samples]))
        numbered = {
            "model_calls": [one.needed for one in written],
            "answer_tokens": [len(one.tokens) for one in written],
            "flops": [one.flops for one in written],
        }
        for name, values in numbered.items():
            tally |= sums(name, torch.tensor(values, dtype=torch.float64))
        return Output(tally, {f"samples-{self.first_row:06d}.jsonl": sample.lines(samples)})

    def records(self, tally: Tally) -> list[Record]:
        from unmask.core.estimates import exactly
        from unmask.experiments.jobs.tallies import mean

        estimates = {name: mean(name, tally) for name in ("model_calls", "answer_tokens", "flops")}
        estimates["prompts_too_long"] = exactly(float(tally["too_long_sum"]), "exact count")
        needed = None if (calls := estimates["model_calls"]) is None else calls.value
        return [record(name, estimate, needed) for name, estimate in estimates.items() if estimate is not None]
