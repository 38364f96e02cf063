from __future__ import annotations

import gc
import os

from hypothesis import settings

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Calls of torch and numpy are so short here that their threads would only wait for each other, in a loop, and keep the
cores from the other tests. Before anybody imports them; processes that tests start have the same."""

os.environ.setdefault("UNMASK_THREADS", "1")
"""Threads over blocks so short would wait for each other's lock of the interpreter, at a sixth of what all tests take.
What is shared out over threads is tried with several in tests/core/test_threads.py, and every sampler by the kit."""


settings.register_profile("same", deadline=None, database=None, derandomize=True)
settings.load_profile("same")
"""No test asserts a time, and each tries the same in every run, wherever it does not say otherwise."""


def pytest_collection_finish() -> None:
    """What was imported and collected stays: nobody has to look through it again for what can go."""
    gc.collect()
    gc.freeze()
