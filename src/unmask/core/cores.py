"""Number of threads. It imports no torch, because every command needs it at its start."""

from __future__ import annotations

import os

from unmask.core.arguments import MOST_THREADS, setting


def count() -> int:
    """Number of threads: UNMASK_THREADS, or the number of cores that this process may use."""
    usual = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return setting("UNMASK_THREADS", usual, 1, MOST_THREADS)
