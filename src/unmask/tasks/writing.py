"""A model writes the answers of items: one batch, each row with a prompt of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.registry import parse
from unmask.core.samples import digest
from unmask.cost.memory import peak
from unmask.denoisers.marginals import check_sharpening
from unmask.generation import Generation, generate
from unmask.hub import OpenModel
from unmask.hub.answering import before_any, usual
from unmask.hub.chat import Message
from unmask.hub.prompted import Asked, TooLong, ending, ends, rows_of, speaker
from unmask.samplers import SAMPLERS
from unmask.samplers.stopping import Budget
from unmask.schedules import deltas
from unmask.tasks.contract import Item, Task
from unmask.tasks.sample import TOO_LONG, Sample

EOS = {
    "stop": "a row ends with the first end that is written, once all before it is",
    "fill": "the whole canvas is written, and the text ends with the first end in it",
    "never": "no end is ever written (LLaDA's logits_eos_inf)",
    "last": "the whole canvas is written, ends after all else (LLaDA's confidence_eos_eot_inf)",
}


@dataclass(frozen=True)
class How:
    """How answers are written; None: as is usual for the model (hub/answering.py) or the task."""

    length: int | None = None  # tokens of an answer
    sampler: str | None = None
    schedule: str = "linear"
    steps: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    guidance: float = 0.0
    eos: str = "stop"
    until: bool = True  # whether what the task's answers end before ends them
    chat: bool = False  # whether a question is what a user says
    system: str | None = None

    def __post_init__(self) -> None:
        arguments.word("eos", self.eos, EOS)
        temperature = 1.0 if self.temperature is None else self.temperature
        check_sharpening(temperature, 1.0 if self.top_p is None else self.top_p, self.top_k)
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
            raise UnmaskError("the system speaks in conversations alone; say --chat, too")


class Writer:
    """What a model writes for a task in one way, with an account of each sample; about: what else goes into each."""

    def __init__(self, model: OpenModel, task: Task, how: How, about: Mapping[str, Any] | None = None) -> None:
        self.length = task.length if how.length is None else how.length
        self.task, self.how, self.speaker = task, how, speaker(model)
        self.ends, self.strings = ends(model, how.chat)
        self.until = task.until if how.until and not how.chat else ()
        self.rule = None
        if how.eos == "stop":
            self.rule = ending(model, self.until, how.chat)
        elif how.eos == "never":
            self.rule = ending(model, self.until, own=False)
        self.model = model.without(self.ends) if how.eos == "never" else model
        self.options = self._options()
        self.about = dict(about or {}) | {"model": model.source(), "how": self._told()}

    def _options(self) -> dict[str, Any]:
        """Of `generate`."""
        how = self.how
        said = {name: getattr(how, name) for name in ("sampler", "steps", "temperature", "top_p", "top_k")}
        options = usual(self.model, self.length, **said, schedule=how.schedule, guidance=how.guidance)
        if how.eos == "last":
            options["sampler"] = _last(options["sampler"], self.ends)
        return options

    def _told(self) -> dict[str, Any]:
        how = self.how
        named = {
            "length": self.length,
            "eos": how.eos,
            "until": list(self.until),
            "chat": how.chat,
            "system": how.system,
        }
        return named | self.options

    def row(self, item: Item) -> Tensor:
        """The prompt, and hidden places behind it."""
        if self.how.chat:
            first = [] if self.how.system is None else [Message("system", self.how.system)]
            asked = Asked(messages=[*first, *self.task.said(item)])
        else:
            asked = Asked(prompt=self.task.asked(item))
        return rows_of(self.model, [asked], self.length)[0]

    def warm_up(self, item: Item) -> None:
        """One evaluation of one row, which no clock sees: what a device does once is done then."""
        try:
            row = self.row(item)
        except TooLong:
            return
        generate(self.model, given=[row], stop=Budget(1, 0), **self.options)

    def __call__(self, items: Sequence[Item], numbers: Sequence[int], first_row: int, seed: int) -> list[Sample]:
        """One sample of each of these items, rows from first_row on; numbers: which of its item's samples each is."""
        asked: list[tuple[int, Item, int, int]] = []
        rows: list[Tensor] = []
        found: dict[int, Sample] = {}
        for at, one in enumerate(zip(items, numbers, range(first_row, first_row + len(items)), strict=True)):
            try:
                rows.append(self.row(one[0]))
                asked.append((at, *one))
            except TooLong:
                found[at] = self._unasked(*one)
        if rows:
            with peak(self.model.body.device) as most:
                luck = [row for *_, row in asked]
                made = generate(self.model, given=rows, stop=self.rule, seed=seed, first_row=luck, **self.options)
                memory = most()
            for place, (at, item, number, row) in enumerate(asked):
                found[at] = self._sample(made, place, rows[place], item, number, row, memory)
        return [found[at] for at in range(len(items))]

    def _sample(
        self, made: Generation, at: int, row: Tensor, item: Item, number: int, numbered: int, memory: int | None
    ) -> Sample:
        begin, length, rows = len(row) - self.length, int(made.lengths[at]), len(made.tokens)
        tokens = made.tokens[at, begin:length].tolist()
        reason = made.reasons[at]
        if (end := next((place for place, token in enumerate(tokens) if token in self.ends), None)) is not None:
            tokens, reason = tokens[: end + 1], "stopped"
        text = before_any(self.speaker.written(tokens if end is None else tokens[:-1]), self.strings)
        return Sample(
            item=item.name,
            number=number,
            row=numbered,
            about=self.about,
            prompt=self.speaker.decode(row[:begin].tolist()),
            prompt_sha256=digest(row[:begin]),
            prompt_tokens=begin,
            tokens=tokens,
            order=made.order[at, begin : begin + len(tokens)].tolist(),
            reason=reason,
            evaluations={name: int(count[at]) for name, count in made.evaluations_of.items()},
            forwards=made.spent.forwards,
            flops=made.spent.flops / rows,
            seconds=made.seconds / rows,
            memory=memory,
            batch=rows,
            text=text,
        )

    def _unasked(self, item: Item, number: int, row: int) -> Sample:
        nothing: dict[str, Any] = {"prompt": "", "prompt_sha256": "", "prompt_tokens": 0, "tokens": [], "order": []}
        nothing |= {
            "evaluations": {},
            "forwards": 0,
            "flops": 0.0,
            "seconds": 0.0,
            "memory": None,
            "batch": 0,
            "text": "",
        }
        return Sample(item=item.name, number=number, row=row, about=self.about, reason=TOO_LONG, **nothing)


def _last(sampler: str, tokens: Collection[int]) -> str:
    """The same sampler, told which tokens come after all others."""
    name, options = parse("sampler", sampler)
    if "last" not in SAMPLERS.entry(name).options:
        raise UnmaskError(f"eos=last needs a sampler that can be told so, llada or low-confidence; {name} cannot")
    options["last"] = tuple(sorted(tokens))
    return f"{name}({', '.join(f'{option}={value!r}' for option, value in options.items())})"
