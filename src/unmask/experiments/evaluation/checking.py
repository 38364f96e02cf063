"""What becomes of samples: answers are read and held against the truth, programs run, texts judged.

Nothing of it is done while a model writes, so that it can be done again: with another way of reading, other tests, or
another judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from unmask.core import progress
from unmask.core.cores import count
from unmask.hub.answering import before_any
from unmask.tasks import TASKS, Item, Task
from unmask.tasks.sample import TOO_LONG, Sample

if TYPE_CHECKING:
    from unmask.sandbox import Sandbox

NO_ANSWER = "no answer in the text"
WRONG = "another answer"
NOT_RUN = "not run"  # what becomes of programs where nobody has allowed it


def checked(
    samples: Sequence[Sample], task: str, items: Sequence[Item], sandbox: Sandbox | None = None
) -> list[Sample]:
    """The same samples with what is to be said of each."""
    made = TASKS.make(task)
    by_name = {item.name: item for item in items}
    answered = [_read(made, by_name[sample.item], sample) for sample in samples]
    if made.kind == "judged":
        return _judged(answered, made)
    if made.kind == "programs":
        return _run(answered, made, by_name, sandbox)
    return [_held(made, by_name[sample.item], sample) for sample in answered]


def _read(task: Task, item: Item, sample: Sample) -> Sample:
    text = before_any(sample.text, sample.about["how"]["until"])
    answer = None if sample.reason == TOO_LONG else task.answer(item, text)
    why = TOO_LONG if sample.reason == TOO_LONG else "" if answer is not None else NO_ANSWER
    values = dict(task.values(item, answer))
    return msgspec.structs.replace(sample, answer=answer, why=why, right=False if why else None, values=values)


def _held(task: Task, item: Item, sample: Sample) -> Sample:
    if sample.answer is None:
        return sample
    right = task.right(item, sample.answer)
    return msgspec.structs.replace(sample, right=right, why="" if right else WRONG)


def _run(samples: Sequence[Sample], task: Task, items: Mapping[str, Item], sandbox: Sandbox | None) -> list[Sample]:
    """Each program once, however often it was written."""
    if sandbox is None:
        return [sample if sample.why else msgspec.structs.replace(sample, why=NOT_RUN) for sample in samples]
    wanted = {
        (sample.item, sample.answer): task.program(items[sample.item], sample.answer)
        for sample in samples
        if sample.answer is not None
    }
    with (
        progress.track(f"running programs ({sandbox.name})", len(wanted)) as advance,
        ThreadPoolExecutor(count()) as pool,
    ):
        found = {}
        for key, ran in zip(
            wanted,
            pool.map(lambda one: sandbox.check(one.code, one.tests, one.entry or None), wanted.values()),
            strict=True,
        ):
            found[key] = ran
            advance(1)
    return [
        sample
        if sample.answer is None
        else msgspec.structs.replace(
            sample,
            right=found[sample.item, sample.answer].passed,
            why="" if found[sample.item, sample.answer].passed else found[sample.item, sample.answer].why,
            sandbox=sandbox.name,
        )
        for sample in samples
    ]


def _judged(samples: Sequence[Sample], task: Task) -> list[Sample]:
    """Nats a token by the judge, and the entropy of the text's own tokens; nothing of a text without any."""
    from unmask.diagnosis.judge import judge, tokens_of
    from unmask.diagnosis.texts import token_entropy
    from unmask.hub import load_model

    model = load_model(task.judge)
    texts = [sample.answer or "" for sample in samples]
    said = judge(model, texts)
    found = []
    for number, (sample, row) in enumerate(zip(samples, tokens_of(model, texts), strict=True)):
        values = {}
        if len(row):
            values = {"nats": float(said.nats[number]), "entropy": float(token_entropy(row[None])[0])}
        found.append(msgspec.structs.replace(sample, values=values, right=None))
    return found
