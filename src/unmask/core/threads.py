"""Blocks of rows on several threads: kernels release the interpreter's lock, and rows do not depend on each other.

Threads over blocks scale better than threads inside each call, because the calls of one step are too short. So each
worker gives torch one thread; more would wait for each other in a busy loop and block the cores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from unmask.core import progress
from unmask.core.memory import cores

Result = TypeVar("Result")
_inside = threading.local()


def over_blocks(
    work: Callable[[slice], Result], rows: int, block: int, multiple: int = 8, threads: bool = True
) -> Iterator[Result]:
    """Yield work(rows) for each block of rows, in order, as soon as it is done; inside a worker, without threads.

    A block has at most `block` rows. With several workers, it is smaller if that spreads the rows evenly; its size is a
    multiple of the rows that are computed together: eight by the kernels of exact languages.
    """
    workers = min(cores(), -(-rows // block))
    alone = not threads or workers <= 1 or getattr(_inside, "worker", False)

    size = block
    if not alone:  # the same number of blocks for each worker
        turns = -(-rows // (workers * block))
        each = -(-rows // (workers * turns))
        size = min(block, -(-each // multiple) * multiple)

    blocks = [slice(begin, min(begin + size, rows)) for begin in range(0, rows, size)]
    if alone:
        yield from map(work, blocks)
        return

    usual = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=_mark)
    try:
        yield from pool.map(work, blocks)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(usual)  # a part of this setting is common to all threads


def tracked(
    label: str, work: Callable[[slice], Result], rows: int, block: int, multiple: int = 8, threads: bool = True
) -> list[Result]:
    """The results of `over_blocks`, with the progress over the rows under this label."""

    def one(part: slice) -> tuple[int, Result]:
        return part.stop - part.start, work(part)

    results = []
    with progress.track(label, rows) as advance:
        for size, result in over_blocks(one, rows, block, multiple, threads):
            results.append(result)
            advance(size)
    return results


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Give torch this number of threads inside the block."""
    usual = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def _mark() -> None:
    _inside.worker = True
    torch.set_num_threads(1)
