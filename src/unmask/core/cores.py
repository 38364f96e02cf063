"""How many cores share the work. It imports no torch: every command asks, before it begins."""

from __future__ import annotations

import os

from unmask.core.arguments import MOST_THREADS, whole

DIGITS = 20  # of a number that one needs not read


def count() -> int:
    """How many threads share the work: UNMASK_THREADS, or every core that this process may use."""
    wanted = os.environ.get("UNMASK_THREADS")
    if wanted is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = int(wanted) if wanted.isdecimal() and len(wanted) < DIGITS else wanted
    return whole("UNMASK_THREADS", number, 1, MOST_THREADS)
