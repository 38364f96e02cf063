"""Checks of samples: answers are compared with the solutions, texts judged.

Checks run after all samples are written, so they can be repeated with other options or judges.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unmask.models.open.prompted import before_any
from unmask.tasks import TASKS, Item, Task
from unmask.tasks.sample import Sample

NO_ANSWER = "no answer in the text"
WRONG = "another answer"


def checked(samples: Sequence[Sample], task: str, items: Sequence[Item]) -> list[Sample]:
    """The same samples with their verdicts or values."""
    target = TASKS.make(task)
    by_name = {item.name: item for item in items}
    answered = [_read(target, by_name[sample.item], sample) for sample in samples]
    if target.kind == "judged":
        return _judged(answered, target)
    return [_compared(target, by_name[sample.item], sample) for sample in answered]


def _read(task: Task, item: Item, sample: Sample) -> Sample:
    text = before_any(sample.text, sample.about["how"]["until"])
    if not sample.answered:
        return msgspec.structs.replace(sample, answer=None, why=sample.reason, right=None, values={})
    answer = task.answer(item, text)
    why = "" if answer is not None else NO_ANSWER
    values = dict(task.values(item, answer, text))
    return msgspec.structs.replace(sample, answer=answer, why=why, right=False if why else None, values=values)


def _compared(task: Task, item: Item, sample: Sample) -> Sample:
    if sample.answer is None:
        return sample
    right = task.right(item, sample.answer)
    return msgspec.structs.replace(sample, right=right, why="" if right else WRONG)


def _judged(samples: Sequence[Sample], task: Task) -> list[Sample]:
    """Nats per token by the judge, and the entropy of the tokens; no values for an empty text."""
    from unmask.diagnosis.judge import judge, tokens_of
    from unmask.diagnosis.texts import token_entropy
    from unmask.models.open import load_model

    model = load_model(task.judge)
    texts = [sample.answer or "" for sample in samples]
    scores = judge(model, texts)
    judged = []
    for number, (sample, row) in enumerate(zip(samples, tokens_of(model, texts), strict=True)):
        values = {}
        if len(row):
            values = {"nats": float(scores.nats[number]), "entropy": float(token_entropy(row[None])[0])}
        judged.append(msgspec.structs.replace(sample, values=values, right=None))
    return judged
