"""unmask task list|show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from unmask.cli.options import File, Switch

Name = Annotated[str, "TASK"]


def list_(*, json: Switch = False) -> None:
    """List what models can be asked.

    Examples:
        unmask task list
        unmask task list --json

    A task takes options in brackets: "gsm8k(shots=5, draw=lm-eval)"; one of your
    own is package.module:Name.

    Args:
        json: Print one JSON object, name to {about, specification, options, needed, code}.
    """
    from unmask.cli.catalogue import show_names
    from unmask.tasks import TASKS

    show_names(TASKS, json)


def show(task: Name, /, *, data: File = None, json: Switch = False) -> None:
    """Describe a task: its options, its items, the first question.

    Examples:
        unmask task show sudoku
        unmask task show "gsm8k(shots=2)" --data gsm8k_test.jsonl
        unmask task show humaneval --json

    Args:
        task: A name of `unmask task list`, with options.
        data: The file of its items, where it is not in the directory that UNMASK_DATA names.
        json: Print one JSON object instead of text.
    """
    from unmask.cli.catalogue import show_entry
    from unmask.core.registry import parse
    from unmask.tasks import TASKS
    from unmask.tasks.data import find

    made = TASKS.make(task)
    file = data or (None if made.dataset is None else find(made.dataset))
    more = {"tokens of an answer": made.length, "ends before": list(made.until), "items from": made.source}
    if file is not None or made.dataset is None:
        items = made.items(None if file is None else str(Path(file)))
        more |= {"items": len(items), "first question": made.asked(items[0])}
    show_entry(TASKS.entry(parse("task", task)[0]), more, json)


command = {"list": list_, "show": show}
