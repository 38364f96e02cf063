"""HumanEval: complete a function, checked by tests (Chen et al., arXiv 2107.03374); reads EvalPlus' files, too."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from unmask.core import arguments
from unmask.hub.chat import Message
from unmask.tasks.contract import TASKS, Item, Program, Task
from unmask.tasks.data import Dataset, read
from unmask.tasks.extraction import fenced, functions, longest, parsed

TEST = Dataset(("HumanEval.jsonl.gz", "HumanEval.jsonl"), ("openai/openai_humaneval", None, "test"))
ASK = "Complete this function. Answer with the whole of it, in a block of Python.\n\n```python\n{}\n```"
WAYS = ("sanitized", "raw")
NUMPY = "import numpy as np"
CLOSE = """
class np:
    class ndarray: pass
    float32 = float64 = float
    def allclose(a, b, rtol=1e-05, atol=1e-08):
        if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
            return len(a) == len(b) and all(np.allclose(one, other, rtol, atol) for one, other in zip(a, b))
        return abs(a - b) <= atol + rtol * abs(b)
"""  # replaces numpy, which no jail has: EvalPlus' tests only compare numbers and lists of numbers


class Row(msgspec.Struct, frozen=True):
    task_id: str
    prompt: str
    entry_point: str
    test: str
    canonical_solution: str = ""


@TASKS.register("humaneval")
@dataclass(frozen=True)
class HumanEval(Task):
    """164 functions to complete, without shots; with a file of EvalPlus its tests are used.

    post: "sanitized", the program within the text, without fences and incomplete lines; or "raw", the prompt followed
    by the whole text.
    """

    post: str = "sanitized"

    reading: ClassVar[frozenset[str]] = frozenset({"post"})
    length: ClassVar[int] = 512
    until: ClassVar[tuple[str, ...]] = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint(", "\nassert ", "\n```")
    kind: ClassVar[str] = "programs"
    source: ClassVar[str] = "openai/openai_humaneval, MIT"

    def __post_init__(self) -> None:
        arguments.word("post", self.post, WAYS)

    @property
    def dataset(self) -> Dataset:
        return TEST

    def items(self, data: str | Path | None) -> Sequence[Item]:
        return [Item(row.task_id, row) for row in read(self.dataset, Row, data).valid]

    def prompt(self, item: Item) -> str:
        prompt: str = item.row.prompt
        return prompt

    def messages(self, item: Item) -> Sequence[Message]:
        return [Message("user", ASK.format(item.row.prompt.rstrip()))]

    def answer(self, item: Item, text: str) -> str | None:
        if not text.strip():
            return None
        if self.post == "raw":
            return item.row.prompt + text
        inside = fenced(text)
        code = text if inside is None else inside
        if item.row.entry_point in functions(longest(code)):
            return f"{item.row.prompt}    pass\n\n{longest(code)}"  # keeps the prompt's imports
        return longest(item.row.prompt + code)

    def program(self, item: Item, answer: str) -> Program:
        row = item.row
        tests = f"{helpers(row.prompt, row.entry_point)}{row.test.replace(NUMPY, CLOSE)}"
        return Program(answer, f"{tests}\n\ncheck({row.entry_point})\n", row.entry_point)


def helpers(prompt: str, entry_point: str) -> str:
    """The helper functions and imports of a prompt: tests use these, not the versions of an answer."""
    tree = parsed(prompt)
    nodes = [] if tree is None else [node for node in tree.body if getattr(node, "name", "") != entry_point]
    given = any(isinstance(node, ast.FunctionDef) for node in nodes)
    return "".join(f"{ast.unparse(node)}\n" for node in nodes) if given else ""
