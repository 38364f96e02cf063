"""Generate the answers to items of a task, in batches with one prompt per sequence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter, itemgetter
from typing import Any

from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError
from unmask.core.run import Answering
from unmask.core.samples import digest
from unmask.core.specs import parse, written
from unmask.denoisers.marginals import check_sharpening
from unmask.models.open import OpenModel
from unmask.models.open.chat import Message
from unmask.models.open.prompted import Query, TooLong, ending, ends, rows_of, speaker, usual
from unmask.planning.clock import peak
from unmask.samplers import SAMPLERS, Generation, generate
from unmask.samplers.schedules import deltas
from unmask.samplers.stopping import Budget
from unmask.tasks.contract import Item, Task
from unmask.tasks.sample import TOO_LONG, Sample, cost_of, too_long

FIRST = 16  # prompts, of which one must fit
GENERATION = ("sampler", "schedule", "steps", "temperature", "top_p", "top_k", "guidance")  # given to `generate`

EOS = {
    "stop": "a sequence ends at its first end token, as soon as all positions before it are written",
    "fill": "all positions are written, and the text is cut at the first end token",
    "never": "end tokens have probability zero (LLaDA's logits_eos_inf)",
    "last": "all positions are written, end tokens after all others (LLaDA's confidence_eos_eot_inf)",
}


@dataclass(frozen=True)
class How(Answering):
    """Checked settings of generation."""

    def __post_init__(self) -> None:
        arguments.word("eos", self.eos, EOS)
        check_sharpening(entries.chosen(self.temperature, 1.0), entries.chosen(self.top_p, 1.0), self.top_k)
        arguments.number("guidance", self.guidance)

        if self.length is not None:
            arguments.length(self.length)
        if self.steps is not None:
            deltas(self.schedule, self.steps)
        if self.sampler is not None:
            SAMPLERS.make(self.sampler)

        arguments.flag("until", self.until)
        arguments.flag("chat", self.chat)
        if self.system is not None and not self.chat:
            raise UnmaskError("--system needs a conversation. Add --chat")


class Writer:
    """Generate samples of a task with one model and setting. `about` is added to the record of each sample."""

    def __init__(self, model: OpenModel, task: Task, how: How, about: Mapping[str, Any] | None = None) -> None:
        self.length = entries.chosen(how.length, task.length)
        self.task, self.how, self.speaker = task, how, speaker(model)
        self.ends = ends(model, how.chat)
        self.until = task.until if how.until and not how.chat else ()

        # an end token stops a row early, or it is never written
        self.model, self.rule = model, None
        if how.eos == "stop":
            self.rule = ending(model, self.until, how.chat)
        elif how.eos == "never":
            self.rule = ending(model, self.until, own=False)
            self.model = model.without(self.ends)

        self.options = self._options()
        self.about = {
            **(about or {}),
            "model": model.source(),
            "how": self._settings(),
            "context": model.length,
        }

    def _options(self) -> dict[str, Any]:
        """Options of `generate`."""
        options = usual(self.model, self.length, **entries.picked(vars(self.how), GENERATION))
        if self.how.eos == "last":
            options["sampler"] = _last(options["sampler"], self.ends)
        return options

    def _settings(self) -> dict[str, Any]:
        return {
            "length": self.length,
            "eos": self.how.eos,
            "until": list(self.until),
            "chat": self.how.chat,
            "system": self.how.system,
            **self.options,
        }

    def row(self, item: Item) -> Tensor:
        """The prompt followed by hidden positions."""
        if not self.how.chat:
            return rows_of(self.model, [Query(prompt=self.task.prompt(item))], self.length)[0]
        messages = list(self.task.messages(item))
        if self.how.system is not None:
            messages.insert(0, Message("system", self.how.system))
        return rows_of(self.model, [Query(messages=messages)], self.length)[0]

    def warm_up(self, items: Sequence[Item]) -> None:
        """Make one model call that is not timed, for the one-time work of the device.

        It is that of the first prompt that fits; an error where none of the first ones does.
        """
        for item in items[:FIRST]:
            with suppress(TooLong):
                generate(self.model, given=[self.row(item)], stop=Budget(1, 0), **self.options)
                return
        count = min(len(items), FIRST)
        what = too_long(count, f"the first {count}", self.model.length)
        raise UnmaskError(f"{what} with {self.length} for the answer", "Give a smaller --length or fewer shots")

    def __call__(self, items: Sequence[Item], numbers: Sequence[int], first_row: int, seed: int) -> list[Sample]:
        """Generate one sample per item, in rows from first_row on. numbers: index of each sample within its item."""

        # a prompt that is too long has a record without an answer
        fitting: list[tuple[Item, int, int]] = []
        rows: list[Tensor] = []
        samples: list[Sample] = []
        for one in zip(items, numbers, range(first_row, first_row + len(items)), strict=True):
            try:
                rows.append(self.row(one[0]))
                fitting.append(one)
            except TooLong:
                samples.append(self._too_long(*one))

        if rows:
            with peak(self.model.body.device) as most:
                first = list(map(itemgetter(-1), fitting))
                result = generate(self.model, given=rows, stop=self.rule, seed=seed, first_row=first, **self.options)
                memory = most()
            for at, one in enumerate(fitting):
                samples.append(self._sample(result, at, rows[at], *one, memory))
        return sorted(samples, key=attrgetter("row"))

    def _sample(
        self, result: Generation, at: int, row: Tensor, item: Item, number: int, numbered: int, memory: int | None
    ) -> Sample:
        begin, length = len(row) - self.length, int(result.lengths[at])
        tokens = result.tokens[at, begin:length].tolist()
        reason = result.reasons[at]
        shown = list(takewhile(lambda token: token not in self.ends, tokens))
        if len(shown) < len(tokens):
            tokens, reason = tokens[: len(shown) + 1], "stopped"

        return Sample(
            item=item.name,
            number=number,
            row=numbered,
            about=self.about,
            prompt=self.speaker.decode(row[:begin].tolist()),
            prompt_sha256=digest(row[:begin]),
            prompt_tokens=begin,
            tokens=tokens,
            order=result.order[at, begin : begin + len(tokens)].tolist(),
            reason=reason,
            memory=memory,
            text=self.speaker.written(shown),
            **cost_of(result, at),
        )

    def _too_long(self, item: Item, number: int, row: int) -> Sample:
        return Sample(
            item=item.name,
            number=number,
            row=row,
            about=self.about,
            prompt="",
            prompt_sha256="",
            prompt_tokens=0,
            tokens=[],
            order=[],
            reason=TOO_LONG,
            model_calls={},
            forwards=0,
            flops=0.0,
            seconds=0.0,
            memory=None,
            batch=0,
            text="",
        )


def _last(sampler: str, tokens: Collection[int]) -> str:
    """The same sampler with the option `last`: it writes these tokens after all others."""
    name, options = parse("sampler", sampler)
    if "last" not in SAMPLERS.entry(name).options:
        raise UnmaskError(f"eos=last is not possible with sampler {name}; expected llada or low-confidence")
    options["last"] = tuple(sorted(tokens))
    return written(name, options)
