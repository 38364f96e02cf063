"""The twin of an item: its right answers as a language, with equal probabilities.

The ideal denoiser of a twin makes no learning errors, so the incorrect answers of a sampler on it are due to the
sampler alone. The way in which names are cut into tokens is part of the twin, because it decides which positions of a
step depend on each other (docs/evaluate.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar

from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.languages.answers import Answers
from unmask.languages.base import LANGUAGES
from unmask.tasks.contract import TASKS, Generated, Item, Task
from unmask.tasks.lists import REQUESTS, listed

CELL = re.compile(r'"([^"]*)"|([^\s,\[\]"]+)')
END = "$"
Tokenize = Callable[[str], Sequence[Hashable]]
MOST_TOKENS = 8  # of an opening, a separator or a closing


def cells(text: str) -> list[str]:
    """The names or cells of an answer, one token each."""
    return [quoted or plain for quoted, plain in CELL.findall(text)]


def cut(symbols: int = 1, separators: Sequence[int] = (0, 0, 0)) -> Tokenize:
    """A tokenizer of `symbols` tokens per name, which are its words, with this many tokens before the first name,
    between two names, and after the last."""
    opening, between, closing = separators

    def tokenize(text: str) -> list[str]:
        tokens = ["["] * opening
        for number, cell in enumerate(cells(text)):
            words = cell.split(" ", symbols - 1)
            if len(words) != symbols:
                raise UnmaskError(f"{cell!r} has {len(words)} words; expected {symbols}. Pass symbols=1")
            tokens += [*([","] * between if number else []), *words]
        return tokens + ["]"] * closing

    return tokenize


def twin(
    texts: Iterable[str], tokenize: Tokenize, length: int | None = None, end: Hashable = END, **options: Any
) -> Answers:
    """The language of texts, such as `task.solutions(item)`: only tokens that occur, padded with the end token.

    length: tokens of the canvas. (default: of the longest text) options: of `Answers`.
    """
    rows = [list(tokenize(text)) for text in texts]
    if not rows:
        raise UnmaskError("there are no texts; expected the right answers of an item")
    longest = max(map(len, rows))
    length = longest if length is None else arguments.length(length)
    if longest > length:
        raise UnmaskError(f"an answer has {longest} tokens, but length is {length}. Pass length={longest}")
    padded = [row + [end] * (length - len(row)) for row in rows]
    ids = {token: number for number, token in enumerate(dict.fromkeys(token for row in padded for token in row))}
    language = Answers([[ids[token] for token in row] for row in padded], len(ids), end=ids.get(end), **options)
    language.name_tokens([f"{'_'.join(str(token).split())} " for token in ids])  # words, which can be read again
    return language


def right_answers(task: Task, item: Item, orders: str = "other") -> list[str]:
    """All right answers, and for orders="all" also the list itself, which a shuffle excludes."""
    texts = task.solutions(item)
    if texts is None:
        raise UnmaskError(f"the right answers of item {item.name} are not listed; expected an item with few of them")
    return [*([listed(item.row.names)] if orders == "all" else []), *texts]


@LANGUAGES.register("twin")
class Twin(Answers):
    """The right answers of one item of a task, all equally likely: an operation on a list of `size` names, or a task.

    task: "shuffle" and other operations of the task `lists`, or a specification: "sudoku(empty=10, unique=False)".
    symbols: tokens per name, 1 or 2. separators: tokens before, between and after the names. length: of the canvas.
    orders: "all" adds the given list to the shuffled ones.
    """

    kind: ClassVar[str] = "twin"

    def __init__(
        self,
        task: str = "shuffle",
        size: int | None = None,
        item: int = 0,
        symbols: int = 1,
        separators: Sequence[int] = (0, 0, 0),
        orders: str = "other",
        length: int | None = None,
    ) -> None:
        arguments.word("orders", orders, ("all", "other"))
        arguments.whole("symbols", symbols, 1, 2)
        if not isinstance(separators, tuple | list) or len(separators) != 3:
            arguments.refuse("separators", separators, "three numbers of tokens: before, between and after the names")
        for count in separators:
            arguments.whole("separators", count, 0, MOST_TOKENS)
        if orders == "all" and task != "shuffle":
            raise UnmaskError("orders='all' adds the given list, which only a shuffle excludes. Leave out orders")
        if size is not None and task not in REQUESTS:
            raise UnmaskError(f"size is for operations on lists; expected {', '.join(REQUESTS)}. Leave out size")
        given = {"task": task, "size": size, "item": item, "symbols": symbols, "separators": tuple(separators)}
        self._given = given | {"orders": orders, "length": length}
        specification = f"lists(operation={task!r}, low={size or 5}, high={size or 5})" if task in REQUESTS else task
        if ":" in specification.partition("(")[0]:  # a language file cannot cause an import
            raise UnmaskError(
                f"task is {shown(task)}; expected a name without ':'. Use unmask.tasks.twin.twin for others"
            )
        source = TASKS.make(specification)
        if not isinstance(source, Generated):  # nor a download
            raise UnmaskError(f"the items of {task} are read from data; expected a task that generates its items")
        items = source.items(None)
        of = items[arguments.whole("item", item, 0, len(items) - 1)]
        table = twin(right_answers(source, of, orders), cut(symbols, separators), length)
        super().__init__(table.answers, table.vocabulary, end=table.end)
        self.name_tokens(table.names)

    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in self._given.items() if value is not None}
