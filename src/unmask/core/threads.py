"""Rows in blocks over threads: the kernels release the interpreter's lock, and no row depends on its neighbours.

Threads over blocks scale better here than threads inside each call: a round's calls are too short to share. So torch
has one thread in each worker; where it has more they wait for each other in a loop, and keep the cores from the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

from unmask.core.cores import count

Result = TypeVar("Result")
_inside = threading.local()


def over_blocks(work: Callable[[slice], Result], rows: int, block: int, multiple: int = 8) -> Iterator[Result]:
    """work(rows) of each block of rows, in order, each as soon as it is done; inside a worker, one after another.

    A block has at most so many rows, and where there are workers as many as share the rows out evenly among them, in
    multiples of what is computed together: by the kernels of exact languages eight.
    """
    workers = min(count(), -(-rows // block))
    alone = workers <= 1 or getattr(_inside, "worker", False)
    size = block if alone else min(block, _shared_out(rows, block, workers, multiple))
    blocks = [slice(begin, min(begin + size, rows)) for begin in range(0, rows, size)]
    if alone:
        yield from map(work, blocks)
        return
    ours = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=_mark)
    try:
        yield from pool.map(work, blocks)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(ours)  # of which a part is common to all threads


def _shared_out(rows: int, block: int, workers: int, multiple: int) -> int:
    """Rows of a block so that all workers have equally many blocks, in whole multiples."""
    turns = -(-rows // (workers * block))
    each = -(-rows // (workers * turns))
    return -(-each // multiple) * multiple


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """So many threads of torch, and as many as before afterwards."""
    usual = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def _mark() -> None:
    _inside.worker = True
    torch.set_num_threads(1)
