"""The answers of an evaluation on a page: those of the chosen setting, the incorrect ones first."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import starmap

from unmask.core.entries import column
from unmask.core.errors import plain
from unmask.report.verdict import Shown
from unmask.tasks.evaluation.records import Group
from unmask.tasks.sample import Sample

SHOWN = 20  # answers of a setting
QUESTION, TEXT = 600, 4000  # characters of their ends
HEAD = """<tr><th scope='col'>item</th><th scope='col'></th><th scope='col'>answer</th>\
<th scope='col'>question and whole text</th></tr>"""


def answered(shown: Shown) -> str:
    """A table for each setting; AR's are on view with every one."""
    parts = ["<section aria-label='Answers'><h2>Answers</h2>"]
    before = set[str]()
    for label, about, group in shown.results.answers:
        at = "" if group.causal else f' data-at="{shown.setting_of(about)}"'
        is_open = " open" * (at not in before)  # the first of each choice
        before.add(at)
        parts.append(f"<details{at}{is_open}><summary>{escape(label)}: {escape(counted(group))}</summary>")
        parts.append(f"{table(chosen(group.samples))}</details>")
    return "\n".join([*parts, "</section>"])


def counted(group: Group) -> str:
    """How many answers are right, and why others are not."""
    written = group.written
    right = column(written, "right").count(True)
    reasons = starmap("{1} {0}".format, group.reasons.items())
    return "; ".join([f"{right} of {len(written)} right", *reasons])


def chosen(samples: Sequence[Sample]) -> list[Sample]:
    """The first incorrect answers, and correct ones if there are fewer."""
    return sorted(samples, key=lambda sample: bool(sample.right))[:SHOWN]


def table(samples: Sequence[Sample]) -> str:
    return f"<table class='words'>{HEAD}\n{''.join(map(row, samples))}</table>"


def row(sample: Sample) -> str:
    verdict = "right" if sample.right else sample.why or sample.reason
    answer = "none" if sample.answer is None else sample.answer
    whole = f"{end(sample.prompt, QUESTION)}<pre class='text'>{end(sample.text, TEXT)}</pre>"
    inside = f"<details><summary>{len(sample.tokens)} tokens, {sample.needed} model calls</summary>{whole}</details>"
    cells = f"<td>{escape(verdict)}</td><td>{end(answer, QUESTION)}</td><td>{inside}</td>"
    return f"<tr><th scope='row'>{escape(sample.item)}</th>{cells}</tr>\n"


def end(text: str, most: int) -> str:
    """The last characters; of a prompt with examples, the question."""
    lines = "\n".join(map(plain, text.split("\n")))
    return escape(lines if len(lines) <= most else f"..{lines[-most:]}")
